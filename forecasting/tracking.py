"""Adaptive conformal correction: what was said is held against what came, and quantiles learn from their misses.

A fit calibrates on a replay, which has seen its own days; here only forecasts count that were really made. A miss
raises a quantile, a hit lowers it, so that in the long run the share of misses is the nominal one whatever the series
does (Gibbs and Candes 2021; quantile tracking as in Angelopoulos, Candes and Tibshirani 2023). The median is tracked
too: its correction is the drift of the centre, so a bias is taken out and not only covered by wider bands.

Coverage must hold when it matters and not only on average. So the correction is a sum of three that learn alike: of all
origins, of those in the same part of the local day, and of those at which demand is rising (coverage over a class of
groups: Gibbs, Cherian and Candes 2023). It is in units of the distance from the median to the 0.9 quantile.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from forecasting.forecast import QUANTILES
from forecasting.series import Batch, Values

PARTS: Final = 8  # of the local day, of three hours each
# How far a miss moves a quantile, in spreads, before the nominal share is taken off. At 0.99 misses are few, and tell
# more each.
RATE: Final = np.array([0.05, 0.05, 0.15])[None, :, None]
# Outcomes of long horizons come late, and neighbours miss together: they are learned from more slowly.
_SLOWER_A_STEP: Final = 0.25
LEAST, MOST = -1.0, 3.0  # of the whole correction: a few spreads mend a calibration, more is for the next fit
RISING: Final = 1.1
_HOUR_S: Final = 3600
_LEAST_SPREAD: Final = 0.05  # of the level: a forecast that is too sure of itself still has a scale to correct by
_NOMINAL: Final = np.array([1 - quantile for quantile in QUANTILES])[None, :, None]


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """What is known at an origin, by which forecasts from it are corrected."""

    rising: NDArray[np.bool_]  # (series,): demand is well above that of an hour ago
    part: int  # of the local day, below PARTS

    @classmethod
    def at(cls, rising: NDArray[np.bool_], time_of_day: float) -> "Origin":
        """Return the origin at a share of the local day."""
        return cls(rising, int(time_of_day * PARTS) % PARTS)


@dataclass(frozen=True, slots=True, eq=False)
class Tracker:
    """The state of the correction of one target: plain arrays. `say` at each origin, after `hear`.

    The three corrections are (series, quantiles, horizons), that of the parts of the day once for each part.
    """

    horizons: tuple[int, ...]  # in steps
    always: Values
    rising: Values
    parts: Values
    # Of the last origins, the newest last, as many as the longest horizon has steps.
    said: Values  # (origins, series, quantiles, horizons)
    were_rising: NDArray[np.bool_]  # (origins, series)
    were_part: NDArray[np.int64]  # (origins,)

    @classmethod
    def new(cls, series: int, horizons: tuple[int, ...]) -> "Tracker":
        """Return the state of one who has said nothing yet."""
        one = (series, len(QUANTILES), len(horizons))
        origins = max(horizons)
        return cls(
            horizons=horizons,
            always=np.zeros(one),
            rising=np.zeros(one),
            parts=np.zeros((PARTS, *one)),
            said=np.full((origins, *one), np.nan),
            were_rising=np.zeros((origins, series), dtype=bool),
            were_part=np.zeros(origins, dtype=np.int64),
        )

    def say(self, said: Values, origin: Origin, offset: Values, bound: Values) -> tuple["Tracker", Values]:
        """Return the state after, and what is said, corrected: (series, quantiles, horizons), in order and in bounds.

        `offset` and `bound` (series,) are those of the fit.
        """
        correction = self.always + self.parts[origin.part] + np.where(origin.rising[:, None, None], self.rising, 0.0)
        moved = said + np.clip(correction, LEAST, MOST) * _spread(said, offset)
        corrected = np.sort(np.clip(moved, 0.0, bound[:, None, None]), axis=1)
        state = replace(
            self,
            said=np.concatenate([self.said[1:], corrected[None]]),
            were_rising=np.concatenate([self.were_rising[1:], origin.rising[None]]),
            were_part=np.append(self.were_part[1:], origin.part),
        )
        return state, np.asarray(corrected)

    def hear(self, actual: Values) -> "Tracker":
        """Return the state after a point of the grid was measured, before anything is said from it.

        `actual` (series, horizons) is what came of the forecasts for this point: of those made one horizon ago. NaN, an
        outcome that was not measured or a forecast that was not made, teaches nothing.
        """
        always, rising, parts = self.always.copy(), self.rising.copy(), self.parts.copy()
        for place, horizon in enumerate(self.horizons):
            origin = len(self.said) - horizon
            said, came = self.said[origin, :, :, place], actual[:, [place]]
            known = np.isfinite(said) & np.isfinite(came)
            rate = RATE[:, :, 0] / (1 + _SLOWER_A_STEP * horizon)
            lesson = np.where(known, rate * ((came > said) - _NOMINAL[:, :, 0]), 0.0)
            always[:, :, place] += lesson
            parts[self.were_part[origin], :, :, place] += lesson
            rising[:, :, place] += np.where(self.were_rising[origin][:, None], lesson, 0.0)
        return replace(
            self,
            always=np.clip(always, LEAST, MOST),
            rising=np.clip(rising, LEAST, MOST),
            parts=np.clip(parts, LEAST, MOST),
        )


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
