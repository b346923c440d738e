"""Between two points of the grid: the last forecast, moved on to now and corrected by the level that is seen now.

A full prediction is made when a point of the grid is complete. Every tick in between takes it, shifts it by the time
that has passed, and adds the share of the present surprise that such surprises have kept at each horizon: a linear
update as in a Kalman filter (Kalman 1960), with its gain fitted in the replay. It costs a few operations a series.
"""

from dataclasses import replace

import numpy as np

from forecasting.fitted import Fitted
from forecasting.forecast import Forecasts, Target
from forecasting.series import Values


def refreshed(forecasts: Forecasts, fitted: Fitted, now_s: float, level: Values) -> Forecasts:
    """Return forecasts for the same horizons from `now_s` on.

    `level` (series,) is the mean rate since `forecasts.at_s`, in the unit of the series; where it is NaN, not known,
    nothing is corrected. ValueError for a `now_s` before the forecasts, or more than a step of the grid after them.
    """
    passed_s = now_s - forecasts.at_s
    if not 0 <= passed_s <= fitted.step_s:
        raise ValueError(f"now_s must be at most {fitted.step_s} s after {forecasts.at_s}, was {now_s}")
    surprise = _surprise(forecasts, fitted, passed_s, level)
    share = passed_s / fitted.step_s  # of a step: a mean over less of it says less of the whole
    moved = {
        target: _moved(forecasts, fitted, target, passed_s, share * surprise)
        for target in (Target.POINT, Target.WINDOW_MAX)
    }
    return replace(forecasts, at_s=now_s, point=moved[Target.POINT], window_max=moved[Target.WINDOW_MAX])


def _surprise(forecasts: Forecasts, fitted: Fitted, passed_s: float, level: Values) -> Values:
    """Return the log ratio of what is seen to what was expected by now; 0 where nothing is seen."""
    first_s = forecasts.horizons_s[0]
    expected = forecasts.level + (forecasts.point[:, 0, 0] - forecasts.level) * min(1.0, passed_s / first_s)
    ratio = (level + fitted.offset) / (expected + fitted.offset)
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(ratio) & (ratio > 0), np.log(np.where(ratio > 0, ratio, 1.0)), 0.0)


def _moved(forecasts: Forecasts, fitted: Fitted, target: Target, passed_s: float, surprise: Values) -> Values:
    """Return one target's quantiles (series, horizons, quantiles), moved on and corrected."""
    later = _later(forecasts.of(target), np.array(forecasts.horizons_s, dtype=np.float64), passed_s)
    offset = fitted.offset[:, None, None]
    factor = np.exp(fitted.targets[target].gain * surprise[:, None])[:, :, None]
    return np.clip((later + offset) * factor - offset, 0.0, fitted.bound[:, None, None])


def _later(quantiles: Values, horizons_s: Values, passed_s: float) -> Values:
    """Return quantiles at horizons that begin so much later, between those that there are; the last one stays."""
    wanted = np.minimum(horizons_s + passed_s, horizons_s[-1])
    above = np.clip(np.searchsorted(horizons_s, wanted), 0, len(horizons_s) - 1)
    below = np.maximum(above - 1, 0)
    span = np.where(above > below, horizons_s[above] - horizons_s[below], 1.0)
    part = np.where(above > below, (wanted - horizons_s[below]) / span, 1.0)[:, None]
    return np.asarray(quantiles[:, below] * (1 - part) + quantiles[:, above] * part)
