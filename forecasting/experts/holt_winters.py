"""Holt-Winters with a day season: level and season are corrected by a share of each error (Holt 1957; Winters 1960).

Additive, without trend: a trend of a few hours says nothing of the next hour that the level does not. The season is
used once a day at each local time, so within a day the level is a linear filter of what the season leaves: a day of all
series is one call, and no loop over points is needed.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from forecasting.contract import Parameters, Window, origin_points
from forecasting.series import Values

LEVEL_SHARES: Final = (0.1, 0.3, 0.6, 0.9)
SEASON_SHARES: Final = (0.05, 0.2, 0.5)
_SETTINGS: Final = tuple((level, season) for level in LEVEL_SHARES for season in SEASON_SHARES)
_JUDGED_DAYS = 5  # of errors, that the setting is chosen by


@dataclass(frozen=True, slots=True, eq=False)
class Smoothed:
    """States of Holt-Winters: `level` (series, points) after each point, `season` (days + 1, series, day's points).

    `season[d]` is that at the start of day `d`, days counted from the first point of the window.
    """

    level: Values
    season: Values

    def ahead(self, steps: int, at: NDArray[np.int64]) -> Values:
        """Return the forecast so many steps ahead of each origin in `at`, (series, origins)."""
        points = self.season.shape[2]
        day, place = at // points, at % points + steps
        later = place >= points
        season = self.season[np.where(later, day + 1, day), :, np.where(later, place - points, place)]
        return np.asarray(self.level[:, at] + season.T)


def smooth(window: Window, level_share: float, season_share: float, rows: NDArray[np.int64]) -> Smoothed:
    """Run the filter over a window, for the series in `rows`."""
    values = _from_the_start(window.level[rows])
    usual = _from_the_start(window.season[rows])  # a season does not learn from what happened once
    count, points = values.shape
    day = window.calendar.day_points
    days = -(-points // day)
    first = values[:, :day]
    level, season = first.mean(axis=1), np.zeros((days + 1, count, day))
    season[0, :, : first.shape[1]] = first - level[:, None]
    levels = np.empty((count, points))
    for i in range(days):
        here = slice(i * day, min((i + 1) * day, points))
        now = _on_the_clock(season[i], window, here.start)
        left = values[:, here] - now[:, : here.stop - here.start]
        after, _ = lfilter(
            [level_share], [1.0, level_share - 1.0], left, axis=1, zi=((1 - level_share) * level)[:, None]
        )
        before = np.concatenate([level[:, None], after[:, :-1]], axis=1)
        levels[:, here] = after
        season[i] = now
        season[i + 1] = now
        learned = usual[:, here] - now[:, : left.shape[1]] - before
        season[i + 1][:, : left.shape[1]] += season_share * learned
        level = after[:, -1]
    return Smoothed(levels, season)


def _from_the_start(level: Values) -> Values:
    """Return the levels with what lies before the first value of a series set to that; 0 where there is none."""
    if np.isfinite(level[:, 0]).all():
        return level
    known = np.isfinite(level)
    first = np.where(known.any(axis=1), level[np.arange(len(level)), known.argmax(axis=1)], 0.0)
    return np.where(known, level, first[:, None])


def _on_the_clock(season: Values, window: Window, start: int) -> Values:
    """Return the season turned by what the clocks were changed in the day before: it follows local time."""
    shift = window.calendar.shift
    turned = int(shift[start] - shift[max(0, start - window.calendar.day_points)])
    return np.roll(season, -turned, axis=1) if turned else season


@dataclass(frozen=True, slots=True)
class HoltWinters:
    """The best of a few fixed settings, for each series and horizon, by its error in the last days."""

    name: str = "holt-winters-fixed"
    needs_days: float = 2.5

    def fit(self, window: Window, horizons: tuple[int, ...]) -> Parameters:
        """Return `setting` (series, horizons): the place in the grid of level shares and season shares."""
        day = window.calendar.day_points
        at = origin_points(window, min(_JUDGED_DAYS * day, window.points - day), 2)
        every = np.arange(window.count)
        runs = (smooth(window, *shares, every) for shares in _SETTINGS)
        errors = [[self._error(window, smoothed, h, at) for h in horizons] for smoothed in runs]
        return {"setting": np.array(errors).argmin(axis=0).T}

    def _error(self, window: Window, smoothed: Smoothed, horizon: int, at: NDArray[np.int64]) -> Values:
        then = at[at + horizon < window.points] + horizon
        error = np.abs(window.level[:, then] - smoothed.ahead(horizon, then - horizon))
        return np.asarray(np.where(window.known[:, then] & np.isfinite(error), error, 0.0).mean(axis=1))

    def predict(
        self, parameters: Parameters, window: Window, horizons: tuple[int, ...], origins: int, stride: int = 1
    ) -> Values:
        """Return the forecasts of the chosen settings."""
        at = origin_points(window, origins, stride)
        setting = parameters["setting"]
        found = np.full((window.count, len(horizons), len(at)), np.nan)
        for place, shares in enumerate(_SETTINGS):
            chosen = setting == place
            rows = np.flatnonzero(chosen.any(axis=1))
            if len(rows) == 0:
                continue
            smoothed = smooth(window, *shares, rows)
            for i, horizon in enumerate(horizons):
                here = chosen[rows, i]
                found[rows[here], i] = smoothed.ahead(horizon, at)[here]
        return np.where(np.isfinite(window.level[:, None, at]), found, np.nan)
