"""Calibration: from an expert's number to a quantile, by how far off it was in the recent replay.

Split-conformal prediction on the last days (Vovk, Gammerman and Shafer 2005; Lei et al. 2018), for each series,
expert, horizon, quantile and target apart. What an expert thinks of its own uncertainty is not asked: raw quantile
models cover 0.81 to 0.85 at nominal 0.90. Two scales compete: an error may be a ratio (a busy service is off by a
tenth) or an amount (noise that does not grow with the level). Of each, a short window follows changes and a long one is
steady: the mean of the two is taken.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from forecasting.series import Values

# Windows of residuals: the last day, and the last five; at least so many points where steps are long.
SHORT_DAYS: Final = 1
LONG_DAYS: Final = 5
SHORT_POINTS: Final = 100
LONG_POINTS: Final = 500
# Fewer residuals than this say nothing of a quantile.
LEAST: Final = 20


@dataclass(frozen=True, slots=True)
class Windows:
    """How many of the last replayed origins the two windows of residuals hold."""

    short: int
    long: int

    @classmethod
    def of(cls, day_points: int, stride: int = 1) -> "Windows":
        """Return the windows for a grid, of which each `stride`-th origin is replayed."""
        short, long = max(SHORT_DAYS * day_points, SHORT_POINTS), max(LONG_DAYS * day_points, LONG_POINTS)
        return cls(-(-short // stride), -(-long // stride))


def residual_quantiles(residuals: Values, quantiles: Sequence[float], windows: Windows) -> Values:
    """Return quantiles of residuals (..., origins), the newest last, as (..., quantiles); NaN where there are too few.

    NaN among the residuals is left out: an outcome that is not known yet, or was never measured.
    """
    long = _quantiles(residuals[..., -windows.long :], quantiles)
    short = _quantiles(residuals[..., -windows.short :], quantiles)
    return np.where(np.isfinite(short), (short + long) / 2, long)


def _quantiles(residuals: Values, quantiles: Sequence[float]) -> Values:
    """Return the order statistics at rank q (n + 1), interpolated: what a new residual of the same kind stays below."""
    ordered = np.sort(residuals, axis=-1)  # NaN comes last
    count = np.isfinite(residuals).sum(axis=-1)
    found = np.full((*count.shape, len(quantiles)), np.nan)
    last = np.maximum(count - 1, 0)
    for i, quantile in enumerate(quantiles):
        rank = np.clip(quantile * (count + 1) - 1, 0, last)
        below = np.floor(rank).astype(np.int64)
        above = np.minimum(below + 1, last)
        low = np.take_along_axis(ordered, below[..., None], axis=-1)[..., 0]
        high = np.take_along_axis(ordered, above[..., None], axis=-1)[..., 0]
        found[..., i] = np.where(count >= LEAST, low + (rank - below) * (high - low), np.nan)
    return found


def after_shift(residuals: Values, since: NDArray[np.int64], levels: Sequence[float], windows: Windows) -> Values:
    """Return quantiles of residuals (series, horizons, origins, levels), each level's own, after a shift of the series.

    `since` (series,) is how many of the last origins came after the shift, 0 where there was none. What lies before it
    is stale: where enough has come since, only that counts. Where less has, the centre moves to what has come, and what
    lies above the median widens by as much again: it is not known yet how far the shift goes.
    """
    origins = residuals.shape[2]
    shifted = since > 0
    stale = np.arange(origins)[None, :] < origins - since[:, None]
    fresh = np.where((stale & shifted[:, None])[:, None, :, None], np.nan, residuals)
    old, new = _each_level(residuals, levels, windows), _each_level(fresh, levels, windows)
    count = np.isfinite(fresh[..., 0]).sum(axis=2)
    centre = np.where(np.isfinite(fresh), fresh, 0.0).sum(axis=2) / np.maximum(count, 1)[..., None]
    wider = old + centre[..., :1] + np.abs(centre[..., :1]) * (np.array(levels) > 0.5)
    guess = np.where((count > 0)[..., None], wider, old)
    return np.where(shifted[:, None, None], np.where(np.isfinite(new), new, guess), old)


def _each_level(residuals: Values, levels: Sequence[float], windows: Windows) -> Values:
    parts = [residual_quantiles(residuals[..., i], (level,), windows)[..., 0] for i, level in enumerate(levels)]
    return np.stack(parts, axis=-1)


@dataclass(frozen=True, slots=True, eq=False)
class Shifts:
    """What is added to an expert's number for each quantile: (series, experts, horizons, quantiles) each."""

    ratio: Values  # to the logarithm
    amount: Values  # to the rate

    @classmethod
    def fit(
        cls, predicted: Values, actual: Values, offset: Values, levels: Sequence[float], windows: Windows
    ) -> "Shifts":
        """Find the shifts from a replay.

        `predicted` (series, experts, horizons, origins) and `actual` (series, horizons, origins) are logarithms of the
        rate plus `offset` (series,).
        """
        shift = offset[:, None, None]
        truth = np.exp(actual) - shift
        rates = np.exp(predicted) - shift[..., None]
        return cls(
            residual_quantiles(actual[:, None] - predicted, levels, windows),
            residual_quantiles(truth[:, None] - rates, levels, windows),
        )

    def candidates(self, shifted: Values, offset: Values, quantile: int) -> Values:
        """Return rates (series, 2 experts, horizons, origins) at a quantile: first by ratio, then by amount.

        `shifted` (series, experts, horizons, origins) are the experts' rates plus the offset.
        """
        shift = offset[:, None, None, None]
        factor = np.exp(self.ratio[..., quantile, None])
        found = np.concatenate([shifted * factor - shift, shifted + (self.amount[..., quantile, None] - shift)], axis=1)
        return np.asarray(np.maximum(found, 0.0, out=found))
