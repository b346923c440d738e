"""Forecasts and their evaluation from trace files: reads them, spreads the work, and gathers what came out."""

import fnmatch
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress

from forecasting import models
from forecasting.contract import Parameters
from forecasting.evaluation import Score, boosting_rows, evaluate, fit_global, given_of, scored_from
from forecasting.fitted import TARGETS
from forecasting.forecast import QUANTILES, Absent, Target
from forecasting.forecaster import Forecaster
from forecasting.readiness import readiness
from forecasting.series import Batch, Values
from scaler.parallel import Backend, Mapper, mapper
from scaler.report.forecast_documents import (
    EvaluateDocument,
    ForecastDocument,
    ForecastPoint,
    SeriesScore,
    Summary,
)
from scaler.traces.read import read_trace
from scaler.traces.series import batch_of, horizons_of

NAIVE = "seasonal-naive"
_POINTS = 6  # of a forecast, each with a model of its own
MOST_HORIZON_S = 6 * 3600  # beyond it a season is all that is known, and pre-warming has no use for it


@dataclass(frozen=True, slots=True)
class ForecastRequest:
    """What to forecast."""

    trace: Path
    horizon_s: float
    quantiles: tuple[float, ...]
    unit: str | None
    zone: tzinfo


@dataclass(frozen=True, slots=True, eq=False)
class TraceForecast:
    """A forecast, and the series that it was made from."""

    document: ForecastDocument
    batch: Batch
    zone: tzinfo


def forecast_trace(request: ForecastRequest) -> TraceForecast:
    """Forecast from the end of a trace, at a few horizons up to the one that was asked for.

    TraceError for a file that cannot be read; ValueError for a horizon that is out of range.
    """
    trace = read_trace(request.trace, request.zone)
    batch = batch_of(trace, request.unit)
    step_s = batch.grid.step_s
    if not step_s <= request.horizon_s <= MOST_HORIZON_S:
        raise ValueError(f"--horizon must be {step_s} s .. {MOST_HORIZON_S} s, was {request.horizon_s:g} s")
    steps = int(request.horizon_s // step_s)
    chosen = sorted({max(1, round(steps * part / _POINTS)) for part in range(1, _POINTS + 1)})
    forecaster = Forecaster(models.MODELS[models.HEADWAY], tuple(step * step_s for step in chosen), request.zone)
    absent = readiness(batch)[0]
    document = _document(request, trace.name, batch, absent)
    if absent is not None:
        return TraceForecast(document, batch, request.zone)
    with _console().status("fitting"):
        fitted = forecaster.fit(batch, _global_of(batch, forecaster))
    found = forecaster.forecast(fitted, batch)
    points = [_point(found.times_s[i], h, found.point[0, i], found.window_max[0, i], request.quantiles)
              for i, h in enumerate(found.horizons_s)]  # fmt: skip
    weights = fitted.targets[Target.WINDOW_MAX].weights[0, :, -1, QUANTILES.index(0.9)]
    names = [expert.name for expert in forecaster.experts]
    shares = {name: float(weights[i] + weights[i + len(names)]) for i, name in enumerate(names)}
    update = {"forecasts": points, "weights": {name: share for name, share in shares.items() if share > 0}}
    return TraceForecast(document.model_copy(update=update), batch, request.zone)


def _console() -> Console:
    """Return where progress is shown: nothing is where no person looks."""
    console = Console(stderr=True)
    return console if console.is_terminal else Console(stderr=True, quiet=True)


def _global_of(batch: Batch, forecaster: Forecaster) -> dict[str, Parameters]:
    """Return the boosted model of this one series, for both of its quantiles."""
    expert = models.BOOSTING[0]
    parameters = expert.fit(forecaster.window(batch), forecaster.steps(batch))
    return dict.fromkeys([expert.name for expert in models.BOOSTING], parameters)


def _document(request: ForecastRequest, name: str, batch: Batch, absent: Absent | None) -> ForecastDocument:
    level = batch.values[0, -1]
    return ForecastDocument(
        trace=name,
        at=_iso(batch.grid.last_s),
        unit=request.unit or "of the trace",
        level=float(level) if np.isfinite(level) else None,
        forecasts=[],
        weights={},
        absent=None if absent is None else absent.reason,
        ready_at=None if absent is None or absent.ready_at_s is None else _iso(absent.ready_at_s),
    )


def _point(at_s: float, horizon_s: int, point: Values, window_max: Values, wanted: Sequence[float]) -> ForecastPoint:
    return ForecastPoint(
        horizon_s=horizon_s,
        at=_iso(at_s),
        point={f"{q:g}": between(point, q) for q in wanted},
        window_max={f"{q:g}": between(window_max, q) for q in wanted},
    )


def between(values: Values, quantile: float) -> float:
    """Return a quantile between those that are calibrated, as if errors were normal from one to the next."""
    normal = NormalDist()
    known = [0.0, *(normal.inv_cdf(q) for q in QUANTILES[1:])]
    return float(np.interp(normal.inv_cdf(quantile), known, values))


def _iso(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, tz=UTC).isoformat().replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class EvaluateRequest:
    """What to score. No models are all of them."""

    traces: tuple[Path, ...]
    horizons_s: tuple[float, ...]
    models: tuple[str, ...]
    groups: tuple[tuple[str, str], ...]
    unit: str | None
    zone: tzinfo
    refit_s: float = 3600.0
    backend: Backend = Backend.LOKY
    address: str | None = None
    workers: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    """One series and what is to be done with it: a whole unit of work for a process."""

    name: str
    batch: Batch
    horizons_s: tuple[int, ...]
    models: tuple[str, ...]
    zone: tzinfo
    refit_s: int


def evaluate_traces(request: EvaluateRequest) -> EvaluateDocument:
    """Score models on recorded series. TraceError or ValueError name what cannot be used."""
    scored = scores_of(request)
    groups = {name: _group_of(name, request.groups) for name in scored}
    series = [_series_score(name, groups[name], score) for name, scores in scored.items() for score in scores]
    return EvaluateDocument(series=series, summary=_summaries(series))


def scores_of(request: EvaluateRequest) -> dict[str, list[Score]]:
    """Return the scores of each trace, by its name."""
    chosen = _models(request.models)
    jobs = [_job(path, request, chosen) for path in request.traces]
    names = [job.name for job in jobs]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"--trace must name each trace once, {name} was named {names.count(name)} times")
    with mapper(request.backend, request.workers, request.address) as over:
        boosting = _global(jobs, chosen, over)
        return _progressed(jobs, boosting, over)


def _models(wanted: Sequence[str]) -> tuple[str, ...]:
    """Return the models to score; the seasonal naive is always among them, since ratios are to it."""
    for name in wanted:
        if name not in models.MODELS:
            raise ValueError(f"--model must be one of {', '.join(models.MODELS)}, was {name}")
    found = tuple(wanted) or tuple(models.MODELS)
    return found if NAIVE in found else (*found, NAIVE)


def _job(path: Path, request: EvaluateRequest, chosen: tuple[str, ...]) -> _Job:
    trace = read_trace(path, request.zone)
    batch = batch_of(trace, request.unit)
    try:
        scored_from(batch)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return _Job(trace.name, batch, horizons_of(batch, request.horizons_s), chosen, request.zone, int(request.refit_s))


def _global(jobs: Sequence[_Job], chosen: Sequence[str], over: Mapper) -> Parameters | None:
    """Fit the model that all series share, a horizon at a time; None where no chosen model has it."""
    wanted = {expert.name for name in chosen for expert in models.MODELS[name]}
    if not wanted & {expert.name for expert in models.BOOSTING}:
        return None
    rows = [boosting_rows(job.batch, job.horizons_s, zone=job.zone, seed=i) for i, job in enumerate(jobs)]
    horizons = sorted({horizon_s for part in rows for horizon_s in part})
    parts = [[{h: part[h]} for part in rows if h in part] for h in horizons]
    fitted: dict[str, Any] = {}
    for found in over(fit_global, parts):
        fitted |= found
    return fitted


def _progressed(jobs: Sequence[_Job], boosting: Parameters | None, over: Mapper) -> dict[str, list[Score]]:
    console = _console()
    with Progress(console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task("scoring", total=len(jobs))
        found = {}
        # The longest first: nobody waits for one that began last.
        order = sorted(jobs, key=lambda job: -job.batch.grid.count)
        for job, scores in zip(order, over(_Scorer(boosting), order), strict=True):
            found[job.name] = scores
            progress.advance(task)
    return {job.name: found[job.name] for job in jobs}


@dataclass(frozen=True, slots=True, eq=False)
class _Scorer:
    """Scores one job; travels to the process that does it."""

    boosting: Parameters | None

    def __call__(self, job: _Job) -> list[Score]:
        given: Mapping[str, Parameters] = {}
        if self.boosting is not None:
            given = given_of(job.batch, self.boosting, [expert.name for expert in models.BOOSTING])
        return evaluate(
            job.batch,
            {name: models.MODELS[name] for name in job.models},
            horizons_s=job.horizons_s,
            zone=job.zone,
            given=given,
            slow=models.SLOW,
            refit_s=job.refit_s,
            clock=time.process_time,
        )


def _group_of(name: str, groups: Sequence[tuple[str, str]]) -> str:
    return next((group for group, glob in groups if fnmatch.fnmatchcase(name, glob)), "other")


def _series_score(name: str, group: str, score: Score) -> SeriesScore:
    return SeriesScore(
        trace=name,
        model=score.model,
        horizon_s=score.horizon_s,
        group=group,
        target=score.target.value,
        mase=score.mase,
        pinball={f"{q:g}": value for q, value in score.pinball.items()},
        coverage={f"{q:g}": value for q, value in score.coverage.items()},
        fit_ms=score.fit_ms,
        predict_ms=score.predict_ms,
        origins=score.origins,
    )


def _summaries(series: Sequence[SeriesScore]) -> list[Summary]:
    naive = {(s.trace, s.horizon_s, s.target): s for s in series if s.model == NAIVE}
    keys = {(s.model, s.group, s.horizon_s, str(s.target)) for s in series}
    order = {name: i for i, name in enumerate(models.MODELS)}
    targets = [target.value for target in TARGETS]
    found = []
    for model, group, horizon_s, target in sorted(keys, key=lambda k: (k[1], targets.index(k[3]), k[2], order[k[0]])):
        key = (model, group, horizon_s, target)
        members = [s for s in series if (s.model, s.group, s.horizon_s, s.target) == key]
        pairs = [(s, naive[s.trace, s.horizon_s, s.target]) for s in members]
        found.append(
            Summary(
                model=model,
                group=group,
                horizon_s=horizon_s,
                target=members[0].target,
                series=sum(s.origins > 0 for s in members),
                mase_ratio=_mean_ratio([(s.mase, other.mase) for s, other in pairs]),
                pinball_ratio={
                    q: _mean_ratio([(s.pinball[q], other.pinball[q]) for s, other in pairs]) for q in members[0].pinball
                },
                coverage={q: _pooled([(s.coverage[q], s.origins) for s in members]) for q in members[0].coverage},
            )
        )
    return found


def _mean_ratio(pairs: Sequence[tuple[float | None, float | None]]) -> float | None:
    """Return the geometric mean of the ratios of those pairs that have both figures."""
    ratios = [a / b for a, b in pairs if a and b]
    return float(np.exp(np.mean(np.log(ratios)))) if ratios else None


def _pooled(parts: Sequence[tuple[float | None, int]]) -> float | None:
    known = [(share, count) for share, count in parts if share is not None and count]
    total = sum(count for _, count in known)
    return sum(share * count for share, count in known) / total if total else None
