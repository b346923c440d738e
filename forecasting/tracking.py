"""Adaptive conformal correction: what was said is held against what came, and quantiles learn from their misses.

A fit calibrates on a replay, which has seen its own days; here only forecasts count that were really made. A miss
raises a quantile, a hit lowers it, so that in the long run the share of misses is the nominal one whatever the series
does (Gibbs and Candes 2021; quantile tracking as in Angelopoulos, Candes and Tibshirani 2023). The median is tracked
too: its correction is the drift of the centre, so a bias is taken out and not only covered by wider bands.

Coverage must hold when it matters and not only on average. So the correction is the sum of those of the groups that an
origin belongs to: all origins, those in the same part of the local day, those at which demand is rising, and those
within an hour of a surprise, an outcome above the 0.99 quantile (coverage over a class of groups: Gibbs, Cherian and
Candes 2023). Each learns from the outcomes of its own. Corrections are in units of the distance from the median to the
0.9 quantile.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from forecasting.forecast import QUANTILES
from forecasting.series import Batch, Values

PARTS: Final = 8  # of the local day, of three hours each
# The groups: everything, each part of the day, rising demand, after a surprise.
_RISING, _SURPRISED = PARTS + 1, PARTS + 2
GROUPS: Final = PARTS + 3
# How far a miss moves a quantile, in spreads, before the nominal share is taken off. At 0.99 misses are few, and tell
# more each.
RATE: Final = np.array([0.05, 0.05, 0.15])[None, :]
# Outcomes of long horizons come late, and neighbours miss together: they are learned from more slowly.
SLOWER_A_STEP: Final = 0.25
LEAST, MOST = -1.0, 3.0  # of the whole correction: a few spreads mend a calibration, more is for the next fit
RISING: Final = 1.1
_HOUR_S: Final = 3600
_LEAST_SPREAD: Final = 0.05  # of the level: a forecast that is too sure of itself still has a scale to correct by
_NOMINAL: Final = np.array([1 - quantile for quantile in QUANTILES])[None, :]


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """What is known at an origin, by which forecasts from it are corrected."""

    rising: NDArray[np.bool_]  # (series,): demand is well above that of an hour ago
    time_of_day: float  # share of the local day


@dataclass(frozen=True, slots=True, eq=False)
class Tracker:
    """The state of the correction of one target: plain arrays. At each point of the grid `hear`, then `say`."""

    horizons: tuple[int, ...]  # in steps
    hour: int  # in steps, at least one
    corrections: Values  # (groups, series, quantiles, horizons)
    surprised: NDArray[np.int64]  # (series,): points that are still within an hour of a surprise
    # Of the last origins, the newest last, as many as the longest horizon has steps.
    said: Values  # (origins, series, quantiles, horizons)
    members: NDArray[np.bool_]  # (origins, groups, series)

    @classmethod
    def new(cls, series: int, horizons: tuple[int, ...], step_s: int) -> "Tracker":
        """Return the state of one who has said nothing yet; horizons are in steps of the grid, ascending."""
        one = (series, len(QUANTILES), len(horizons))
        return cls(
            horizons=horizons,
            hour=max(1, _HOUR_S // step_s),
            corrections=np.zeros((GROUPS, *one)),
            surprised=np.zeros(series, dtype=np.int64),
            said=np.full((max(horizons), *one), np.nan),
            members=np.zeros((max(horizons), GROUPS, series), dtype=bool),
        )

    def say(self, said: Values, origin: Origin, offset: Values, bound: Values) -> tuple["Tracker", Values]:
        """Return the state after, and what is said, corrected: (series, quantiles, horizons), in order and in bounds.

        `offset` and `bound` (series,) are those of the fit.
        """
        member = self._member(origin)
        correction = (member[:, :, None, None] * self.corrections).sum(axis=0)
        moved = said + np.clip(correction, LEAST, MOST) * _spread(said, offset)
        corrected = np.asarray(np.sort(np.clip(moved, 0.0, bound[:, None, None]), axis=1))
        state = replace(
            self,
            said=np.concatenate([self.said[1:], corrected[None]]),
            members=np.concatenate([self.members[1:], member[None]]),
        )
        return state, corrected

    def hear(self, actual: Values) -> "Tracker":
        """Return the state after a point of the grid was measured, before anything is said from it.

        `actual` (series, horizons) is what came of the forecasts for this point: of those made one horizon ago. NaN, an
        outcome that was not measured or a forecast that was not made, teaches nothing.
        """
        corrections, surprised = self.corrections.copy(), np.maximum(self.surprised - 1, 0)
        for place, horizon in enumerate(self.horizons):
            origin = len(self.said) - horizon
            said, came = self.said[origin, :, :, place], actual[:, [place]]
            known = np.isfinite(said) & np.isfinite(came)
            missed = known & (came > said)
            lesson = np.where(known, missed - _NOMINAL, 0.0) * RATE / (1 + SLOWER_A_STEP * horizon)
            corrections[..., place] += self.members[origin][:, :, None] * lesson
            if place == 0:
                surprised = np.where(missed[:, -1], self.hour, surprised)
        return replace(self, corrections=np.clip(corrections, LEAST, MOST), surprised=surprised)

    def _member(self, origin: Origin) -> NDArray[np.bool_]:
        """Return which series belong to which group at an origin, (groups, series)."""
        member = np.zeros((GROUPS, len(self.surprised)), dtype=bool)
        member[0] = True
        member[1 + int(origin.time_of_day * PARTS) % PARTS] = True
        member[_RISING] = origin.rising
        member[_SURPRISED] = self.surprised > 0
        return member


def rising_at(batch: Batch) -> NDArray[np.bool_]:
    """Return where demand is well above that of an hour ago, or of a longer step ago: (series, points)."""
    steps = max(1, _HOUR_S // batch.grid.step_s)
    found = np.zeros(batch.values.shape, dtype=bool)
    found[:, steps:] = batch.values[:, steps:] > RISING * batch.values[:, :-steps]
    return found


def _spread(said: Values, offset: Values) -> Values:
    """Return the distance from the median to the 0.9 quantile, (series, 1, horizons)."""
    middle, upper = said[:, [QUANTILES.index(0.5)]], said[:, [QUANTILES.index(0.9)]]
    return np.maximum(upper - middle, _LEAST_SPREAD * (middle + offset[:, None, None]))
