"""Each clamp on its own."""

import pytest

from scaler.config.models import RateLimit
from scaler.core.clamps import bounded, rate_limited, recorded, remembered, stabilised

FALLS = RateLimit(down_replicas=1, down_share=0.5)
RISES = RateLimit(up_replicas=4, up_share=1.0, down_replicas=None, down_share=None)
NONE = RateLimit(down_replicas=None, down_share=None)


def test_the_maximum_of_the_hold_window_stays_in_force() -> None:
    """10 wished at 0 s holds until 300 s have passed, not a second longer."""
    wishes = remembered((), 10, 300, 0)
    for at in range(15, 300, 15):
        wishes = remembered(wishes, 4, 300, at)
        assert stabilised(wishes) == 10
    assert stabilised(remembered(wishes, 4, 300, 300)) == 4


def test_wishes_are_kept_only_while_they_can_still_be_the_maximum() -> None:
    """A larger wish makes smaller ones before it pointless; equal ones are kept once."""
    wishes = remembered(remembered(remembered((), 5, 300, 0), 3, 300, 15), 8, 300, 30)
    assert list(wishes) == [(30, 8)]
    assert remembered(wishes, 8, 300, 45) == ((45, 8),)


def test_the_memory_of_wishes_is_bounded_however_often_is_decided() -> None:
    """A wish that falls every second for two hours is at most 61 entries, and none falls out early."""
    wishes: tuple[tuple[float, int], ...] = ()
    for second in range(7200):
        wishes = remembered(wishes, 7200 - second, 3600, second)
        assert len(wishes) <= 61
        assert stabilised(wishes) >= 7200 - max(0, second - 3599)


@pytest.mark.parametrize(("target", "result"), [(0, 2), (5, 5), (11, 9)])
def test_bounds(target: int, result: int) -> None:
    """Within lower and upper."""
    assert bounded(target, 2, 9) == result


def test_where_bounds_contradict_each_other_the_cap_wins() -> None:
    """Never overstep a cap."""
    assert bounded(5, 8, 3) == 3


@pytest.mark.parametrize(
    ("limit", "target", "previous", "targets", "result"),
    [
        (FALLS, 0, 20, ((0.0, 20),), 10),
        (FALLS, 15, 20, ((0.0, 20),), 15),
        (FALLS, 0, 1, ((0.0, 1),), 0),
        (FALLS, 0, 12, ((0.0, 20), (80.0, 12)), 10),
        (FALLS, 0, 12, ((0.0, 20), (30.0, 12)), 6),
        (FALLS, 90, 20, ((0.0, 20),), 90),
        (RISES, 90, 3, ((0.0, 3),), 7),
        (RISES, 90, 20, ((0.0, 20),), 40),
        (RISES, 90, 60, ((0.0, 20), (80.0, 60)), 60),
        (RISES, 1, 20, ((0.0, 20),), 1),
        (NONE, 0, 20, ((0.0, 20),), 0),
        (FALLS, 2, 20, (), 10),
    ],
)
def test_rate(
    limit: RateLimit, target: int, previous: int, targets: tuple[tuple[float, int], ...], result: int
) -> None:
    """At 100 s, over a period of 60 s: the larger allowance from what was in force at 40 s; no move turns around."""
    assert rate_limited(target, previous, targets, limit, 100.0) == result


def test_targets_are_recorded_at_their_changes_and_forgotten_after_the_period() -> None:
    """One entry from before the period says what was in force when it began."""
    targets = recorded(recorded(recorded((), 3, 60, 0), 3, 60, 15), 5, 60, 30)
    assert list(targets) == [(0, 3), (30, 5)]
    assert recorded(targets, 6, 60, 95) == ((30, 5), (95, 6))
