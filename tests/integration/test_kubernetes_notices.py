"""Notices as Events, over HTTP: what stands in them, and that there are never too many."""

from collections.abc import Iterator
from typing import Any

import pytest

from scaler.adapters.kubernetes.api import ApiConnection
from scaler.adapters.kubernetes.events import KubernetesNotices, NoticeLimits, Subject
from scaler.core.values import WorkloadId
from scaler.ports import Notice
from tests.api_rig import connected
from tests.api_server_double import ApiServerDouble
from tests.scaler_rig import CHAT, START_S, ManualClock

EVENTS = "/apis/events.k8s.io/v1/namespaces/shop/events"
STOPPED = Notice(CHAT, "EvidenceStopped", "no evidence for 320 s", warning=True)


@pytest.fixture
def server() -> Iterator[ApiServerDouble]:
    with ApiServerDouble() as double:
        yield double


@pytest.fixture
def api(server: ApiServerDouble) -> Iterator[ApiConnection]:
    with connected(server, ManualClock()) as connection:
        yield connection


@pytest.fixture
def notices(api: ApiConnection) -> KubernetesNotices:
    return KubernetesNotices(api, "pod-a", subject_of=lambda _: Subject(uid="uid-of-chat"))


def events(server: ApiServerDouble) -> list[dict[str, Any]]:
    return server.items(EVENTS)


async def test_an_event(notices: KubernetesNotices, server: ApiServerDouble) -> None:
    """It is about the ScaledObject, by its uid, of the new API and by our name."""
    await notices.post([STOPPED], START_S)
    (event,) = events(server)
    assert event["regarding"] == {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "namespace": "shop",
        "name": "chat",
        "uid": "uid-of-chat",
    }
    assert (event["reason"], event["type"], event["note"]) == ("EvidenceStopped", "Warning", "no evidence for 320 s")
    assert event["eventTime"] == "2023-11-14T22:13:20.000000Z"
    assert (notices.posted, notices.dropped) == (1, 0)


async def test_what_repeats_is_counted(notices: KubernetesNotices, server: ApiServerDouble) -> None:
    """Within ten minutes of the last it is one Event with a count; later, or for another reason, it is a new one."""
    for after_s in (0.0, 300.0, 800.0):
        await notices.post([STOPPED], START_S + after_s)
    (event,) = events(server)
    assert event["series"] == {"count": 3, "lastObservedTime": "2023-11-14T22:26:40.000000Z"}
    await notices.post([STOPPED], START_S + 1400.0)
    await notices.post([Notice(CHAT, "EvidenceBack", "there is")], START_S + 1400.0)
    assert len(events(server)) == 3


async def test_an_event_that_the_server_forgot(notices: KubernetesNotices, server: ApiServerDouble) -> None:
    """It keeps them for an hour; what cannot be counted any more is posted anew."""
    await notices.post([STOPPED], START_S)
    server.remove(f"{EVENTS}/{events(server)[0]['metadata']['name']}")
    await notices.post([STOPPED], START_S + 60.0)
    assert len(events(server)) == 1
    assert notices.dropped == 0


async def test_one_workload_cannot_flood(notices: KubernetesNotices, server: ApiServerDouble) -> None:
    """Its bucket holds ten, and one comes back each minute; another workload has its own."""
    flood = [Notice(CHAT, f"Reason{number}", "x") for number in range(30)]
    await notices.post(flood, START_S)
    assert (len(events(server)), notices.posted, notices.dropped) == (10, 10, 20)
    await notices.post(flood[:5], START_S + 60.0)
    assert notices.posted == 11
    await notices.post([Notice(WorkloadId("shop", "other"), "Reason", "x")], START_S + 60.0)
    assert notices.posted == 12


async def test_all_workloads_together_cannot_flood(notices: KubernetesNotices, server: ApiServerDouble) -> None:
    """When everything stops at once the first fifty are told, warnings before the rest; then one a second."""
    some = [Notice(WorkloadId("shop", f"w{number}"), "Calm", "x", warning=number % 3 == 0) for number in range(200)]
    await notices.post(some, START_S)
    assert (notices.posted, notices.dropped) == (50, 150)
    assert {event["type"] for event in events(server)} == {"Warning"}
    more = [Notice(WorkloadId("shop", f"v{number}"), "Calm", "x") for number in range(200)]
    await notices.post(more, START_S + 3.0)
    assert notices.posted == 53


async def test_a_clock_that_is_set_back_gives_no_tokens(notices: KubernetesNotices) -> None:
    """Neither tokens nor a count that goes back in time; and nothing breaks."""
    await notices.post([Notice(CHAT, f"Reason{number}", "x") for number in range(10)], START_S)
    for step in range(5):
        await notices.post([STOPPED], START_S - 3600.0 * step)
    assert (notices.posted, notices.dropped) == (10, 5)


async def test_a_message_that_is_hostile(notices: KubernetesNotices, server: ApiServerDouble) -> None:
    """It is one line, and short enough."""
    await notices.post([Notice(CHAT, "Reason", "a\nb\x1b[31m\u202e" + "x" * 5000)], START_S)
    (event,) = events(server)
    assert event["note"].startswith("a b [31m")
    assert event["note"].isprintable()
    assert len(event["note"]) <= 1024


@pytest.mark.parametrize("fault", [{"kind": "refuse"}, {"kind": "cut"}, {"kind": "status", "status": 403}])
async def test_failures_are_counted_and_not_raised(
    notices: KubernetesNotices, server: ApiServerDouble, fault: dict[str, Any]
) -> None:
    """A notice is not worth a tick; when the server takes them again they are posted."""
    server.fail(fault["kind"], verb="create", status=fault.get("status", 500))
    await notices.post([STOPPED], START_S)
    assert (notices.posted, notices.dropped) == (0, 1)
    server.heal()
    await notices.post([STOPPED], START_S + 15.0)
    assert notices.posted == 1


async def test_a_server_that_is_gone_is_asked_once(notices: KubernetesNotices, server: ApiServerDouble) -> None:
    """The rest of a batch would fare no better."""
    server.leave()
    await notices.post([Notice(WorkloadId("shop", f"w{number}"), "Calm", "x") for number in range(20)], START_S)
    assert server.count() == 1
    assert notices.dropped == 20


async def test_a_workload_with_an_impossible_name(notices: KubernetesNotices) -> None:
    """Whatever is wrong, nothing is raised."""
    await notices.post([Notice(WorkloadId("..", "x"), "Reason", "x")], START_S)
    assert notices.dropped == 1


@pytest.mark.parametrize("name", ["workload_burst", "workload_per_s", "burst", "per_s", "series_s", "budget_s"])
def test_limits(name: str) -> None:
    """A limit of nothing is refused by name."""
    settings: dict[str, Any] = {name: 0}
    with pytest.raises(ValueError, match=f"{name} must be > 0, was 0"):
        NoticeLimits(**settings)
