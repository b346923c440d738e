"""The result of forecasting: quantiles at the times that were asked for. An absent forecast is a value, never 0."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from forecasting.series import Values

QUANTILES: Final = (0.5, 0.9, 0.99)


class Target(StrEnum):
    """What is forecast."""

    POINT = "point"  # the mean rate of the step that ends at the horizon
    WINDOW_MAX = "window_max"  # the largest fine rate from the origin to the horizon, what a pre-warm decision needs


@dataclass(frozen=True, slots=True)
class Absent:
    """There is no forecast, and why. What reads it acts as if nothing were foreseen: it never lowers anything.

    `ready_at_s`: Unix time from which there will be enough history, where that is what is missing.
    """

    reason: str
    ready_at_s: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Forecasts:
    """Quantiles for a batch of series from one origin. NaN is absent: `absent[i]` says why series `i` has none.

    `point` and `window_max` are (series, horizons, quantiles), in the unit of the series; quantiles do not cross.
    """

    at_s: float  # the origin: nothing after it is used
    horizons_s: tuple[int, ...]
    quantiles: tuple[float, ...]
    point: Values
    window_max: Values
    level: Values  # (series,): the present level that forecasts are ratios to
    absent: Sequence[Absent | None]

    @property
    def times_s(self) -> tuple[float, ...]:
        """The Unix times that were asked for."""
        return tuple(self.at_s + horizon for horizon in self.horizons_s)

    def of(self, target: Target) -> Values:
        """Return the quantiles of a target."""
        return self.point if target is Target.POINT else self.window_max
