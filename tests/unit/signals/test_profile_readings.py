"""Answers to query profiles become readings; what is wrong with a query costs its own signal, and is told."""

import math
from typing import Any

import pytest

from scaler.adapters.signals.profiles import ProfileAnswers, ProfileCollector
from scaler.config.models import DecisionSettings, SourceRef, WorkloadSettings
from scaler.config.profiles import QueryProfile
from scaler.core.observation import QueueReading, ReplicaReading
from scaler.core.values import Known, Missing, Reading, Reason, Stale
from tests.query_fakes import FakeQueries, Fate, Rows

DECISION = DecisionSettings()  # samples of 90 s are stale
NOT_EXPORTED = Missing(Reason.NOT_EXPORTED)
POD = ("demo", "chat-0")
UP = "timestamp(up)"


def own_engine(**more: Any) -> QueryProfile:
    """Return a profile of pods; the name of each signal's metric is the signal's."""
    signals = {
        word: {"query": f"sum by (namespace, pod) (my_{word})"}
        for word in ("running", "waiting", "completions", "kvUsage", "queueTime")
    }
    signals["queueTime"]["scale"] = 0.001  # type: ignore[assignment]  # a mapping as a file holds it
    return QueryProfile.model_validate({"name": "own", "kind": "pod", "signals": signals} | more)


def lag(**more: Any) -> QueryProfile:
    words = ("waiting", "consumers", "arrivals", "completions", "prefetch")
    signals = {word: {"query": f"sum by (consumergroup, topic) (my_{word})"} for word in words}
    return QueryProfile.model_validate(
        {"name": "lag", "kind": "queue", "labels": ["consumergroup", "topic"], "signals": signals} | more
    )


CHAT = WorkloadSettings(namespace="demo", name="chat", engine="profile:own")
JOBS = WorkloadSettings(
    namespace="demo",
    name="jobs",
    demand_source=SourceRef(preset="profile:lag", identity=("workers", "jobs"), share=0.5),
)


def pod_rows(value: float, *pods: str) -> Rows:
    return [({"namespace": "demo", "pod": pod}, value) for pod in pods or ("chat-0",)]


def lag_rows(value: float) -> Rows:
    return [({"consumergroup": "workers", "topic": "jobs"}, value)]


def server() -> FakeQueries:
    """Return a server that takes samples in, and knows of one pod and one queue."""
    return (
        FakeQueries()
        .containing("my_running", pod_rows(3.0))
        .containing("my_waiting", pod_rows(2.0) + lag_rows(40.0))
        .containing("my_completions", pod_rows(1.5) + lag_rows(6.0))
        .containing("my_kvUsage", pod_rows(0.5))
        .containing("my_queueTime", pod_rows(250.0))
        .containing("my_consumers", lag_rows(4.0))
        .containing("my_arrivals", lag_rows(8.0))
        .containing("my_prefetch", lag_rows(10.0))
        .containing(UP, [({}, 7.0)])
    )


async def ask(source: FakeQueries, *profiles: QueryProfile) -> tuple[ProfileAnswers, ProfileCollector]:
    collector = ProfileCollector(source, DECISION, profiles or (own_engine(), lag()))
    return await collector.answers([CHAT, JOBS], 0.0), collector


async def pod(source: FakeQueries, *profiles: QueryProfile) -> tuple[ReplicaReading, ProfileCollector]:
    answers, collector = await ask(source, *profiles)
    return answers.replicas("profile:own", [POD])[POD], collector


async def test_a_pod_s_signals() -> None:
    """Each query fills one signal, in Headway's unit; what the profile does not give, the engine does not export."""
    reading, collector = await pod(server())
    assert reading == ReplicaReading(
        pod="chat-0",
        running=Known(3.0, 7.0),
        waiting=Known(2.0, 7.0),
        kv_usage=Known(0.5, 7.0),
        completions_rps=Known(1.5, 7.0),
        queue_time_s=Known(0.25, 7.0),
    )
    assert collector.failures == ()


async def test_a_queue_s_signals_and_the_share_of_this_cluster() -> None:
    """Counts and rates are shared; what one consumer may hold is not."""
    answers, _ = await ask(server())
    assert answers.queue(JOBS) == QueueReading(
        waiting=Known(20.0, 7.0),
        unacked=NOT_EXPORTED,
        consumers=Known(2.0, 7.0),
        prefetch=Known(10.0, 7.0),
        arrivals_rps=Known(4.0, 7.0),
        completions_rps=Known(3.0, 7.0),
    )
    assert answers.queue(CHAT) is None


async def test_the_platform_s_prefetch_rules() -> None:
    """What the grant says goes before what is measured, and the slots of a replica before both."""
    answers, _ = await ask(server())
    ref = JOBS.demand_source
    assert ref is not None
    granted = JOBS.model_copy(update={"demand_source": ref.model_copy(update={"prefetch": 3})})
    slots = granted.model_copy(update={"slots_per_replica": 2})
    readings = [answers.queue(workload) for workload in (granted, slots)]
    assert [reading and reading.prefetch for reading in readings] == [Known(3.0), Known(2.0)]


async def test_a_pod_without_rows_is_silent() -> None:
    """It is not idle: a pod that is out of sight has no number."""
    answers, _ = await ask(server())
    reading = answers.replicas("profile:own", [("demo", "chat-9")])["demo", "chat-9"]
    assert (reading.running, reading.waiting) == (Missing(Reason.NO_SERIES), Missing(Reason.NO_SERIES))
    assert reading.preemptions_rps == NOT_EXPORTED


async def test_a_profile_that_is_not_there() -> None:
    """A workload that still names it is silent."""
    answers, _ = await ask(server(), lag())
    reading = answers.replicas("profile:own", [POD])[POD]
    assert reading == ReplicaReading("chat-0", Missing(Reason.NO_SERIES), Missing(Reason.NO_SERIES))


@pytest.mark.parametrize(
    ("fate", "reason"),
    [
        (Reason.SOURCE_DOWN, Reason.SOURCE_DOWN),
        (RuntimeError("boom"), Reason.SOURCE_DOWN),
        (("a store is gone",), Reason.PARTIAL_ANSWER),
        ([({"namespace": "demo"}, 3.0), ({"pod": "chat-0"}, 3.0)], Reason.INVALID_VALUE),
        (pod_rows(3.0, "chat-0", "chat-0"), Reason.INVALID_VALUE),
        (pod_rows(3.0, *(f"p-{i}" for i in range(10_001))), Reason.INVALID_VALUE),
    ],
)
async def test_a_query_that_is_wrong_costs_its_own_signal(fate: Fate, reason: Reason) -> None:
    """It fails, is incomplete, names no owner, names one twice, or answers far more than was asked."""
    reading, collector = await pod(server().containing("my_running", fate))
    assert (reading.running, reading.waiting) == (Missing(reason), Known(2.0, 7.0))
    (failure,) = collector.failures
    assert (failure.what, failure.reason) == ("profile:own", reason)
    assert failure.message.startswith("running: ")


async def test_two_rows_of_one_owner_leave_the_others() -> None:
    """Which of the two is right nobody knows; the other owners' rows are not in doubt."""
    rows = [*pod_rows(3.0, "chat-0", "chat-1"), *pod_rows(9.0, "chat-0")]
    answers, _ = await ask(server().containing("my_running", rows))
    readings = answers.replicas("profile:own", [POD, ("demo", "chat-1")])
    assert [reading.running for reading in readings.values()] == [Missing(Reason.INVALID_VALUE), Known(3.0, 7.0)]


@pytest.mark.parametrize(
    ("metric", "name", "value", "expected"),
    [
        ("my_running", "running", math.nan, Missing(Reason.INVALID_VALUE)),
        ("my_running", "running", math.inf, Missing(Reason.INVALID_VALUE)),
        ("my_running", "running", -1.0, Missing(Reason.NEGATIVE)),
        ("my_running", "running", 1e15, Missing(Reason.INVALID_VALUE)),
        ("my_running", "running", 0.0, Known(0.0, 7.0)),
        ("my_kvUsage", "kv_usage", 50.0, Missing(Reason.INVALID_VALUE)),
        ("my_kvUsage", "kv_usage", 1.0, Known(1.0, 7.0)),
    ],
)
async def test_values_that_cannot_be(metric: str, name: str, value: float, expected: Reading) -> None:
    """A share above 1 is an error, and is not taken for a percentage."""
    reading, _ = await pod(server().containing(metric, pod_rows(value)))
    assert getattr(reading, name) == expected


@pytest.mark.parametrize(
    ("fate", "expected"),
    [
        ([({}, 91.0)], Stale(91.0)),
        ([], Missing(Reason.NO_SERIES)),
        ([({}, math.nan)], Missing(Reason.INVALID_VALUE)),
        ([({}, -91.0)], Missing(Reason.INVALID_VALUE)),
        (Reason.SOURCE_TIMEOUT, Missing(Reason.SOURCE_TIMEOUT)),
    ],
)
async def test_a_server_that_takes_nothing_in_has_no_evidence(fate: Fate, expected: Reading) -> None:
    """It would go on answering for five minutes; without `up` nothing tells."""
    reading, _ = await pod(server().containing(UP, fate))
    assert reading.running == expected


async def test_samples_ages_are_those_that_the_profile_tells() -> None:
    """With `sampledAt` each owner has its own age, and one that has none is unknown."""
    profile = own_engine(sampledAt="min by (namespace, pod) (timestamp(my_running))  # of the scrape")
    ages = [*pod_rows(20.0), *pod_rows(100.0, "chat-1")]
    source = (
        server()
        .containing("timestamp(my_running)", ages)
        .containing("my_running", pod_rows(3.0, "chat-0", "chat-1", "chat-2"))
    )
    source.containing("timestamp(my_running)", ages)
    answers, collector = await ask(source, profile)
    pods = [("demo", f"chat-{i}") for i in range(3)]
    running = [reading.running for reading in answers.replicas("profile:own", pods).values()]
    assert running == [Known(3.0, 20.0), Stale(100.0), Missing(Reason.NO_SERIES)]
    assert not any(UP in query for query in source.asked)
    assert any(query.endswith("# of the scrape\n)") for query in source.asked)  # the comment ends before the bracket
    assert collector.failures == ()


async def test_queries_do_not_grow_with_workloads() -> None:
    """One for each signal of a profile in use, and one more for the server's intake."""
    counts = []
    for many in (1, 1000):
        source = server()
        collector = ProfileCollector(source, DECISION, (own_engine(), lag()))
        await collector.answers([CHAT.model_copy(update={"name": f"w{i}"}) for i in range(many)], 0.0)
        counts.append((len(source.asked), collector.queries))
    assert counts == [(6, 6), (6, 6)]


async def test_a_profile_that_nobody_uses_is_not_asked() -> None:
    """Nor is the server's intake."""
    source = server()
    await ProfileCollector(source, DECISION, (own_engine(), lag())).answers([], 0.0)
    assert source.asked == []


async def test_a_fleet_may_be_large() -> None:
    """An answer is only too large where it is far larger than the replicas that there can be."""
    source = server().containing("my_running", pod_rows(1.0, *(f"p-{i}" for i in range(15_000))))
    collector = ProfileCollector(source, DECISION, (own_engine(),))
    await collector.answers([CHAT.model_copy(update={"max_replicas": 2000})], 0.0)
    assert collector.failures == ()


async def test_pods_behind_a_queue_say_nothing_themselves() -> None:
    """An engine that is a profile of queues has no signals of pods."""
    answers, _ = await ask(server())
    assert answers.replicas("profile:lag", [POD])[POD] == ReplicaReading("chat-0", NOT_EXPORTED, NOT_EXPORTED)
