"""How long a follower waits after which failure."""

import random
from collections.abc import Iterator

import pytest

from scaler.adapters.kubernetes.api import ApiConnection, at
from scaler.adapters.kubernetes.keeping import Kept
from scaler.adapters.kubernetes.objects import Object
from scaler.adapters.kubernetes.watch import Follower, Pace
from tests.metrics_fakes import FixedClock

PACE = Pace(backoff_s=1.0, backoff_max_s=30.0, refused_max_s=60.0)


class _Waits(FixedClock):
    """Takes down how long somebody would wait, and lets nobody."""

    def __init__(self) -> None:
        super().__init__()
        self.waits_s: list[float] = []

    def wall_duration(self, seconds: float) -> float:
        self.waits_s.append(seconds)
        return 0.0


class _Longest(random.Random):
    """Draws the whole of each wait."""

    def uniform(self, a: float, b: float) -> float:
        return max(a, b)


@pytest.fixture
def clock() -> _Waits:
    return _Waits()


@pytest.fixture
def follower(clock: _Waits) -> Iterator[Follower[Object]]:
    api = ApiConnection(at("http://127.0.0.1:9"), clock)
    try:
        yield Follower("pods", "/api/v1/pods", lambda it: it, Kept(), api, pace=PACE, chance=_Longest())
    finally:
        api.close()


def fail(follower: Follower[Object], status: int, times: int) -> None:
    for _ in range(times):
        follower._failed("what went wrong", status=status)


def test_waits_grow_up_to_a_bound(clock: _Waits, follower: Follower[Object]) -> None:
    """Each failure in a row doubles the wait."""
    fail(follower, 0, 7)
    assert clock.waits_s == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refusal_waits_longer_in_the_end_but_not_at_once(
    clock: _Waits, follower: Follower[Object], status: int
) -> None:
    """An API server that has just started refuses for a moment whatever it has not read the roles, or the kind, of.

    What was waited for while it was away does not count then: half a minute of no view would come of it.
    """
    fail(follower, 0, 6)
    fail(follower, status, 8)
    assert clock.waits_s[6:] == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]


def test_the_list_after_an_outage_comes_soon(clock: _Waits, follower: Follower[Object]) -> None:
    """A server that is back and says that the version has expired is not waited for as one that is gone.

    API servers say so of every version that is older than their own start.
    """
    fail(follower, 0, 6)
    fail(follower, 410, 3)
    assert clock.waits_s[6:] == [1.0, 2.0, 4.0]
