"""Intermittent demand: job queues, where most steps bring nothing. How often something comes, times how much.

TSB (Teunter, Syntetos and Babai 2011): both are smoothed apart, and the chance falls with each empty step, so that a
queue that has ended is forecast to stay empty. Zeros make ratios meaningless, so this one works on rates, not on
logarithms.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from forecasting.contract import Parameters, Window, origin_points
from forecasting.series import Values

# A series of which so many steps are empty.
EMPTY_SHARE: Final = 0.3
CHANCE_SHARES: Final = (0.02, 0.1, 0.3)
SIZE_SHARE: Final = 0.1


def is_intermittent(window: Window) -> NDArray[np.bool_]:
    """Return which series are empty in a large part of their known steps, and not in all of them."""
    empty = window.known & (_rates(window) <= 0)
    known = np.maximum(window.known.sum(axis=1), 1)
    return np.asarray((empty.sum(axis=1) >= EMPTY_SHARE * known) & (empty.sum(axis=1) < window.known.sum(axis=1)))


@dataclass(frozen=True, slots=True)
class Intermittent:
    """TSB with the best of a few shares for the chance, for series that are intermittent; none for others."""

    name: str = "intermittent"
    needs_days: float = 1.0

    def fit(self, window: Window, horizons: tuple[int, ...]) -> Parameters:
        """Return `share` (series,): that of the chance; NaN for a series that is not intermittent."""
        del horizons
        rates = _rates(window)
        errors = [np.abs(rates[:, 1:] - _tsb(rates, share)[:, :-1]) for share in CHANCE_SHARES]
        mean = np.stack([np.where(window.known[:, 1:], error, 0.0).mean(axis=1) for error in errors])
        best = np.array(CHANCE_SHARES)[mean.argmin(axis=0)]
        return {"share": np.where(is_intermittent(window), best, np.nan)}

    def predict(
        self, parameters: Parameters, window: Window, horizons: tuple[int, ...], origins: int, stride: int = 1
    ) -> Values:
        """Return the same expectation for every horizon."""
        at = origin_points(window, origins, stride)
        found = np.full((window.count, len(at)), np.nan)
        rates = _rates(window)
        for share in CHANCE_SHARES:
            chosen = parameters["share"] == share
            if chosen.any():
                found[chosen] = _tsb(rates[chosen], share)[:, at]
        level = np.log(found + window.offset[:, None])
        return np.repeat(np.where(np.isfinite(window.level[:, at]), level, np.nan)[:, None], len(horizons), axis=1)


def _rates(window: Window) -> Values:
    rates = np.exp(window.level) - window.offset[:, None]
    small = 1e-9 * window.offset[:, None]  # what is left of a zero by rounding
    return np.where(np.isfinite(rates) & (rates > small), rates, 0.0)


def _tsb(rates: Values, share: float) -> Values:
    """Return the expectation after each step, (series, steps)."""
    comes = (rates > 0).astype(np.float64)
    chance = _smoothed(comes, share)
    return np.asarray(chance * _size(rates, comes))


def _smoothed(rows: Values, share: float) -> Values:
    start = rows[:, :1]
    found, _ = lfilter([share], [1.0, share - 1.0], rows, axis=1, zi=(1 - share) * start)
    return np.asarray(found)


def _size(rates: Values, comes: Values) -> Values:
    """Return the smoothed size of what comes, carried over empty steps: (series, steps)."""
    found = np.zeros_like(rates)
    for row, (values, some) in enumerate(zip(rates, comes > 0, strict=True)):
        if some.any():
            sizes = _smoothed(values[some][None], SIZE_SHARE)[0]
            place = np.cumsum(some) - 1
            found[row] = np.where(place >= 0, sizes[np.maximum(place, 0)], 0.0)
    return found
