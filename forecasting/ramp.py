"""Ramps: where a rise of the last minutes leads to, if it goes on for one lead time."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from forecasting.series import Values

# What a ramp may reach, as a multiple of the present level: few services double within a lead time and go on.
GROWTH_LIMIT: Final = 3.0
# A slope counts when it is so many times its own uncertainty: of a dozen points of noise one series in 100 passes.
SIGNIFICANT: Final = 5.0
_LEAST_POINTS: Final = 4


@dataclass(frozen=True, slots=True, eq=False)
class Ramp:
    """A straight line through the last rates: (series,) each. A slope that is not significant is 0."""

    level: Values  # at the last point
    slope: Values  # per second
    uncertainty: Values  # of the slope, one standard deviation

    def ahead(self, lead_s: float) -> Values:
        """Return the level after a lead time, (series,): never negative, at most `GROWTH_LIMIT` times the present.

        A falling line is not extrapolated: a forecast may only raise.
        """
        risen = self.level + np.maximum(self.slope, 0.0) * lead_s
        return np.asarray(np.clip(risen, 0.0, GROWTH_LIMIT * np.maximum(self.level, 0.0)))


def fit_ramp(rates: Values, step_s: float) -> Ramp:
    """Return the ramp of the last rates (series, points), the newest last, by Theil and Sen's slope (Sen 1968).

    The median of the slopes of all pairs does not follow one odd point. NaN is left out; with fewer than four points
    known there is no slope, and the level is the last known rate, or NaN.
    """
    points = rates.shape[1]
    first, second = np.triu_indices(points, k=1)
    slopes = (rates[:, second] - rates[:, first]) / ((second - first) * step_s)
    enough = np.isfinite(rates).sum(axis=1) >= _LEAST_POINTS
    slope = np.where(enough, _median(slopes), 0.0)
    at_s = (np.arange(points) - (points - 1)) * step_s
    level = _median(rates - slope[:, None] * at_s)
    scatter = 1.4826 * _median(np.abs(rates - level[:, None] - slope[:, None] * at_s))
    known = np.isfinite(rates)
    spread = np.sqrt(np.maximum((known * (at_s - _mean_time(known, at_s)[:, None]) ** 2).sum(axis=1), 1e-12))
    uncertainty = np.where(enough, scatter / spread, np.inf)
    significant = enough & (np.abs(slope) > SIGNIFICANT * uncertainty)
    return Ramp(np.where(significant, level, _newest(rates)), np.where(significant, slope, 0.0), uncertainty)


def _mean_time(known: Values, at_s: Values) -> Values:
    return np.asarray((known * at_s).sum(axis=1) / np.maximum(known.sum(axis=1), 1))


def _median(rows: Values) -> Values:
    """Return the median of what is known in each row; NaN where nothing is."""
    ordered = np.sort(rows, axis=1)
    count = np.isfinite(rows).sum(axis=1)
    here = np.arange(len(rows))
    last = rows.shape[1] - 1
    low = ordered[here, np.clip((count - 1) // 2, 0, last)]
    high = ordered[here, np.clip(count // 2, 0, last)]
    return np.where(count > 0, (low + high) / 2, np.nan)


def _newest(rates: Values) -> Values:
    known = np.isfinite(rates)
    place = rates.shape[1] - 1 - known[:, ::-1].argmax(axis=1)
    return np.where(known.any(axis=1), rates[np.arange(len(rates)), place], np.nan)
