"""What anyone can have for nothing, and what every other model must beat: the last value, and the last season's."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forecasting.contract import Parameters, Window, origin_points
from forecasting.series import Values


def seasonal(window: Window, days: int, ahead: int, at: NDArray[np.int64], history: Values | None = None) -> Values:
    """Return the level at the local time of `ahead` steps after each origin in `at`, so many days before.

    (series, origins); NaN where that lies before the window or, with steps of a day, after the origin. `history` is
    where it is looked up: without it, in the season of the window.
    """
    index = window.calendar.back(days)[at + ahead]
    rows = window.season if history is None else history
    found = rows[:, np.clip(index, 0, window.points - 1)]
    return np.where((index >= 0) & (index <= at), found, np.nan)


_WEEK = 7


class Untrained:
    """What learns nothing: all that it says is in the window."""

    __slots__ = ()

    def fit(self, window: Window, horizons: tuple[int, ...]) -> Parameters:
        """Return nothing."""
        del window, horizons
        return {}


@dataclass(frozen=True, slots=True)
class LastValue(Untrained):
    """The future is as the present."""

    name: str = "last-value"
    needs_days: float = 0.0

    def predict(
        self, parameters: Parameters, window: Window, horizons: tuple[int, ...], origins: int, stride: int = 1
    ) -> Values:
        """Return the level at each origin, for every horizon."""
        del parameters
        now = window.level[:, origin_points(window, origins, stride)]
        return np.repeat(now[:, None, :], len(horizons), axis=1)


@dataclass(frozen=True, slots=True)
class SeasonalNaive(Untrained):
    """The future is as the same local time some days ago: 1 for the day, 7 for the week.

    As others ship it, spikes come back; without them it is an expert of ours.
    """

    days: int = 1
    name: str = "seasonal-naive"
    spikes: bool = True

    @property
    def needs_days(self) -> float:
        """One season of a day; of a week two, so that one odd week is not repeated."""
        return float(self.days) if self.days < _WEEK else 2.0 * self.days

    def predict(
        self, parameters: Parameters, window: Window, horizons: tuple[int, ...], origins: int, stride: int = 1
    ) -> Values:
        """Return the level a season before each target."""
        del parameters
        at = origin_points(window, origins, stride)
        history = window.level if self.spikes else window.season
        return np.stack([seasonal(window, self.days, horizon, at, history) for horizon in horizons], axis=1)


@dataclass(frozen=True, slots=True)
class LastWeek(Untrained):
    """The rule of a recording rule: the present, or the highest of last week's next half hour, whichever is more.

    `max_over_time(m[30m] offset 6d23h30m)` as in Grafana Mimir's autoscaling (mimir#7775); for a longer horizon the
    window reaches to it.
    """

    window_s: int = 1800
    name: str = "last-week"
    needs_days: float = 7.5

    def predict(
        self, parameters: Parameters, window: Window, horizons: tuple[int, ...], origins: int, stride: int = 1
    ) -> Values:
        """Return the larger of the two."""
        del parameters
        at = origin_points(window, origins, stride)
        least = max(1, self.window_s // window.grid.step_s)
        now = window.level[:, at]
        found = []
        for horizon in horizons:
            week = [
                seasonal(window, 7, step, at, window.level)
                for step in range(min(max(least, horizon), max(horizons)) + 1)
            ]
            found.append(np.maximum(now, np.stack(week).max(axis=0)))
        return np.stack(found, axis=1)
