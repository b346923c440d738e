"""Adaptive conformal correction: what was said is held against what came, and each quantile learns from its misses.

A fit calibrates on a replay, which has seen its own days; here only forecasts count that were really made. Each
series, target, horizon and quantile has one number, in units of the spread between the median and the 0.9 quantile. A
miss raises it, a hit lowers it, so that in the long run the share of misses is the nominal one whatever the series does
(Gibbs and Candes 2021; quantile tracking as in Angelopoulos, Candes and Tibshirani 2023). The median is tracked too:
its correction is the drift of the centre, so a bias is taken out and not only covered by wider bands.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from forecasting.forecast import QUANTILES
from forecasting.series import Values

RATE: Final = 0.05  # of a spread, that a miss of the upper quantiles moves them by
LEAST: Final = -1.0
MOST: Final = 5.0
_LEAST_SPREAD: Final = 1e-3  # of a logarithm: a series that hardly moves still has a scale to correct by
_NOMINAL: Final = np.array([1 - quantile for quantile in QUANTILES])[None, :, None]


@dataclass(frozen=True, slots=True, eq=False)
class Correction:
    """(series, quantiles, horizons), of one target. Plain numbers, part of the state of a forecaster."""

    spreads: Values

    @classmethod
    def none(cls, series: int, horizons: int) -> "Correction":
        """Return the state of one who has seen no outcome."""
        return cls(np.zeros((series, len(QUANTILES), horizons)))

    def apply(self, said: Values, offset: Values, bound: Values) -> Values:
        """Return corrected quantiles (series, quantiles, horizons), in order and within 0 and the bound."""
        shift = offset[:, None, None]
        moved = (said + shift) * np.exp(self.spreads * _spread(said, shift)) - shift
        return np.asarray(np.sort(np.clip(moved, 0.0, bound[:, None, None]), axis=1))

    def learn(self, corrected: Values, actual: Values) -> "Correction":
        """Return the correction after an outcome (series, horizons) of what was said, corrected, for it.

        NaN, an outcome that was not measured or a forecast that was not made, teaches nothing.
        """
        miss = (actual[:, None] > corrected).astype(np.float64) - _NOMINAL
        known = np.isfinite(corrected) & np.isfinite(actual)[:, None]
        return Correction(np.clip(self.spreads + RATE * np.where(known, miss, 0.0), LEAST, MOST))


def _spread(said: Values, shift: Values) -> Values:
    middle, upper = said[:, [QUANTILES.index(0.5)]], said[:, [QUANTILES.index(0.9)]]
    return np.maximum(np.log((upper + shift) / (middle + shift)), _LEAST_SPREAD)
