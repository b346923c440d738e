"""What direct models see at an origin: the way of the series so far, relative to where it is now."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from forecasting.contract import Window
from forecasting.experts.naive import seasonal
from forecasting.series import Values

_LAGS = tuple(range(1, 9))
_MEANS = (3, 6, 12, 24, 48)
_INCREMENT_DAYS = (1, 2, 3)
_NEIGHBOURS = (-2, -1, 1, 2)
_PROFILE_DAYS = 7
_DAY_HARMONICS = 4
_WEEK_HARMONICS = 3
WEEKLY_DAYS = 14.0  # two weeks before anything weekly takes part


def lagged(window: Window, lag: int, at: NDArray[np.int64]) -> Values:
    """Return the level `lag` steps before each origin in `at`, (series, origins); NaN before the window."""
    index = at - lag
    found = window.level[:, np.maximum(index, 0)]
    return found if index[0] >= 0 else np.where(index >= 0, found, np.nan)


def rolling_mean(rows: Values, width: int, at: NDArray[np.int64]) -> Values:
    """Return the mean of the `width` values up to each place in `at`, of those that are there: (series, places)."""
    first = max(0, int(at[0]) - width + 1)
    part = rows[:, first : int(at[-1]) + 1]
    known = np.isfinite(part)
    totals = _from_zero(np.cumsum(np.where(known, part, 0.0), axis=1))
    counts = _from_zero(np.cumsum(known, axis=1, dtype=np.float64))
    end = at - first + 1
    start = np.maximum(end - width, 0)
    number = counts[:, end] - counts[:, start]
    return np.where(number > 0, (totals[:, end] - totals[:, start]) / np.maximum(number, 1), np.nan)


def _from_zero(sums: Values) -> Values:
    return np.concatenate([np.zeros((sums.shape[0], 1)), sums], axis=1)


def profile(past: Sequence[Values]) -> Values:
    """Return the usual level of the last days at one local time, from that of each, (series, origins) each.

    A mean without the highest and the lowest where there are more than three: one odd day does not move it.
    """
    days = np.stack(past)
    known = np.isfinite(days)
    number = known.sum(axis=0)
    total = np.where(known, days, 0.0).sum(axis=0)
    trim = number > 3
    highest = np.where(known, days, -np.inf).max(axis=0)
    lowest = np.where(known, days, np.inf).min(axis=0)
    total -= np.where(trim, highest, 0.0) + np.where(trim, lowest, 0.0)
    return np.where(number > 0, total / np.maximum(np.where(trim, number - 2, number), 1), np.nan)


def past_days(window: Window, ahead: int, at: NDArray[np.int64], days: int = _PROFILE_DAYS) -> list[Values]:
    """Return the level at the local time `ahead` steps after each origin in `at`, 1 .. `days` days before."""
    return [seasonal(window, day, ahead, at) for day in range(1, days + 1)]


class Features:
    """The features of origins of a window; those that no horizon enters are made once.

    Each is (series, origins), in log ratios to the level at the origin. What is not there is 0: no news.
    """

    def __init__(self, window: Window, at: NDArray[np.int64]) -> None:
        self.window, self.at = window, at
        self.now = lagged(window, 0, at)
        self.weekly = window.points >= WEEKLY_DAYS * window.calendar.day_points
        self._days = past_days(window, 0, at)
        self._fortnight = seasonal(window, 14, 0, at) if self.weekly else None
        self._own = self._of_no_horizon()

    @property
    def count(self) -> int:
        """How many features there are."""
        return len(self._own) + len(_INCREMENT_DAYS) + 1 + len(_NEIGHBOURS) + 2 + 3

    def of(self, horizon: int, more: Sequence[Values] = ()) -> NDArray[np.float32]:
        """Return the features for a horizon in steps, and some more after them: (series, origins, features)."""
        found = [*self._own, *self._of_horizon(horizon), *more]
        table = np.empty((*self.now.shape, len(found)), dtype=np.float32)
        for i, feature in enumerate(found):
            table[:, :, i] = feature
        table[np.isnan(table)] = 0.0
        return table

    def fourier(self) -> Values:
        """Return terms of the local calendar, (origins, terms).

        Sines and cosines of the day, whether it is a holiday and, last, those of the week where there are two weeks.
        """
        calendar = self.window.calendar
        day = calendar.time_of_day[self.at]
        terms = [f(2 * np.pi * k * day) for k in range(1, _DAY_HARMONICS + 1) for f in (np.sin, np.cos)]
        terms.append(calendar.holiday[self.at].astype(np.float64))
        week = (calendar.weekday[self.at] + day) / 7
        harmonics = range(1, _WEEK_HARMONICS + 1) if self.weekly else ()
        terms += [f(2 * np.pi * k * week) for k in harmonics for f in (np.sin, np.cos)]
        return np.stack(terms, axis=-1)

    def _of_no_horizon(self) -> list[Values]:
        window, now, at = self.window, self.now, self.at
        found = [lagged(window, lag, at) - now for lag in _LAGS]
        widths = (*_MEANS, max(2, window.calendar.day_points // 4))
        found += [rolling_mean(window.level, width, at) - now for width in widths]
        return [*found, now - self._days[0]]

    def _of_horizon(self, horizon: int) -> list[Values]:
        window, now, at = self.window, self.now, self.at
        then = past_days(window, horizon, at)
        moves = [later - before for later, before in zip(then, self._days, strict=True)]
        found = [moves[day - 1] for day in _INCREMENT_DAYS]
        found.append(then[0] - now)
        found += [seasonal(window, 1, horizon + step, at) - now for step in _NEIGHBOURS]
        found += [_mean(moves), profile(then) - now]
        if self._fortnight is None:
            return [*found, *[np.zeros_like(now)] * 3]
        return [*found, moves[6], then[6] - now, seasonal(window, 14, horizon, at) - self._fortnight]


def _mean(arrays: Sequence[Values]) -> Values:
    stacked = np.stack(arrays)
    known = np.isfinite(stacked)
    number = known.sum(axis=0)
    return np.where(number > 0, np.where(known, stacked, 0.0).sum(axis=0) / np.maximum(number, 1), np.nan)
