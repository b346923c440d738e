"""Which replicas a workload has, since when they are the same, and from when on looks at them can be compared."""

import math

import pytest

from scaler.core.members import Members, members_of
from tests.core_builders import T0, replica

TWENTY = tuple(f"chat-{i}" for i in range(20))
MANY = tuple(f"chat-{i}" for i in range(200))


def _at(now_s: float, *pods: str, before: Members | None = None, oldest_s: float | None = None) -> Members:
    return members_of(before, [replica(pod) for pod in pods], oldest_s, now_s)


def test_the_same_replicas_in_another_order_are_the_same() -> None:
    """Since the first look at them."""
    first = _at(T0, *TWENTY)
    assert _at(T0 + 15, *reversed(TWENTY), before=first) == first


@pytest.mark.parametrize("pods", [TWENTY[1:], (*TWENTY, "new"), (*TWENTY[1:], "new")], ids=["gone", "come", "swapped"])
def test_one_of_twenty_is_a_change(pods: tuple[str, ...]) -> None:
    """Also where another takes its place."""
    assert _at(T0 + 15, *pods, before=_at(T0, *TWENTY)).since_s == T0 + 15


@pytest.mark.parametrize("pods", [MANY[1:], (*MANY, "new"), (*MANY[1:], "new")], ids=["gone", "come", "swapped"])
def test_one_of_many_is_none(pods: tuple[str, ...]) -> None:
    """In a pool of 200 it moves half a percent of the work."""
    assert _at(T0 + 15, *pods, before=_at(T0, *MANY)).since_s == T0


@pytest.mark.parametrize("number", [60, 200, 2000])
def test_a_tenth_of_many_is_a_change(number: int) -> None:
    """Also where others take their places and the count stays, and where they go a few at a time."""
    many = [f"chat-{i}" for i in range(number)]
    before = _at(T0, *many)
    assert _at(T0 + 15, *many[number // 10 :], before=before).since_s == T0 + 15
    swapped = [*many[number // 10 :], *(f"new-{i}" for i in range(number // 10))]
    assert _at(T0 + 15, *swapped, before=before).since_s == T0 + 15
    assert _at(T0 + 15, *many[number // 200 :], before=before).since_s == T0
    for gone in range(1, number // 10, number // 50):
        before = _at(T0 + gone, *many[gone:], before=before)
    assert before.since_s > T0


def test_looks_can_be_compared_once_every_sample_is_from_after_the_change() -> None:
    """Members change at once, samples are up to a scrape older: the first looks are a mixture."""
    before = _at(T0, *TWENTY, oldest_s=T0 - 14)
    assert before.comparable_from_s == math.inf
    mixed = _at(T0 + 15, *TWENTY, before=before, oldest_s=T0 - 1)
    assert mixed.comparable_from_s == math.inf
    settled = _at(T0 + 30, *TWENTY, before=mixed, oldest_s=T0 + 1)
    assert settled.comparable_from_s == T0 + 30
    assert (
        _at(T0 + 45, *TWENTY, before=settled, oldest_s=T0 - 1) == settled
    )  # one that is late since: the others moved on
    assert _at(T0 + 60, *TWENTY[1:], before=settled, oldest_s=T0 + 50).comparable_from_s == math.inf


def test_silence_is_no_sample() -> None:
    """Where nobody says anything there is nothing to compare with."""
    assert _at(T0 + 15, *TWENTY, before=_at(T0, *TWENTY)).comparable_from_s == math.inf


def test_a_clock_that_was_set_back_is_a_change() -> None:
    """Else nothing could be compared until it has caught up."""
    assert _at(T0 - 3600, *TWENTY, before=_at(T0, *TWENTY)).since_s == T0 - 3600


def test_nobody_is_a_pool_too() -> None:
    """At zero, and from zero."""
    nobody = _at(T0)
    assert _at(T0 + 15, before=nobody) == nobody
    assert _at(T0 + 30, "chat-0", before=nobody).since_s == T0 + 30
