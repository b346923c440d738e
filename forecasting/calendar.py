"""The local time of the points of a grid: seasons follow people's clocks, grids follow UTC."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo

import numpy as np
from numpy.typing import NDArray

from forecasting.series import Grid, Values

DAY_S = 86_400


@dataclass(frozen=True, slots=True, eq=False)
class Calendar:
    """Of each point of a grid and of some points after it, (points + ahead,): where it is in its local day and week.

    A point stands for the step before it; its local time is that of the middle of that step.
    """

    day_points: int  # points in a day of 24 hours
    time_of_day: Values  # share of the local day, 0 .. 1
    weekday: NDArray[np.int64]  # 0 is Monday
    holiday: NDArray[np.bool_]
    shift: NDArray[np.int64]  # steps by which local time is ahead of UTC

    def back(self, days: int) -> NDArray[np.int64]:
        """Return, for each point, the index of the point with the same local time so many days before.

        Before the first point it is negative. Over a change of clocks a day has 23 or 25 hours: the index follows the
        local time. An hour that does not exist that day is taken as the one that stands in its place.
        """
        here = np.arange(len(self.shift))
        plain = here - days * self.day_points
        then = self.shift[np.clip(plain, 0, None)]
        return plain + (self.shift - then)


def calendar_of(grid: Grid, ahead: int, zone: tzinfo = UTC, holidays: frozenset[date] = frozenset()) -> Calendar:
    """Return the calendar of a grid and `ahead` points after it; ValueError if a day is no whole number of steps."""
    if DAY_S % grid.step_s:
        raise ValueError(f"step_s must divide a day of {DAY_S} s, was {grid.step_s}")
    middle_s: Values = grid.start_s + (np.arange(grid.count + ahead, dtype=np.float64) - 0.5) * grid.step_s
    offset_s = _offsets_s(middle_s, zone)
    local_s = middle_s + offset_s
    days = np.floor(local_s / DAY_S).astype(np.int64)
    dates = {day: date(1970, 1, 1) + timedelta(days=int(day)) for day in np.unique(days)}
    return Calendar(
        day_points=DAY_S // grid.step_s,
        time_of_day=local_s / DAY_S - days,
        weekday=(days + 3) % 7,  # 1 January 1970 was a Thursday
        holiday=np.array([dates[day] in holidays for day in days]),
        shift=np.rint(offset_s / grid.step_s).astype(np.int64),
    )


def _offsets_s(times_s: Values, zone: tzinfo) -> Values:
    """Return the offsets from UTC; asked once an hour, which is finer than any zone changes but for its own minute."""
    hours, where = np.unique(np.floor(times_s / 900), return_inverse=True)
    found = np.empty(len(hours))
    for i, hour in enumerate(hours):
        offset = datetime.fromtimestamp(hour * 900, tz=UTC).astimezone(zone).utcoffset()
        found[i] = 0.0 if offset is None else offset.total_seconds()
    return found[where]
