"""How well it forecasts recorded traffic: losses beside targets, coverage where it matters, wins against rivals.

The folder of traces is an argument. Series are told apart by the names of their files, into those with a daily season
and bursty ones; nothing else is set for any of them.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC
from fnmatch import fnmatchcase
from math import exp, log
from pathlib import Path
from typing import Final

import numpy as np

from forecasting.evaluation import Score
from forecasting.forecast import Target
from forecasting.models import HEADWAY
from scaler.compose.forecasts import EvaluateRequest, scores_of
from tests.bench.figures import Figure
from tests.bench.figures import Target as Aim

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "daily": (
        "azure_llm_2024_code",
        "servegen_m_small",
        "nasa_http_1995.july",
        "worldcup98.to_jun20",
        "nab_nyc_taxi.jul-oct",
        "bikeshare_hourly.2016-2017",
        "crane_0[0-489]",
    ),
    "bursty": (
        "servegen_m_large.days0-6",
        "burstgpt_week1_tokens",
        "nab_elb_requests",
        "nab_tweets_*",
        "crane_0[56]",
    ),
}
HORIZONS_S: Final = (300, 900, 1800, 3600)
LOSSES: Final = {"daily": (0.29, 0.42, 0.47, 0.57), "bursty": (0.58, 0.73, 0.80, 0.88)}
RIVALS: Final = ("last-value", "seasonal-naive", "last-week", "ets", "arima", "holt-winters")
COVERED: Final = {0.9: Aim(0.88, 0.92), 0.99: Aim(0.98, 0.997)}
LEAST: Final = {0.9: Aim(at_least=0.83), 0.99: Aim(at_least=0.96)}
WINS: Final = Aim(at_least=90.0)
BLOCK_HOURS: Final = 4


def forecast_accuracy(folder: Path, *, quick: bool) -> list[Figure]:
    """Return the figures of the series in a folder that belong to a group; `quick` refits but twice a day."""
    paths = {path: group for path in sorted(folder.iterdir()) if (group := _group(path)) is not None}
    request = EvaluateRequest(
        traces=tuple(paths),
        horizons_s=HORIZONS_S,
        models=(HEADWAY, *RIVALS),
        groups=(),
        unit=None,
        zone=UTC,
        refit_s=43_200.0 if quick else 3600.0,
        workers=2,
    )
    scores = scores_of(request)
    groups = {_name(path): group for path, group in paths.items()}
    found: list[Figure] = []
    for group in LOSSES:
        members = {name: scores[name] for name in scores if groups[name] == group}
        if members:
            found += _losses(group, members) + _coverage(group, members)
    return found + _wins(scores)


def _name(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".csv")


def _group(path: Path) -> str | None:
    if not path.name.endswith((".csv", ".csv.gz")):
        return None
    return next((group for group, globs in GROUPS.items() if any(fnmatchcase(_name(path), g) for g in globs)), None)


def _of(scores: Sequence[Score], model: str, target: Target, horizon_s: int) -> Score | None:
    chosen = (s for s in scores if (s.model, s.target, s.horizon_s) == (model, target, horizon_s) and s.origins)
    return next(chosen, None)


def _losses(group: str, members: Mapping[str, Sequence[Score]]) -> list[Figure]:
    title = f"{group}: pinball loss at 0.9 over the calibrated seasonal naive's, geometric mean"
    found = []
    for horizon_s, limit in zip(HORIZONS_S, LOSSES[group], strict=True):
        ratios = [ratio for scores in members.values() if (ratio := _ratio(scores, horizon_s)) is not None]
        mean = exp(sum(map(log, ratios)) / len(ratios)) if ratios else float("nan")
        name = f"{horizon_s // 60} min ahead, {len(ratios)} series"
        found.append(Figure(title, name, "ratio", mean, Aim(at_most=limit)))
    return found


def _ratio(scores: Sequence[Score], horizon_s: int) -> float | None:
    own = _of(scores, HEADWAY, Target.POINT, horizon_s)
    naive = _of(scores, "seasonal-naive", Target.POINT, horizon_s)
    if own is None or naive is None:
        return None
    mine, theirs = own.pinball[0.9], naive.pinball[0.9]
    return None if mine is None or not theirs else mine / theirs


def _coverage(group: str, members: Mapping[str, Sequence[Score]]) -> list[Figure]:
    found = []
    for target in Target:
        title = f"{group}: coverage of {'points' if target is Target.POINT else 'window maxima'}, pooled"
        for horizon_s in HORIZONS_S:
            own = [s for scores in members.values() if (s := _of(scores, HEADWAY, target, horizon_s)) is not None]
            for q, aim in COVERED.items() if own else ():
                hours = [np.array([s.hours[q][i] for s in own]).sum(axis=0) for i in (0, 1)]
                blocks = [part.reshape(-1, BLOCK_HOURS).sum(axis=1) for part in hours]
                rising = [sum(s.rising[q][i] for s in own) for i in (0, 1)]
                ahead, least = f"{horizon_s // 60} min, {q:g}", LEAST[q]
                found += [
                    Figure(title, ahead, "", float(hours[0].sum() / hours[1].sum()), aim),
                    Figure(title, f"{ahead}, worst block of 4 hours", "", float((blocks[0] / blocks[1]).min()), least),
                    Figure(title, f"{ahead}, worst single hour", "", float((hours[0] / hours[1]).min())),
                    Figure(title, f"{ahead}, rising demand", "", rising[0] / max(rising[1], 1), least),
                ]
    return found


def _wins(scores: Mapping[str, Sequence[Score]]) -> list[Figure]:
    title = (
        f"share of series with a lower mean pinball loss at 0.9 over the horizons than the rival ({len(scores)} series)"
    )
    found = []
    for rival in RIVALS:
        ratios = {name: r for name, series in scores.items() if (r := _mean_ratio(series, rival)) is not None}
        if ratios:
            worst = max(ratios, key=lambda name: ratios[name])
            share = 100 * sum(ratio < 1 for ratio in ratios.values()) / len(ratios)
            label = f"{rival} (worst: {worst}, {ratios[worst]:.2f})"
            found.append(Figure(title, label, "%", share, WINS))
    return found


def _mean_ratio(scores: Sequence[Score], rival: str) -> float | None:
    """Return our mean loss over the rival's, over the horizons at which both have a figure."""
    pairs = []
    for horizon_s in HORIZONS_S:
        own, other = (_of(scores, model, Target.POINT, horizon_s) for model in (HEADWAY, rival))
        if own is not None and other is not None:
            pairs.append((own.pinball[0.9] or 0.0, other.pinball[0.9] or 0.0))
    total = sum(theirs for _, theirs in pairs)
    return sum(mine for mine, _ in pairs) / total if total else None
