"""From a batch of rates to the window that experts see: logarithms, and gaps filled from what lies before them."""

from datetime import UTC, date, tzinfo

import numpy as np
from numpy.typing import NDArray

from forecasting.calendar import calendar_of
from forecasting.contract import Window
from forecasting.series import Batch, Values
from forecasting.spikes import despiked

# The offset of the logarithm as a share of the mean: below it a series is as good as idle, and ratios say nothing.
OFFSET_SHARE = 0.05
# A gap of up to an hour is filled with the last value; of a longer one only the season is known.
_SHORT_GAP_S = 3600


def window_of(
    batch: Batch,
    ahead: int,
    *,
    zone: tzinfo = UTC,
    holidays: frozenset[date] = frozenset(),
    offset: Values | None = None,
) -> Window:
    """Return the window of a batch, with a calendar `ahead` points further.

    `offset` (series,) is that of the fit, for a later window of the same series; without it, it is found here.
    """
    calendar = calendar_of(batch.grid, ahead, zone, holidays)
    known = np.isfinite(batch.values)
    shift = offset_of(batch.values) if offset is None else offset
    level = np.log(np.where(known, batch.values, 0.0) + shift[:, None])
    days = -(-batch.grid.count // calendar.day_points)
    filled = _filled(level, known, calendar.back(1), days, max(1, _SHORT_GAP_S // batch.grid.step_s))
    return Window(batch.grid, filled, despiked(filled, calendar, batch.grid.step_s), known, shift, calendar)


def offset_of(values: Values) -> Values:
    """Return the offset of each series, in its unit; 1 for one that is all zero or all missing."""
    known = np.isfinite(values)
    counts = known.sum(axis=1)
    mean = np.where(known, values, 0.0).sum(axis=1) / np.maximum(counts, 1)
    return np.where(mean > 0, OFFSET_SHARE * mean, 1.0)


def _filled(level: Values, known: NDArray[np.bool_], back: NDArray[np.int64], days: int, short_gap: int) -> Values:
    """Fill gaps: short ones with the last value, longer ones with the same local time a day before where that is."""
    if known.all():
        return level
    count = level.shape[1]
    points = np.arange(count)
    last = np.maximum.accumulate(np.where(known, points, -1), axis=1)
    carried = np.where(last >= 0, np.take_along_axis(level, np.maximum(last, 0), axis=1), np.nan)
    long_gap = ~known & (points - last > short_gap) & (last >= 0)
    if not long_gap.any():
        return carried
    index = back[:count]
    for _ in range(days):  # a gap of several days is filled from the last day that is known, a day at a time
        before = np.where(index >= 0, carried[:, np.maximum(index, 0)], np.nan)
        carried = np.where(long_gap & np.isfinite(before), before, carried)
    return carried
