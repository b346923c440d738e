"""Non-seasonal ARIMA, refitted on a recent window, as planners of inference fleets do: one of the baselines.

Box and Jenkins; parameters by statsmodels (exact likelihood by the innovations algorithm), the order chosen among a few
by AICc. Forecasts at every origin come from one pass of the filter, not from a fit each.
"""

import warnings
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter
from statsmodels.tsa.arima.model import ARIMA

from forecasting.contract import Parameters, Window, origin_points
from forecasting.experts.smoothing import LEAST_POINTS, UNFITTED
from forecasting.series import Values

# (autoregressive order, differences, moving-average order)
ORDERS: Final = ((1, 0, 0), (2, 0, 1), (0, 1, 1), (1, 1, 1), (2, 1, 2))
_POINTS: Final = 1008
_MOST = 2  # of either order


@dataclass(frozen=True, slots=True)
class Arima:
    """The best of a few orders by AICc."""

    name: str = "arima"
    needs_days: float = 0.5

    def fit(self, window: Window, horizons: tuple[int, ...]) -> Parameters:
        """Return `ar`, `ma` (series, 2), `mean`, `differences` (series,); NaN where no order could be fitted."""
        del horizons
        found = [self._fit_one(row[np.isfinite(row)]) for row in window.level[:, -_POINTS:]]
        return {name: np.array([one[name] for one in found]) for name in ("ar", "ma", "mean", "differences")}

    def _fit_one(self, values: Values) -> dict[str, Any]:
        best, least = {"ar": [np.nan] * _MOST, "ma": [np.nan] * _MOST, "mean": np.nan, "differences": np.nan}, np.inf
        if len(values) < LEAST_POINTS or np.ptp(values) == 0:
            return best
        for order in ORDERS:
            found, criterion = _fit_order(values, order)
            if criterion < least:
                best, least = found, criterion
        return best

    def predict(
        self, parameters: Parameters, window: Window, horizons: tuple[int, ...], origins: int, stride: int = 1
    ) -> Values:
        """Return what each series' model forecasts from its own past at every origin."""
        at = origin_points(window, origins, stride)
        found = np.full((window.count, len(horizons), len(at)), np.nan)
        for row in range(window.count):
            if np.isfinite(parameters["differences"][row]):
                one = {name: array[row] for name, array in parameters.items()}
                found[row] = _forecasts(one, window.level[row], horizons, at)
        return np.where(np.isfinite(window.level[:, None, at]), found, np.nan)


def _fit_order(values: Values, order: tuple[int, int, int]) -> tuple[dict[str, Any], float]:
    ar_order, differences, ma_order = order
    work = np.diff(values, n=differences)
    mean = 0.0 if differences else float(work.mean())
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            result = ARIMA(work - mean, order=(ar_order, 0, ma_order), trend="n").fit(method="innovations_mle")
            criterion = float(result.aicc)
    except UNFITTED:
        return {}, np.inf
    if not np.isfinite(result.params).all() or not np.isfinite(criterion):
        return {}, np.inf
    ar, ma = np.zeros(_MOST), np.zeros(_MOST)
    ar[:ar_order], ma[:ma_order] = result.arparams, result.maparams
    return {"ar": ar, "ma": ma, "mean": mean, "differences": float(differences)}, criterion


def _forecasts(one: Parameters, level: Values, horizons: tuple[int, ...], at: NDArray[np.int64]) -> Values:
    """Return (horizons, origins): the recursion of the model with future errors at zero."""
    known = np.isfinite(level)
    values = np.where(known, level, level[known.argmax()] if known.any() else 0.0)
    integrated = one["differences"] > 0
    work = np.diff(values, prepend=values[0]) if integrated else values - one["mean"]
    errors = lfilter(np.concatenate([[1.0], -one["ar"]]), np.concatenate([[1.0], one["ma"]]), work)
    past = [np.where(at >= k, work[np.maximum(at - k, 0)], 0.0) for k in range(_MOST)]  # newest first
    shocks = [np.where(at >= k, errors[np.maximum(at - k, 0)], 0.0) for k in range(_MOST)]
    found, total = {}, np.zeros(len(at))
    for step in range(1, max(horizons) + 1):
        value = sum(one["ar"][k] * past[k] + one["ma"][k] * shocks[k] for k in range(_MOST))
        past, shocks = [value, *past[:-1]], [np.zeros(len(at)), *shocks[:-1]]
        total = total + value
        found[step] = values[at] + total if integrated else value + one["mean"]
    return np.stack([found[horizon] for horizon in horizons])
