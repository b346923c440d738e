"""Exponential smoothing with parameters of maximum likelihood, from statsmodels: slow fits, for a rotation over a day.

Only the parameters are taken from a fit; the filter is ours, so that what is kept of a series is a few plain numbers
and a forecast needs no statsmodels. Initial states are heuristic: estimating them is 1,700 times dearer at 288 points a
day and does not converge. A fit that fails or does not converge is no parameter set: NaN, and the expert has no
prediction for that series.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from scipy.signal import lfilter
from statsmodels.tools.sm_exceptions import ModelWarning
from statsmodels.tsa.exponential_smoothing.ets import ETSModel
from statsmodels.tsa.holtwinters import ExponentialSmoothing

from forecasting.contract import Parameters, Window, origin_points
from forecasting.experts.holt_winters import smooth
from forecasting.series import Values

_SEASONAL_DAYS: Final = 14  # of history, that a seasonal fit looks at
_PLAIN_POINTS: Final = 2016  # that one without a season does
LEAST_POINTS: Final = 50
# What statsmodels raises for data that it cannot fit.
UNFITTED: Final = (ValueError, ZeroDivisionError, FloatingPointError, np.linalg.LinAlgError)


def fitted_or_nan(fit: Callable[[], Any], names: tuple[str, ...]) -> list[float]:
    """Return parameters of a fit by name; NaN for all where it fails, does not converge, or any is not finite."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("error", ModelWarning)  # statsmodels' own word that a fit is not to be trusted
            warnings.simplefilter("ignore", RuntimeWarning)
            result = fit()
    except (*UNFITTED, ModelWarning):
        return [np.nan] * len(names)
    values = [float(result[name]) for name in names]
    return values if np.isfinite(values).all() else [np.nan] * len(names)


@dataclass(frozen=True, slots=True)
class TunedHoltWinters:
    """Holt-Winters with a day season whose two shares are fitted to the series."""

    name: str = "holt-winters"
    needs_days: float = 3.0

    def fit(self, window: Window, horizons: tuple[int, ...]) -> Parameters:
        """Return `level_share` and `season_share` (series,)."""
        del horizons
        day = window.calendar.day_points
        recent = window.level[:, -min(window.points, _SEASONAL_DAYS * day) :]
        found = np.array([self._fit_one(row, day) for row in recent])
        return {"level_share": found[:, 0], "season_share": found[:, 1]}

    def _fit_one(self, values: Values, day: int) -> list[float]:
        values = values[np.isfinite(values)]
        names = ("smoothing_level", "smoothing_seasonal")
        if len(values) < 2 * day or np.ptp(values) == 0:
            return [np.nan] * len(names)
        model = ExponentialSmoothing(values, seasonal="add", seasonal_periods=day, initialization_method="heuristic")
        return fitted_or_nan(lambda: model.fit().params, names)

    def predict(
        self, parameters: Parameters, window: Window, horizons: tuple[int, ...], origins: int, stride: int = 1
    ) -> Values:
        """Return what the filter with those shares forecasts."""
        at = origin_points(window, origins, stride)
        found = np.full((window.count, len(horizons), len(at)), np.nan)
        shares = zip(parameters["level_share"], parameters["season_share"], strict=True)
        for row, (level_share, season_share) in enumerate(shares):
            if np.isfinite(level_share):
                smoothed = smooth(window, float(level_share), float(season_share), np.array([row]))
                found[row] = [smoothed.ahead(horizon, at)[0] for horizon in horizons]
        return np.where(np.isfinite(window.level[:, None, at]), found, np.nan)


@dataclass(frozen=True, slots=True)
class Ets:
    """Level and damped trend, no season: ETS(A,Ad,N) of Hyndman, Koehler, Ord and Snyder 2008."""

    name: str = "ets"
    needs_days: float = 0.5

    def fit(self, window: Window, horizons: tuple[int, ...]) -> Parameters:
        """Return `level_share`, `trend_share` and `damping` (series,)."""
        del horizons
        found = np.array([self._fit_one(row) for row in window.level[:, -_PLAIN_POINTS:]])
        return {"level_share": found[:, 0], "trend_share": found[:, 1], "damping": found[:, 2]}

    def _fit_one(self, values: Values) -> list[float]:
        values = values[np.isfinite(values)]
        names = ("smoothing_level", "smoothing_trend", "damping_trend")
        if len(values) < LEAST_POINTS or np.ptp(values) == 0:
            return [np.nan] * len(names)

        def fit() -> Any:
            model = ETSModel(values, trend="add", damped_trend=True, initialization_method="heuristic")
            result = model.fit(disp=False)
            return dict(zip(result.model.param_names, result.params, strict=True))

        return fitted_or_nan(fit, names)

    def predict(
        self, parameters: Parameters, window: Window, horizons: tuple[int, ...], origins: int, stride: int = 1
    ) -> Values:
        """Return the level plus what is left of the trend at each horizon."""
        at = origin_points(window, origins, stride)
        damping = parameters["damping"][:, None]
        level, trend = _damped(window, parameters)
        sums = np.cumsum(damping ** np.arange(1, max(horizons) + 1), axis=1)
        found = [level[:, at] + sums[:, [horizon - 1]] * trend[:, at] for horizon in horizons]
        return np.where(np.isfinite(window.level[:, None, at]), np.stack(found, axis=1), np.nan)


def _damped(window: Window, parameters: Parameters) -> tuple[Values, Values]:
    """Run the filter: e = x - l - phi b, l += phi b + alpha e, b = phi b + beta e. (series, points) each.

    The state follows s = A s + g x, so each of its two numbers is a filter of second order of x: with t and d the trace
    and determinant of A, (I - A / z)^-1 = (I + (A - t I) / z) / (1 - t / z + d / z^2).
    """
    level, trend = np.full(window.level.shape, np.nan), np.full(window.level.shape, np.nan)
    names = ("level_share", "trend_share", "damping")
    for row, (alpha, beta, phi) in enumerate(zip(*(parameters[name] for name in names), strict=True)):
        known = np.isfinite(window.level[row])
        if not (np.isfinite(alpha) and known.any()):
            continue
        first = window.level[row, known.argmax()]
        gain = np.array([alpha, beta])
        step = np.array([[1 - alpha, phi * (1 - alpha)], [-beta, phi * (1 - beta)]])
        trace = np.trace(step)
        once = (step - trace * np.eye(2)) @ gain
        denominator = [1.0, -trace, np.linalg.det(step)]
        from_first = np.where(known, window.level[row] - first, 0.0)  # a level's own height changes nothing
        level[row] = first + lfilter([gain[0], once[0]], denominator, from_first)
        trend[row] = lfilter([gain[1], once[1]], denominator, from_first)
    return level, trend
