"""The clocks."""

import math

import pytest

from scaler.adapters.clock import ScaledClock, SystemClock


def test_a_rehearsal_runs_faster() -> None:
    """A minute of the wall is an hour at speed 60, and waiting shrinks by as much."""
    clock = ScaledClock(speed=60, wall_origin_s=1000, origin_s=5_000_000)
    assert clock.from_wall(1000) == 5_000_000
    assert clock.from_wall(1060) == 5_003_600
    assert clock.wall_duration(3600) == 60


def test_processes_of_a_rehearsal_agree() -> None:
    """The time depends on the three numbers and the wall only, not on when the process started."""
    first, second = (ScaledClock(speed=30, wall_origin_s=1000, origin_s=0) for _ in range(2))
    assert first == second
    before, after = first.now_s(), second.now_s()
    assert before <= after


def test_the_scaled_time_is_the_walls_time_scaled() -> None:
    """Now lies between the wall's time before and after, as the rehearsal shows them."""
    wall, clock = SystemClock(), ScaledClock(speed=10, wall_origin_s=1000, origin_s=0)
    before = clock.from_wall(wall.now_s())
    now = clock.now_s()
    assert before <= now <= clock.from_wall(wall.now_s())


def test_monotonic_seconds_are_scaled_too() -> None:
    """Ages measured in a rehearsal are the rehearsal's."""
    wall, clock = SystemClock(), ScaledClock(speed=10, wall_origin_s=1000, origin_s=0)
    before = wall.monotonic_s() * 10
    now = clock.monotonic_s()
    assert before <= now <= wall.monotonic_s() * 10


def test_the_system_clock_is_the_walls() -> None:
    """Nothing is scaled, nothing is shifted."""
    clock = SystemClock()
    assert clock.from_wall(123.0) == 123.0
    assert clock.wall_duration(15.0) == 15.0
    assert clock.monotonic_s() <= clock.monotonic_s()


@pytest.mark.parametrize("speed", [0.0, -1.0, math.nan, math.inf])
def test_a_speed_that_is_none(speed: float) -> None:
    """A clock that stands still, runs back or is not a number is refused."""
    with pytest.raises(ValueError, match="speed must be a finite number > 0, was"):
        ScaledClock(speed=speed, wall_origin_s=0, origin_s=0)
