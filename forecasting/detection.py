"""Surges and shifts: when demand rises faster than a fleet can follow, and when a forecast no longer holds.

A surge is judged from demand alone, a shift from what a forecast was off by. Both are pure functions of a few numbers
of now, so a stream and a history give the same answers. What has no seasonal signature cannot be forecast; it is
caught here.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from forecasting.series import Values

# A surge, as the glossary defines it.
RISE: Final = 1.3  # times the mean one lead time earlier
FLOOR_SHARE: Final = 0.2  # of the 99.9th percentile of the means
SIGMAS: Final = 4.0
# CUSUM (Page 1954), in standard deviations: slack and threshold. Upward, for ramps that no single mean shows: half a
# standard deviation of drift is allowed, and noise alone raises an alarm once in about 900 points.
RAMP_SLACK, RAMP_LIMIT = 0.5, 5.0
# Two-sided, for "this forecast is no longer valid": a change of two standard deviations or more is found within about
# eight points, and noise alone gives none in a month of five minutes.
SHIFT_SLACK, SHIFT_LIMIT = 1.0, 8.0
_GROUPS: Final = 5  # of like means, that the variance is looked at in
_MEDIAN_OF_SQUARE: Final = 0.4549  # of a squared standard normal deviate


@dataclass(frozen=True, slots=True, eq=False)
class Dispersion:
    """How much rates vary from step to step around a mean: variance = `linear` mean + (`relative` mean)^2.

    (series,) each. A Poisson process has only the first; a service whose users come in crowds has both.
    """

    linear: Values
    relative: Values

    def variance(self, mean: Values) -> Values:
        """Return the variance of a rate around a mean, per series."""
        return np.asarray(self.linear * mean + (self.relative * mean) ** 2)


def fit_dispersion(rates: Values, step_s: float) -> Dispersion:
    """Return the dispersion of rates (series, steps) in events per second, of steps of `step_s` each.

    From differences between neighbours, whose median is deaf to surges; never below a Poisson process'. NaN is left
    out; a series with too few pairs is taken for a Poisson process.
    """
    found = [_dispersion_of(row, 1.0 / step_s) for row in rates]
    return Dispersion(np.array([linear for linear, _ in found]), np.array([relative for _, relative in found]))


def _dispersion_of(rates: Values, poisson: float) -> tuple[float, float]:
    before, after = rates[:-1], rates[1:]
    known = np.isfinite(before) & np.isfinite(after) & (before + after > 0)
    mean, square = (before[known] + after[known]) / 2, (after[known] - before[known]) ** 2 / 2
    if len(mean) < 10 * _GROUPS:
        return poisson, 0.0
    groups = np.array_split(np.argsort(mean, kind="stable"), _GROUPS)
    means = np.array([mean[group].mean() for group in groups])
    variances = np.array([np.median(square[group]) / _MEDIAN_OF_SQUARE for group in groups])
    # Weighted by the mean: without it the busiest group alone would decide.
    terms = np.stack([np.ones(_GROUPS), means], axis=1)
    linear, quadratic = np.linalg.lstsq(terms, variances / means, rcond=None)[0]
    if quadratic < 0:
        return max(poisson, float((variances / means).mean())), 0.0
    if linear < poisson:
        quadratic = max(0.0, float(((variances / means - poisson) * means).sum() / (means**2).sum()))
        return poisson, float(np.sqrt(quadratic))
    return float(linear), float(np.sqrt(quadratic))


def surge_floor(rates: Values) -> Values:
    """Return, of 60-s means (series, steps), the level below which nothing is a surge; 0 where nothing is known."""
    found = np.zeros(len(rates))
    for i, row in enumerate(rates):
        known = row[np.isfinite(row)]
        found[i] = FLOOR_SHARE * float(np.quantile(known, 0.999)) if len(known) else 0.0
    return found


def is_surge(now: Values, before: Values, floor: Values, dispersion: Dispersion) -> NDArray[np.bool_]:
    """Return whether the 60-s mean `now` is a surge over that of one lead time earlier, `before`: (series,) each.

    NaN is no surge: what is not known is not alarming, and not calm either.
    """
    noise = np.sqrt(dispersion.variance(np.maximum(before, 0.0)) + dispersion.variance(np.maximum(now, 0.0)))
    with np.errstate(invalid="ignore"):
        return np.asarray((now >= RISE * before) & (now >= floor) & (now > 0) & (now - before >= SIGMAS * noise))


def surges(rates: Values, lead_steps: int, dispersion: Dispersion, floor: Values) -> NDArray[np.bool_]:
    """Return where a history (series, steps) is in a surge; no step before the first lead time is."""
    found = np.zeros(rates.shape, dtype=bool)
    for step in range(lead_steps, rates.shape[1]):
        found[:, step] = is_surge(rates[:, step], rates[:, step - lead_steps], floor, dispersion)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Cusum:
    """Cumulated sums of standardised residuals, upward and downward, and for how long each has been above zero.

    (series,) each. Plain numbers: part of a state.
    """

    up: Values
    down: Values
    up_since: NDArray[np.int64]  # steps; 0 when the sum is 0
    down_since: NDArray[np.int64]

    @classmethod
    def new(cls, series: int) -> "Cusum":
        """Return the state before any residual."""
        zeros, none = np.zeros(series), np.zeros(series, dtype=np.int64)
        return cls(zeros, zeros, none, none)

    def after(self, standardised: Values, slack: float, limit: float) -> "Cusum":
        """Return the state after one more residual (series,); NaN leaves the sums as they are.

        The sums stop at twice the limit, so that an alarm ends soon after its cause.
        """
        known = np.isfinite(standardised)
        residual = np.where(known, standardised, 0.0)
        slack_now = np.where(known, slack, 0.0)
        up = np.clip(self.up + residual - slack_now, 0.0, 2 * limit)
        down = np.clip(self.down - residual - slack_now, 0.0, 2 * limit)
        return Cusum(up, down, np.where(up > 0, self.up_since + 1, 0), np.where(down > 0, self.down_since + 1, 0))


def shifted_since(standardised: Values) -> NDArray[np.int64]:
    """Return how many of the last residuals are of a shifted series, (series,); 0 where there is no shift.

    `standardised` (series, steps) are residuals of a forecast over their usual size, the newest last. A shift is on
    when the two-sided sum is above its limit now; it began when the sum left zero.
    """
    state = Cusum.new(len(standardised))
    for step in range(standardised.shape[1]):
        state = state.after(standardised[:, step], SHIFT_SLACK, SHIFT_LIMIT)
    up, down = state.up > SHIFT_LIMIT, state.down > SHIFT_LIMIT
    return np.asarray(np.maximum(np.where(up, state.up_since, 0), np.where(down, state.down_since, 0)))


def ramping(state: Cusum) -> NDArray[np.bool_]:
    """Return which series rise by more than noise, by the upward sum alone."""
    return np.asarray(state.up > RAMP_LIMIT)
