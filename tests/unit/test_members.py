"""Which replicas a workload has, and since when they are the same."""

import pytest

from scaler.core.members import Members, members_of
from tests.core_builders import T0, replica

TWENTY = tuple(f"chat-{i}" for i in range(20))


def _at(now_s: float, *pods: str, before: Members | None = None) -> Members:
    return members_of(before, [replica(pod) for pod in pods], now_s)


def test_the_same_replicas_in_another_order_are_the_same() -> None:
    """Since the first look at them."""
    first = _at(T0, *TWENTY)
    assert _at(T0 + 15, *reversed(TWENTY), before=first) == first


@pytest.mark.parametrize("pods", [TWENTY[1:], (*TWENTY, "new"), (*TWENTY[1:], "new")], ids=["gone", "come", "swapped"])
def test_one_of_twenty_is_a_change(pods: tuple[str, ...]) -> None:
    """Also where another takes its place."""
    assert _at(T0 + 15, *pods, before=_at(T0, *TWENTY)).since_s == T0 + 15


def test_a_few_of_many_are_none() -> None:
    """In a pool of 200 one that comes, goes or is swapped moves half a percent of the work."""
    many = [f"chat-{i}" for i in range(200)]
    before = _at(T0, *many)
    for pods in (many[1:], [*many, "new"], [*many[1:], "new"]):
        assert _at(T0 + 15, *pods, before=before).since_s == T0
    assert _at(T0 + 15, *many[10:], before=before).since_s == T0 + 15


def test_nobody_is_a_pool_too() -> None:
    """At zero, and from zero."""
    nobody = _at(T0)
    assert _at(T0 + 15, before=nobody) == nobody
    assert _at(T0 + 30, "chat-0", before=nobody).since_s == T0 + 30
