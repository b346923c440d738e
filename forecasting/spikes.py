"""One-off spikes: what happened once at a local time is no season, and must not come back a day or a week later.

A false start a week after a viral hour is a public failure of forecasts that repeat the past (mimir#7775). Here the
history that seasons are looked up in is freed of isolated excursions; the present is never touched.
"""

from typing import Final

import numpy as np

from forecasting.calendar import Calendar
from forecasting.series import Values

# An excursion: so much above the same local time of every one of the days before, in logarithms.
LIMIT: Final = 0.7
_DAYS: Final = 3
_NEAR_S: Final = 1800  # a peak that comes a little earlier or later each day is no excursion
# What fills most of so much time before or after a point is a change of level.
_SIDE_S: Final = 3 * 3600


def despiked(level: Values, calendar: Calendar, step_s: int) -> Values:
    """Return the level (series, points) for use as a season: isolated excursions are cut down to what was usual.

    Each point is judged by days before it and by the hours around it, so a peak that comes back each day is cut on its
    first day only, and a change of level for a few hours only. The hours after a point are needed to tell a spike from
    a change: a season is looked up a day later at the earliest, when they are known.
    """
    points = level.shape[1]
    near, side = max(1, _NEAR_S // step_s), max(2, _SIDE_S // step_s)
    if points < 2 * calendar.day_points or 2 * side >= calendar.day_points:
        return level
    usual = _usual(level, calendar, near)
    above = level - usual
    around = _running_median(np.where(np.isfinite(above), above, 0.0), side)
    padded = np.pad(around, ((0, 0), (side // 2, side // 2)), mode="edge")
    lasting = np.maximum(padded[:, :points], padded[:, -points:])  # of the time before, and of the time after
    excess = above - np.maximum(lasting, 0.0)
    return np.where(np.isfinite(excess) & (excess > LIMIT), level - excess, level)


def _usual(level: Values, calendar: Calendar, near: int) -> Values:
    """Return the highest level of the days before around the same local time, (series, points); NaN on the first."""
    count = level.shape[1]
    widest = _running_max(np.where(np.isfinite(level), level, -np.inf), near)
    highest = np.full(level.shape, -np.inf)
    for day in range(1, _DAYS + 1):
        index = calendar.back(day)[:count]
        index = np.minimum(index, np.arange(count) - near - 1)  # with long steps a day is few points
        highest = np.maximum(highest, np.where(index >= 0, widest[:, np.maximum(index, 0)], -np.inf))
    return np.where(np.isfinite(highest), highest, np.nan)


def _running_max(rows: Values, reach: int) -> Values:
    """Return the maximum of each value and of those within `reach` on both sides."""
    found = rows.copy()
    for shift in range(1, reach + 1):
        found[:, shift:] = np.maximum(found[:, shift:], rows[:, :-shift])
        found[:, :-shift] = np.maximum(found[:, :-shift], rows[:, shift:])
    return found


def _running_median(rows: Values, width: int) -> Values:
    """Return about the median of `width` values around each: that of block means, which is enough to tell a level."""
    block = max(1, width // 4)
    count = rows.shape[1]
    padded = np.pad(rows, ((0, 0), (0, -count % block)), mode="edge")
    blocks = padded.reshape(len(rows), -1, block).mean(axis=2)
    reach = max(1, width // (2 * block))
    wide = np.pad(blocks, ((0, 0), (reach, reach)), mode="edge")
    views = np.lib.stride_tricks.sliding_window_view(wide, 2 * reach + 1, axis=1)
    return np.repeat(np.median(views, axis=2), block, axis=1)[:, :count]
