"""One tick's observation, from sources and a view in memory."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from scaler.adapters.collection import CollectionStats, SourceFailure
from scaler.adapters.observer import Beside, CollectingObserver
from scaler.adapters.signals.rabbitmq import QueueSettings
from scaler.adapters.signals.reader import SignalReader
from scaler.config.models import DecisionSettings, SourceRef, WorkloadSettings
from scaler.core.observation import GatewayReading, ReplicaCounts, WorkloadObservation
from scaler.core.values import Known, Missing, Reading, Reason, Stale, WorkloadId
from scaler.ports import ClusterSnapshot, Sample, SampleBatch, SampleRequest, WorkloadView
from tests.metrics_fakes import T0, FixedClock, FixedView, ListSource, exposition, vllm_pod

CHAT, CODE, RENDER = WorkloadId("demo", "chat"), WorkloadId("team", "chat"), WorkloadId("demo", "render")
WORKLOADS = (
    WorkloadSettings(namespace="demo", name="chat"),
    WorkloadSettings(namespace="team", name="chat"),
    WorkloadSettings(namespace="demo", name="render", engine="rabbitmq", source="render"),
)
VIEW = ClusterSnapshot(
    T0,
    {
        CHAT: WorkloadView(ReplicaCounts(spec=3, ready=2, pending=1), ("chat-0", "chat-1")),
        CODE: WorkloadView(ReplicaCounts(spec=1, ready=1), ("chat-0",), rollout=True),
        RENDER: WorkloadView(ReplicaCounts(spec=1, ready=1), ("render-0",)),
    },
)
BROKER = exposition("rabbitmq", namespace="rabbitmq", instance="10.0.0.3:15692")
GPUS = exposition("dcgm", namespace="gpu-operator", pod="dcgm-exporter-x1")


def engines() -> list[Sample]:
    """Return what the three vLLM pods and a pod that is gone export, and the broker."""
    half = [s for s in vllm_pod("chat-0", "team") if s.labels.get("engine") != "1"]
    return [*vllm_pod("chat-0"), *vllm_pod("chat-1"), *vllm_pod("chat-7"), *half, *BROKER]


async def observe(
    source: ListSource | None = None, view: ClusterSnapshot | None = VIEW, **settings: Any
) -> tuple[dict[WorkloadId, WorkloadObservation], CollectingObserver]:
    """Observe one tick."""
    source = source or ListSource(engines())
    observer = CollectingObserver(
        source, FixedView(view), FixedClock(), DecisionSettings(), queues=QueueSettings(prefetch=1), **settings
    )
    return dict((await observer.observe(WORKLOADS, T0)).workloads), observer


async def test_every_workload_is_observed_with_its_own_pods() -> None:
    """Two workloads of one name in two namespaces, with pods of one name, are two."""
    seen, _ = await observe()
    assert set(seen) == {CHAT, CODE, RENDER}
    assert [r.pod for r in seen[CHAT].replicas] == ["chat-0", "chat-1"]
    assert [r.running for r in seen[CHAT].replicas] == [Known(78.0), Known(78.0)]
    assert [r.running for r in seen[CODE].replicas] == [Known(37.0)]
    assert seen[CHAT].counts == ReplicaCounts(spec=3, ready=2, pending=1)
    assert (seen[CHAT].rollout, seen[CODE].rollout) == (False, True)
    assert seen[CHAT].queue is None


async def test_a_queue_worker_has_its_queue_and_silent_pods() -> None:
    """What a queue worker does is told by its queue; its pods export nothing, which is no gap."""
    seen, _ = await observe()
    queue = seen[RENDER].queue
    assert queue is not None
    assert (queue.waiting, queue.unacked, queue.consumers, queue.prefetch) == tuple(map(Known, (12.0, 6.0, 8.0, 1.0)))
    assert [r.running for r in seen[RENDER].replicas] == [Missing(Reason.NOT_EXPORTED)]


async def test_an_engine_without_preset_is_silent() -> None:
    """An engine that nobody can read is not idle."""
    observer = CollectingObserver(ListSource(engines()), FixedView(VIEW), FixedClock(), DecisionSettings())
    unknown = WorkloadSettings(namespace="demo", name="chat", engine="brand-new")
    seen = (await observer.observe((unknown,), T0)).workloads[CHAT].replicas
    assert [(r.pod, r.running, r.waiting) for r in seen] == [
        (pod, Missing(Reason.NO_SERIES), Missing(Reason.NO_SERIES)) for pod in ("chat-0", "chat-1")
    ]


async def test_a_stale_view_hides_its_counts_and_not_what_its_pods_say() -> None:
    """A view that heard nothing for too long counts nobody; it is told once, and the pods are read on."""
    limit_s = DecisionSettings().view_stale_after_s
    fresh, _ = await observe(view=ClusterSnapshot(T0 - limit_s, VIEW.workloads))
    assert fresh[CHAT].counts == ReplicaCounts(spec=3, ready=2, pending=1)
    seen, observer = await observe(view=ClusterSnapshot(T0 - limit_s - 1, VIEW.workloads))
    assert {workload.counts for workload in seen.values()} == {Missing(Reason.VIEW_STALE)}
    assert [r.running for r in seen[CHAT].replicas] == [Known(78.0), Known(78.0)]
    assert observer.problems == (
        "cluster: view_stale: the cluster view must be at most 180 s old or ahead, was 181 s old",
    )


@pytest.mark.parametrize("at_s", [T0 + DecisionSettings().view_stale_after_s + 1, float("inf"), float("nan")])
async def test_a_view_from_the_future_is_as_stale_as_an_old_one(at_s: float) -> None:
    """It would look fresh for as long as it is ahead; a little is only the difference between two clocks."""
    seen, _ = await observe(view=ClusterSnapshot(at_s, VIEW.workloads))
    assert {workload.counts for workload in seen.values()} == {Missing(Reason.VIEW_STALE)}
    seen, _ = await observe(view=ClusterSnapshot(T0 + DecisionSettings().view_stale_after_s, VIEW.workloads))
    assert seen[CHAT].counts == ReplicaCounts(spec=3, ready=2, pending=1)


async def test_fetches_do_not_grow_with_workloads() -> None:
    """One fetch per engine in use and one for GPUs, however many workloads there are."""
    source, gpus = ListSource(engines()), ListSource(GPUS)
    many = tuple(WorkloadSettings(namespace=f"ns-{i % 7}", name=f"w-{i}") for i in range(200))
    observer = CollectingObserver(source, FixedView(VIEW), FixedClock(), DecisionSettings(), gpu_source=gpus)
    await observer.observe((*WORKLOADS, *many), T0)
    assert (len(source.asked), len(gpus.asked), observer.stats.fetches) == (2, 1, 3)
    by_engine = {bool(request.namespaces): request for request in source.asked}
    assert by_engine[True].namespaces == tuple(sorted({"demo", "team", *(f"ns-{i}" for i in range(7))}))
    assert by_engine[False].names == tuple(n for n in by_engine[False].names if n.startswith("rabbitmq"))


async def test_gpu_activity_joins_the_pods() -> None:
    """GPU activity comes from its own source, by the workload's labels."""
    seen, _ = await observe(gpu_source=ListSource(GPUS))
    assert [r.gpu_activity for r in seen[CHAT].replicas] == [Known(0.9), Known(0.4375)]
    assert [r.gpu_activity for r in seen[CODE].replicas] == [Missing(Reason.NO_SERIES)]
    seen, _ = await observe()
    assert [r.gpu_activity for r in seen[CHAT].replicas] == [Missing(Reason.NOT_CONFIGURED)] * 2


async def test_one_failed_source_leaves_the_other_s_readings() -> None:
    """With the GPU source down, engines are still read, and the other way round."""
    seen, observer = await observe(gpu_source=ListSource(failure=Reason.SOURCE_TIMEOUT))
    assert seen[CHAT].replicas[0].running == Known(78.0)
    assert seen[CHAT].replicas[0].gpu_activity == Missing(Reason.SOURCE_TIMEOUT)
    assert observer.stats.failures == (SourceFailure("gpu", Reason.SOURCE_TIMEOUT, "as told"),)
    seen, _ = await observe(ListSource(failure=Reason.SOURCE_DOWN), gpu_source=ListSource(GPUS))
    assert seen[CHAT].replicas[0].running == Missing(Reason.SOURCE_DOWN)
    assert seen[CHAT].replicas[0].gpu_activity == Known(0.9)


@pytest.mark.parametrize("reason", [Reason.SOURCE_DOWN, Reason.SOURCE_TIMEOUT])
async def test_with_the_source_away_every_ready_pod_is_there_and_silent(reason: Reason) -> None:
    """An outage is not an idle fleet: all pods are observed, all readings say why they are absent."""
    seen, _ = await observe(ListSource(failure=reason))
    for workload in (CHAT, CODE):
        for replica in seen[workload].replicas:
            assert {replica.running, replica.waiting, replica.completions_rps, replica.still_s} == {Missing(reason)}
    queue = seen[RENDER].queue
    assert queue is not None
    assert {queue.waiting, queue.unacked, queue.consumers} == {Missing(reason)}
    assert seen[CHAT].counts == ReplicaCounts(spec=3, ready=2, pending=1)


async def test_an_empty_answer_is_not_an_idle_fleet() -> None:
    """Prometheus after a restart answers with nothing; nobody is idle for that."""
    seen, _ = await observe(ListSource())
    assert {r.running for r in seen[CHAT].replicas} == {Missing(Reason.NO_SERIES)}


async def test_a_partial_answer_is_told() -> None:
    """What a partial answer does not have may be lost; its warnings are in the statistics."""
    only = ListSource(vllm_pod("chat-0"), partial=("store-3 is away",))
    seen, observer = await observe(only)
    assert [r.running for r in seen[CHAT].replicas] == [Known(78.0), Missing(Reason.PARTIAL_ANSWER)]
    warnings = {SourceFailure(what, Reason.PARTIAL_ANSWER, "store-3 is away") for what in ("rabbitmq", "vllm")}
    assert set(observer.stats.partial) == warnings  # one per fetch
    assert set(observer.problems) == {f"{what}: partial_answer: store-3 is away" for what in ("rabbitmq", "vllm")}


async def test_without_a_view_no_count_is_known() -> None:
    """A view that fails makes all counts unknown; the broker is still read, which sees work at zero replicas."""
    seen, observer = await observe(view=None)
    assert {o.counts for o in seen.values()} == {Missing(Reason.VIEW_UNAVAILABLE)}
    assert {o.replicas for o in seen.values()} == {()}
    queue = seen[RENDER].queue
    assert queue is not None
    assert queue.waiting == Known(12.0)
    assert [f.what for f in observer.stats.failures] == ["cluster"]


async def test_a_workload_that_the_view_does_not_know() -> None:
    """A view that has no answer about a workload does not say that it has no replicas."""
    seen, _ = await observe(view=ClusterSnapshot(T0, {CHAT: VIEW.workloads[CHAT]}))
    assert seen[CODE].counts == Missing(Reason.VIEW_UNAVAILABLE)
    assert seen[CHAT].counts == VIEW.workloads[CHAT].counts


async def test_a_workload_at_zero_has_its_queue() -> None:
    """With no replicas the broker still tells what waits."""
    empty = ClusterSnapshot(T0, {RENDER: WorkloadView(ReplicaCounts(spec=0, ready=0), ())})
    seen, _ = await observe(view=empty)
    queue = seen[RENDER].queue
    assert queue is not None
    assert (seen[RENDER].replicas, queue.waiting) == ((), Known(12.0))


async def test_an_engine_that_nobody_can_read_is_silent() -> None:
    """A workload whose engine has no preset is observed, and nothing about it is known."""
    source = ListSource(engines())
    observer = CollectingObserver(source, FixedView(VIEW), FixedClock(), DecisionSettings())
    strange = WorkloadSettings(namespace="demo", name="chat", engine="profile:own")
    seen = (await observer.observe((strange,), T0)).workloads[CHAT]
    assert {r.running for r in seen.replicas} == {Missing(Reason.NO_SERIES)}
    assert source.asked == []


async def test_the_statistics_name_what_matched() -> None:
    """Which of a signal's names an engine has is told, so that a rename is seen."""
    _, observer = await observe()
    stats = observer.stats
    assert stats.matched["kv_usage"] == ("vllm:kv_cache_usage_perc",)
    assert stats.matched["waiting"] == ("rabbitmq_detailed_queue_messages_ready", "vllm:num_requests_waiting_by_reason")
    assert (stats.at_s, stats.failures, stats.partial) == (T0, (), ())
    assert stats.samples > 100


async def test_an_answer_that_cannot_be_read_costs_its_own_preset_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unexpected error in reading the engines' answer makes their pods Missing; queue and GPUs are still read."""

    def broken(self: SignalReader, *_: object) -> tuple[float, dict[object, float]]:
        if self.absent is Reason.NO_SERIES:  # not of the empty answer that takes its place
            raise ArithmeticError("as told")
        return T0, {}

    monkeypatch.setattr(SignalReader, "values", broken)  # read of engines only: they have progress counters
    seen, observer = await observe(gpu_source=ListSource(GPUS))
    chat, queue = seen[CHAT].replicas[0], seen[RENDER].queue
    assert {chat.running, chat.waiting, chat.still_s} == {Missing(Reason.INVALID_VALUE)}
    assert chat.gpu_activity == Known(0.9)
    assert queue is not None
    assert queue.waiting == Known(12.0)
    assert observer.stats.failures == (
        SourceFailure("vllm", Reason.INVALID_VALUE, "unexpected ArithmeticError: as told"),
    )


async def test_a_source_and_a_view_that_break_their_promise_are_away() -> None:
    """Whatever a source or a view raises, the tick goes on, and it is told."""

    class Wild(ListSource):
        async def fetch(self, request: SampleRequest, now_s: float) -> SampleBatch:
            raise LookupError("as told")

        async def snapshot(self) -> ClusterSnapshot:
            raise LookupError("as told")

    seen, observer = await observe(Wild())
    assert seen[CHAT].replicas[0].running == Missing(Reason.SOURCE_DOWN)
    blind = CollectingObserver(ListSource(engines()), Wild(), FixedClock(), DecisionSettings())
    assert (await blind.observe(WORKLOADS, T0)).workloads[CHAT].counts == Missing(Reason.VIEW_UNAVAILABLE)
    assert {f.message for f in (*observer.stats.failures, *blind.stats.failures)} == {"unexpected LookupError: as told"}


@pytest.mark.parametrize(
    ("ahead_s", "running"), [(0.0, Known(78.0)), (60.0, Known(78.0)), (91.0, Missing(Reason.INVALID_VALUE))]
)
async def test_samples_are_judged_as_of_when_they_came(ahead_s: float, running: Reading) -> None:
    """A fetch that took longer than samples stay fresh brings no samples from the future; a time stamp can still be."""
    clock = FixedClock()

    class Slow(ListSource):
        async def fetch(self, request: SampleRequest, now_s: float) -> SampleBatch:
            clock.at_s = T0 + 240.0  # two seconds of the wall, at 120 times its speed
            return await super().fetch(request, now_s)

    source = Slow(vllm_pod("chat-0", at_s=T0 + 240.0 + ahead_s))
    observer = CollectingObserver(source, FixedView(VIEW), clock, DecisionSettings())
    seen = (await observer.observe(WORKLOADS[:1], T0)).workloads[CHAT]
    assert seen.replicas[0].running == running


async def test_a_slow_fetch_does_not_make_old_samples_fresh() -> None:
    """What was scraped as the tick began has aged by the time that its answer is there."""
    clock = FixedClock()

    class Slow(ListSource):
        async def fetch(self, request: SampleRequest, now_s: float) -> SampleBatch:
            clock.at_s = T0 + 100.0
            return await super().fetch(request, now_s)

    observer = CollectingObserver(Slow(vllm_pod("chat-0")), FixedView(VIEW), clock, DecisionSettings())
    seen = (await observer.observe(WORKLOADS[:1], T0)).workloads[CHAT]
    assert seen.replicas[0].running == Stale(100.0)


async def test_failures_are_told_while_they_last_and_counted_for_ever() -> None:
    """A line per failure, gone with it; the totals stay."""
    source, gpus = ListSource(failure=Reason.SOURCE_DOWN), ListSource(failure=Reason.SOURCE_TIMEOUT)
    observer = CollectingObserver(source, FixedView(VIEW), FixedClock(), DecisionSettings(), gpu_source=gpus)
    assert not observer.problems
    for _ in range(2):
        await observer.observe(WORKLOADS[:1], T0)
    assert set(observer.problems) == {"vllm: source_down: as told", "gpu: source_timeout: as told"}
    source.failure = gpus.failure = None
    source.partial = ("store-3 is away", "store-4 is away")
    await observer.observe(WORKLOADS[:1], T0)
    assert observer.problems == ("vllm: partial_answer: store-3 is away", "vllm: partial_answer: store-4 is away")
    assert observer.stats.fetches_total == 6
    assert observer.stats.failures_total == {
        ("vllm", Reason.SOURCE_DOWN): 2,
        ("vllm", Reason.PARTIAL_ANSWER): 1,
        ("gpu", Reason.SOURCE_TIMEOUT): 2,
    }


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("http://me:sec@ret@host:9090/api: refused", "http://host:9090/api: refused"),
        ("https://host/q?token=secret#x: refused", "https://host/q refused"),
        ("two\nlines\tand tabs", "two lines and tabs"),
        ("x" * 1000, "x" * 281),
    ],
)
def test_a_problem_is_one_short_line_without_credentials(message: str, shown: str) -> None:
    """Lines go to logs and to whoever may see the plan."""
    assert SourceFailure("vllm", Reason.SOURCE_DOWN, message).line() == f"vllm: source_down: {shown}"


def test_many_problems_are_told_by_their_number() -> None:
    """A source that warns of everything does not fill the log."""
    many = tuple(SourceFailure("vllm", Reason.PARTIAL_ANSWER, f"store-{i}") for i in range(12))
    assert CollectionStats(partial=many).problems[8:] == ("vllm: partial_answer: store-8", "and 3 more")


async def test_a_granted_queue_comes_before_a_named_one_and_takes_its_share() -> None:
    """Of a queue that two clusters consume, half of the work is this one's; what a consumer may hold is not shared."""
    granted = SourceRef(preset="rabbitmq", identity=("/", "render"), share=0.5, prefetch=4)
    workloads = (
        WorkloadSettings(namespace="demo", name="chat", demand_source=granted),  # an engine behind a queue
        WorkloadSettings(namespace="demo", name="render", engine="rabbitmq", source="other", demand_source=granted),
    )
    observer = CollectingObserver(ListSource(engines()), FixedView(VIEW), FixedClock(), DecisionSettings())
    seen = (await observer.observe(workloads, T0)).workloads
    for key in (CHAT, RENDER):
        queue = seen[key].queue
        assert queue is not None
        assert (queue.waiting, queue.unacked, queue.consumers, queue.prefetch) == tuple(
            map(Known, (6.0, 3.0, 4.0, 4.0))
        )
    assert seen[CHAT].replicas[0].running == Known(78.0)


@dataclass
class Routes:
    """Gateways that a test gave."""

    error: Exception | None = None
    failures: tuple[SourceFailure, ...] = (SourceFailure("envoy", Reason.SOURCE_DOWN, "as told"),)
    queries: int = 3
    rows: int = 5

    async def readings(
        self, workloads: Iterable[WorkloadSettings], tenant_namespaces: Collection[str], now_s: float
    ) -> dict[WorkloadId, GatewayReading]:
        if self.error is not None:
            raise self.error
        assert set(tenant_namespaces) == {w.namespace for w in workloads}
        return {CHAT: GatewayReading(Known(7.0))}


async def test_a_gateway_s_readings_join_their_workloads() -> None:
    """What a gateway sees is beside the replicas; its queries and failures are told with the others'."""
    seen, observer = await observe(beside=Beside(gateways=Routes()))
    assert seen[CHAT].gateway == GatewayReading(Known(7.0))
    assert seen[CODE].gateway is None
    assert observer.stats.fetches == 2 + 3
    assert observer.problems == ("envoy: source_down: as told",)


async def test_a_gateway_that_breaks_its_promise_is_not_a_gateway_without_traffic() -> None:
    """Whatever it raises, the workloads that it speaks for have a gateway that nothing is known of."""
    granted = SourceRef(preset="envoy", identity=("gateway", "chat"))
    workloads = (WorkloadSettings(namespace="demo", name="chat", demand_source=granted), WORKLOADS[1])
    beside = Beside(gateways=Routes(error=LookupError("as told")))
    observer = CollectingObserver(
        ListSource(engines()), FixedView(VIEW), FixedClock(), DecisionSettings(), beside=beside
    )
    seen = (await observer.observe(workloads, T0)).workloads
    assert seen[CHAT].gateway == GatewayReading(Missing(Reason.SOURCE_DOWN))
    assert seen[CODE].gateway is None
    assert observer.problems == ("gateways: source_down: unexpected LookupError: as told",)


async def test_a_gateway_that_fails_says_nothing_of_a_queue() -> None:
    """A workload whose demand is seen in a broker has no gateway, also when all gateways are silent."""
    granted = SourceRef(preset="rabbitmq", identity=("/", "render"))
    workload = WorkloadSettings(namespace="demo", name="render", engine="rabbitmq", demand_source=granted)
    beside = Beside(gateways=Routes(error=LookupError("as told")))
    observer = CollectingObserver(
        ListSource(engines()), FixedView(VIEW), FixedClock(), DecisionSettings(), beside=beside
    )
    assert (await observer.observe((workload,), T0)).workloads[RENDER].gateway is None
