"""The local time of grid points: people's clocks change, grids do not."""

from datetime import UTC, date, datetime, tzinfo
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecasting.calendar import calendar_of
from forecasting.series import Grid

NEW_YORK, BERLIN = ZoneInfo("America/New_York"), ZoneInfo("Europe/Berlin")
ZONES = [UTC, NEW_YORK, BERLIN, ZoneInfo("Asia/Kolkata"), ZoneInfo("Australia/Lord_Howe"), ZoneInfo("Pacific/Auckland")]


def _grid(start: datetime, count: int, step_s: int = 300) -> Grid:
    return Grid(int(start.timestamp()) // step_s * step_s, step_s, count)


@settings(max_examples=40)
@given(
    st.sampled_from(ZONES), st.sampled_from([300, 900, 1800, 3600]), st.integers(0, 2_000_000_000), st.integers(1, 200)
)
def test_local_time_is_that_of_the_clock_on_the_wall(zone: tzinfo, step_s: int, start_s: int, count: int) -> None:
    """Of the middle of each step, whatever the zone, the step and the date."""
    grid = Grid(start_s // step_s * step_s, step_s, count)
    found = calendar_of(grid, 3, zone)
    for i in (0, count // 2, count + 2):
        local = datetime.fromtimestamp(grid.start_s + (i - 0.5) * step_s, tz=UTC).astimezone(zone)
        assert found.time_of_day[i] * 86_400 == pytest.approx(
            local.hour * 3600 + local.minute * 60 + local.second, abs=1e-3
        )
        assert found.weekday[i] == local.weekday()


def test_a_day_back_is_the_same_local_time_also_over_a_change_of_clocks() -> None:
    """Clocks in New York went forward on 9 March 2025: noon was 23 hours after noon, and on 2 November 25 hours."""
    for day, steps in ((date(2025, 3, 9), 23 * 12), (date(2025, 11, 2), 25 * 12), (date(2025, 6, 1), 24 * 12)):
        noon = datetime(day.year, day.month, day.day, 12, tzinfo=NEW_YORK)
        grid = _grid(datetime.fromtimestamp(noon.timestamp() - 3 * 86_400, tz=UTC), 6 * 288)
        found = calendar_of(grid, 12, NEW_YORK)
        at = round((noon.timestamp() - grid.start_s) / 300)
        assert at - found.back(1)[at] == steps
        assert found.time_of_day[found.back(1)[at]] == pytest.approx(found.time_of_day[at])


def test_half_an_hour_of_daylight_saving_is_followed() -> None:
    """Lord Howe Island moves its clocks by 30 minutes: on 6 April 2025 a day had 24.5 hours."""
    noon = datetime(2025, 4, 6, 12, tzinfo=ZoneInfo("Australia/Lord_Howe"))
    grid = _grid(datetime.fromtimestamp(noon.timestamp() - 2 * 86_400, tz=UTC), 4 * 288)
    found = calendar_of(grid, 0, ZoneInfo("Australia/Lord_Howe"))
    at = round((noon.timestamp() - grid.start_s) / 300)
    assert at - found.back(1)[at] == 24 * 12 + 6


@settings(max_examples=40)
@given(st.sampled_from(ZONES), st.integers(0, 2_000_000_000), st.integers(1, 14))
def test_a_look_back_never_sees_the_present(zone: tzinfo, start_s: int, days: int) -> None:
    """Whatever clocks do, the same local time of an earlier day lies at least 22 hours before."""
    found = calendar_of(Grid(start_s // 3600 * 3600, 3600, 400), 12, zone)
    back = found.back(days)
    assert (np.arange(len(back)) - back >= days * 24 - 2).all()
    assert (np.arange(len(back)) - back <= days * 24 + 2).all()


def test_holidays_are_local_days() -> None:
    """The fourth of July begins in New York four hours after it does in UTC."""
    grid = _grid(datetime(2025, 7, 4, tzinfo=UTC), 288)
    found = calendar_of(grid, 0, NEW_YORK, frozenset({date(2025, 7, 4)}))
    assert found.holiday.tolist() == [i > 48 for i in range(288)]


def test_a_step_that_no_day_is_a_multiple_of_is_refused() -> None:
    """Seasons are whole numbers of steps."""
    with pytest.raises(ValueError, match="step_s must divide a day of 86400 s, was 420"):
        calendar_of(Grid(0, 420, 10), 0)
