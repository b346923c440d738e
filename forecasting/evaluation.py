"""Rolling-origin evaluation: what each model would have said at every step of the last part of a series, and the score.

The last 30 % are scored, two days at least. An origin is every step; what has a horizon ahead of it is scored when that
has come. Fast models are fitted anew each hour, slow ones each day, always on what lay before. Every model, baselines
too, is calibrated and tracked by the same code, from two days before the scored part on. Weekly experts are absent
below 14 days.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from typing import Final

import numpy as np
from numpy.typing import NDArray

from forecasting.calendar import DAY_S, calendar_of
from forecasting.combination import pinball
from forecasting.contract import Expert, Parameters, Window
from forecasting.experts.boosting import Rows, fit_boosting, training_rows
from forecasting.fitted import TARGETS
from forecasting.forecast import QUANTILES, Target
from forecasting.forecaster import MOST_POINTS, Forecaster, outcomes, quantiles, replayed
from forecasting.series import Batch, Values
from forecasting.tracking import Origin, Tracker, rising_at
from forecasting.window import offset_of

SCORED_SHARE: Final = 0.3
SCORED_DAYS: Final = 2
COVERED: Final = (0.9, 0.99)
# What tracks its own misses has been at it for a while when it is scored, as it has in service.
BURN_IN_DAYS: Final = 2
_REFIT_S = 3600
_REFIT_POINTS = 4  # where a step is so long that an hour holds fewer


@dataclass(frozen=True, slots=True)
class Score:
    """How one model fared on one series, horizon and target."""

    model: str
    horizon_s: int
    target: Target
    mase: (
        float | None
    )  # against the seasonal naive's error in the part before the scored one (Hyndman and Koehler 2006)
    pinball: Mapping[float, float | None]
    coverage: Mapping[float, float | None]
    fit_ms: float | None
    predict_ms: float | None
    origins: int
    # By quantile: how many outcomes were covered, and of how many, for each local hour, and where demand was rising.
    hours: Mapping[float, tuple[NDArray[np.int64], NDArray[np.int64]]] = field(default_factory=dict)
    rising: Mapping[float, tuple[int, int]] = field(default_factory=dict)


def scored_from(batch: Batch) -> int:
    """Return the index of the first scored origin; ValueError where nothing would be left to learn from."""
    day = DAY_S // batch.grid.step_s
    first = min(batch.grid.count - round(SCORED_SHARE * batch.grid.count), batch.grid.count - SCORED_DAYS * day)
    if first < 2 * day:
        raise ValueError(f"a series must hold at least 4 days, was {batch.grid.count / day:.1f} days")
    return first


def evaluate(
    batch: Batch,
    models: Mapping[str, Sequence[Expert]],
    *,
    horizons_s: Sequence[int],
    zone: tzinfo = UTC,
    given: Mapping[str, Parameters] | None = None,
    slow: frozenset[str] = frozenset(),
    refit_s: int = _REFIT_S,
    clock: Callable[[], float] | None = None,
) -> list[Score]:
    """Score models on a batch of one series.

    `given` are parameters found before the scored part (a global model). Experts named in `slow` are fitted once a
    day. Horizons that are no whole number of steps are left out. `clock` (seconds) makes the times; without it they
    are None. ValueError where the series is too short or the batch holds more than one.
    """
    if batch.count != 1:
        raise ValueError(f"batch must hold one series, held {batch.count}")
    usable = tuple(h for h in sorted(horizons_s) if h >= batch.grid.step_s and h % batch.grid.step_s == 0)
    if not usable:
        return []
    run = _Run(
        batch, models, usable, zone, dict(given or {}), slow, max(refit_s, _REFIT_POINTS * batch.grid.step_s), clock
    )
    return run.scores()


def boosting_rows(batch: Batch, horizons_s: Sequence[int], *, zone: tzinfo = UTC, seed: int = 0) -> dict[int, Rows]:
    """Return what the global model may learn from the part of a series before the scored one, by horizon in seconds."""
    usable = tuple(h for h in sorted(horizons_s) if h >= batch.grid.step_s and h % batch.grid.step_s == 0)
    if not usable:
        return {}
    window = Forecaster((), usable, zone).window(batch.until(scored_from(batch)))
    rng = np.random.default_rng(seed)
    return {horizon_s: training_rows(window, horizon_s // batch.grid.step_s, rng) for horizon_s in usable}


def fit_global(rows: Sequence[Mapping[int, Rows]], *, seed: int = 0) -> Parameters:
    """Return one boosted model over the series that the rows are of, each from before its scored part."""
    horizons = sorted({horizon_s for part in rows for horizon_s in part})
    joined = (
        (horizon_s, Rows.joined([part[horizon_s] for part in rows if horizon_s in part])) for horizon_s in horizons
    )
    return fit_boosting(joined, trained_until_s=0.0, seed=seed)


def given_of(batch: Batch, boosting: Parameters, names: Sequence[str]) -> dict[str, Parameters]:
    """Return the global model as what is given to the experts of those names on a series."""
    until_s = batch.grid.start_s + (scored_from(batch) - 1) * batch.grid.step_s
    parameters = {**boosting, "trained_until_s": np.array(float(until_s))}
    return dict.fromkeys(names, parameters)


class _Run:
    """One evaluation: walks over the scored part, a refit at a time."""

    def __init__(
        self, batch: Batch, models: Mapping[str, Sequence[Expert]], horizons_s: tuple[int, ...], zone: tzinfo,
        given: dict[str, Parameters], slow: frozenset[str], refit_s: int, clock: Callable[[], float] | None,
    ) -> None:  # fmt: skip
        self.batch, self.zone, self.given, self.slow = batch, zone, given, slow
        self.clock = clock or (lambda: 0.0)
        self.timed = clock is not None
        experts = {expert.name: expert for members in models.values() for expert in members}
        self.names = list(experts)
        self.all = Forecaster(tuple(experts.values()), horizons_s, zone)
        self.models = {name: replace(self.all, experts=tuple(members)) for name, members in models.items()}
        self.first = scored_from(batch)
        day = DAY_S // batch.grid.step_s
        self.begin = max(2 * day, self.first - BURN_IN_DAYS * day)
        self.every = max(1, refit_s // batch.grid.step_s)
        self.kept: dict[str, Parameters] = {}
        self.offset = float(offset_of(batch.values[:, : self.begin])[0])
        count = batch.grid.count - self.begin
        shape = (len(QUANTILES), len(horizons_s), count)
        self.said = {(name, target): np.full(shape, np.nan) for name in models for target in TARGETS}
        self.seconds = {kind: dict.fromkeys([*self.names, *models], 0.0) for kind in ("fit", "predict")}
        self.fits = 0

    def scores(self) -> list[Score]:
        """Walk over the scored part, and score what was said."""
        day = DAY_S // self.batch.grid.step_s
        refitted = -day
        for origin in range(self.begin, self.batch.grid.count, self.every):
            if origin - refitted >= day:
                self.kept, refitted = {}, origin
            self._refit(origin)
        return [score for target in TARGETS for score in self._scores(target)]

    def _refit(self, origin: int) -> None:
        """Fit on what is known at an origin, and forecast from it and from those until the next fit."""
        recent = self.batch.until(origin + 1, MOST_POINTS)
        window = self.all.window(recent)
        learned = self._learn(window)
        replay = self._predict(learned, window, *replayed(window, self.all.steps(recent)))
        last = min(origin + self.every, self.batch.grid.count)
        later = self.all.window(self.batch.until(last, MOST_POINTS + self.every), window.offset)
        ahead = self._predict(learned, later, last - origin, 1, timed=True)
        where = slice(origin - self.begin, last - self.begin)
        for name, model in self.models.items():
            own = [self.names.index(expert.name) for expert in model.experts]
            start = self.clock()
            fitted = model.calibrate({}, window, recent, replay[:, own])
            self.seconds["fit"][name] += self.clock() - start
            start = self.clock()
            for target in TARGETS:
                self.said[name, target][..., where] = quantiles(fitted, ahead[:, own], target)[0]
            self.seconds["predict"][name] += self.clock() - start
        self.fits += 1

    def _learn(self, window: Window) -> dict[str, Parameters]:
        """Return the parameters of all experts: slow ones are kept for a day."""
        kept = self.given | self.kept
        learned: dict[str, Parameters] = {}
        for expert in self.all.experts:
            start = self.clock()
            learned |= replace(self.all, experts=(expert,)).learn(window, kept)
            self.seconds["fit"][expert.name] += self.clock() - start
        self.kept = {name: parameters for name, parameters in learned.items() if name in self.slow}
        return learned

    def _predict(
        self, learned: Mapping[str, Parameters], window: Window, origins: int, stride: int, *, timed: bool = False
    ) -> Values:
        found = []
        for expert in self.all.experts:
            start = self.clock()
            found.append(replace(self.all, experts=(expert,)).predict(learned, window, origins, stride))
            self.seconds["predict" if timed else "fit"][expert.name] += self.clock() - start
        return np.concatenate(found, axis=1)

    def _scores(self, target: Target) -> list[Score]:
        """Score all models on a target, for each horizon."""
        steps, at = self.all.steps(self.batch), np.arange(self.begin, self.batch.grid.count)
        window = self.all.window(self.batch)
        truth = np.exp(outcomes(window, self.batch, steps, at, target)[0]) - window.offset[0]
        said = np.stack([self.said[name, target] for name in self.models])
        tracked, skip = self._tracked(said, truth), self.first - self.begin
        count = self.batch.grid.count - self.begin
        found = []
        for place, name in enumerate(self.models):
            times = self._milliseconds(name, count)
            for i, horizon in enumerate(steps):
                part = _Said(name, target, horizon, truth[i, skip:], tracked[place, :, i, skip:], *times)
                found.append(_score(self.batch, part, self.first, self.zone))
        return found

    def _tracked(self, said: Values, truth: Values) -> Values:
        """Return what is said after each origin's corrections; the models are as series of one batch here."""
        steps = self.all.steps(self.batch)
        day = calendar_of(self.batch.grid, 0, self.zone).time_of_day
        rising = rising_at(self.batch)[0]
        count = len(said)
        tracker, found = Tracker.new(count, steps, self.batch.grid.step_s), np.full_like(said, np.nan)
        offset, bound = np.full(count, self.offset), np.full(count, np.inf)
        for i in range(said.shape[-1]):
            came = [truth[place, i - step] if i >= step else np.nan for place, step in enumerate(steps)]
            tracker = tracker.hear(np.broadcast_to(np.array(came), (count, len(steps))))
            here = self.begin + i
            origin = Origin(np.full(count, rising[here]), float(day[here]))
            tracker, found[..., i] = tracker.say(said[..., i], origin, offset, bound)
        return found

    def _milliseconds(self, name: str, count: int) -> tuple[float | None, float | None]:
        """Return the milliseconds of a fit and of a forecast, experts included."""
        if not self.timed:
            return None, None
        parts = [name, *(expert.name for expert in self.models[name].experts if expert.name != name)]
        fit = sum(self.seconds["fit"][part] for part in parts) / max(self.fits, 1)
        return 1e3 * fit, 1e3 * sum(self.seconds["predict"][part] for part in parts) / max(count, 1)


@dataclass(frozen=True, slots=True, eq=False)
class _Said:
    """What a model said of one target and horizon, and what came: (quantiles, origins) and (origins,)."""

    model: str
    target: Target
    horizon: int  # in steps
    truth: Values
    said: Values
    fit_ms: float | None
    predict_ms: float | None


def _score(batch: Batch, found: _Said, first: int, zone: tzinfo) -> Score:
    truth, said = found.truth, found.said
    known = np.isfinite(truth) & np.isfinite(said).all(axis=0)
    origins = int(known.sum())
    covered = {q: truth <= said[place] for place, q in enumerate(QUANTILES) if q in COVERED}
    scale = _naive_error(batch, first)
    hour, rising = _hours(batch, first, zone), rising_at(batch)[0, first:]
    median = np.abs(truth - said[QUANTILES.index(0.5)])[known]
    return Score(
        model=found.model,
        horizon_s=found.horizon * batch.grid.step_s,
        target=found.target,
        mase=float(median.mean() / scale) if origins and scale > 0 else None,
        pinball={q: _mean(pinball(q, truth, said[place])[known]) for place, q in enumerate(QUANTILES)},
        coverage={q: _mean(hit[known].astype(float)) for q, hit in covered.items()},
        fit_ms=found.fit_ms,
        predict_ms=found.predict_ms,
        origins=origins,
        hours={q: (_count(hour[known & hit]), _count(hour[known])) for q, hit in covered.items()},
        rising={q: (int((known & hit & rising).sum()), int((known & rising).sum())) for q, hit in covered.items()},
    )


def _mean(values: Values) -> float | None:
    return float(values.mean()) if len(values) else None


def _count(hours: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.bincount(hours, minlength=24)


def _naive_error(batch: Batch, first: int) -> float:
    """Return the mean absolute error of the daily seasonal naive before the scored part."""
    day = DAY_S // batch.grid.step_s
    errors = np.abs(batch.values[0, day:first] - batch.values[0, : first - day])
    known = errors[np.isfinite(errors)]
    return float(known.mean()) if len(known) else 0.0


def _hours(batch: Batch, first: int, zone: tzinfo) -> NDArray[np.int64]:
    time_of_day = calendar_of(batch.grid, 0, zone).time_of_day[first:]
    return np.floor(time_of_day * 24).astype(np.int64) % 24
