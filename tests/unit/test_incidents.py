"""Incidents: what an outage, a half-seen fleet or one bad pod must not do to a target."""

import math

import pytest

from scaler.adapters.signals.presets import ENGINES
from scaler.adapters.signals.project import Answer, Projector
from scaler.config.models import DecisionSettings, Policy, Unit
from scaler.core.engine import step
from scaler.core.observation import Observation, ReplicaCounts
from scaler.core.state import EngineState, resumed
from scaler.core.values import Known, Missing, Reason, WorkloadId
from scaler.ports import Sample
from tests.core_builders import T0, Ticker, gateway, queue, replica, replicas, seen, workload

IDLE = {"running": 0, "kv_usage": 0, "completions_rps": 0}
NO_VIEW = seen(counts=Missing(Reason.VIEW_UNAVAILABLE))


def test_busy_workers_without_a_known_scale_are_not_removed() -> None:
    """Neither prefetch nor capacity is known: an empty queue says nothing of how busy ten workers are."""
    ticker = Ticker(workload(engine="rabbitmq", slots_per_replica=None, capacity_per_replica=None))
    busy = seen(counts=ReplicaCounts(10, 10), queue=queue(unacked=10, prefetch=Missing(Reason.NOT_CONFIGURED)))
    assert ticker.tick(busy, times=60).target == 10


def test_replicas_that_wait_for_nodes_are_not_given_up() -> None:
    """A backlog asked for seven more; ten minutes without a node for them delete none of them."""
    ticker = Ticker(workload(lead_time_s=400))
    load = replicas(10, running=27, waiting=2000, completions_rps=4.2)
    assert ticker.tick(seen(load), times=26).target == 17
    blocked = seen(load, counts=ReplicaCounts(17, 10, blocked=7))
    assert [ticker.tick(blocked).target for _ in range(60)] == [17] * 60


@pytest.mark.parametrize("restarted", [False, True])
def test_the_first_look_after_the_view_came_back_removes_nothing(restarted: bool) -> None:
    """Six minutes dark are no six minutes of low wishes."""
    ticker = Ticker(workload(capacity_per_replica=None))
    ticker.settled(seen(replicas(10, running=27)))
    if restarted:
        ticker.state = resumed(ticker.state, ticker.now_s)
    ticker.tick(NO_VIEW, times=24)
    assert [ticker.tick(seen(replicas(10, **IDLE))).target for _ in range(10)] == [10] * 10


def test_the_first_look_after_a_pause_removes_nothing() -> None:
    """A controller that was suspended, or whose ticks failed, waits as after a start."""
    ticker = Ticker(workload(capacity_per_replica=None))
    ticker.settled(seen(replicas(10, running=27)))
    ticker.now_s += 3600
    assert [ticker.tick(seen(replicas(10, **IDLE))).target for _ in range(10)] == [10] * 10


def test_one_waiting_request_does_not_make_it_creep_up() -> None:
    """Half-loaded replicas of unknown capacity, one request waiting at every look."""
    ticker, count = Ticker(workload(capacity_per_replica=None)), 10
    for _ in range(10):
        share = {"running": 160 / count, "completions_rps": 25 / count}
        pods = (replica("hot", waiting=1, **share), *replicas(count - 1, **share))
        target = ticker.tick(seen(pods), times=8).target
        assert isinstance(target, int)
        count = target
    assert count == 10


def test_an_idle_workload_counted_in_tokens_scales_down() -> None:
    """Nothing arrives: no tokens per request are needed to know that."""
    ticker = Ticker(workload(unit=Unit.OUTPUT_TOKENS, capacity_per_replica=2000))
    assert ticker.tick(seen(replicas(10, **IDLE, output_tokens_rps=0)), times=60).target == 1


@pytest.mark.parametrize(("readings", "ready"), [(1, 10), (10, 2)])
def test_ready_replicas_that_are_not_listed_hold(readings: int, ready: int) -> None:
    """The view counts ten and lists one, or the other way round."""
    ticker = Ticker(workload(capacity_per_replica=None))
    ticker.settled(seen(replicas(10, running=27)))
    half = seen(replicas(readings, running=27 if ready == 2 else 0), counts=ReplicaCounts(10, ready))
    assert ticker.tick(half, times=60).target == 10


def test_a_worker_that_never_starts_does_not_hold_an_empty_queue_awake() -> None:
    """It was started for one message; the message is gone."""
    ticker = Ticker(workload(engine="rabbitmq", min_replicas=0, slots_per_replica=None, capacity_per_replica=None))
    none = {"unacked": 0, "consumers": 0, "arrivals_rps": 0, "completions_rps": 0}
    assert ticker.tick(seen(counts=ReplicaCounts(0, 0), queue=queue(waiting=1, **none))).target == 1
    gone = seen(counts=ReplicaCounts(1, 0, pending=1), queue=queue(waiting=0, **none))
    assert ticker.tick(gone, times=60).target == 0


def test_absurd_numbers_of_one_pod_are_no_numbers() -> None:
    """Two ranks whose sum no float holds: Missing, and no error that would end the tick of all workloads."""
    labels = {"namespace": "demo", "pod": "chat-0", "model_name": "m"}
    samples = tuple(
        Sample(f"vllm:num_requests_{name}", {**labels, "engine": rank}, 1.7e308, T0)
        for name in ("running", "waiting")
        for rank in "01"
    )
    projector, pod = Projector(DecisionSettings()), ("demo", "chat-0")
    projector.begin(T0)
    read = projector.replicas(ENGINES["vllm"], [pod], Answer(samples), T0)[pod]
    assert not isinstance(read.running, Known) or math.isfinite(read.running.value)


def test_a_workload_of_absurd_numbers_stops_no_other() -> None:
    """Sums that no float holds: it keeps its target, the others are decided about."""
    absurd, plain = workload(name="absurd"), workload(name="plain")
    policy = Policy(workloads=(absurd, plain))
    first = Observation({WorkloadId("demo", w.name): seen(replicas(4)) for w in (absurd, plain)})
    state = step(EngineState.empty(), first, policy, T0).state
    second = Observation(
        {
            WorkloadId("demo", "absurd"): seen(replicas(4, running=1.7e308, waiting=1.7e308)),
            WorkloadId("demo", "plain"): seen(replicas(4, running=32, waiting=500, completions_rps=5)),
        }
    )
    plan = step(state, second, policy, T0 + 15).plan
    assert plan.recommendations[WorkloadId("demo", "absurd")].target == 4
    assert plan.recommendations[WorkloadId("demo", "absurd")].reason == "hold: undecidable"
    assert plan.recommendations[WorkloadId("demo", "plain")].reason.startswith("reactive: ")


def test_work_wakes_a_workload_at_zero_whose_view_is_missing() -> None:
    """The broker says that messages wait; no replica is needed to see that."""
    ticker = Ticker(workload(engine="rabbitmq", min_replicas=0))
    none = {"unacked": 0, "consumers": 0, "arrivals_rps": 0, "completions_rps": 0}
    ticker.tick(seen(counts=ReplicaCounts(0, 0), queue=queue(**none)))
    result = ticker.tick(seen(counts=Missing(Reason.VIEW_UNAVAILABLE), queue=queue(waiting=5000, **none)))
    assert (result.target, result.active) == (1, True)


@pytest.mark.parametrize("lie", [{"completions_rps": 1e4}, {"running": 1e6}])
@pytest.mark.parametrize("slots", [32, None])
def test_one_pod_that_claims_the_absurd_does_not_ask_for_all_there_is(lie: dict[str, float], slots: int | None) -> None:
    """It counts as ten of its kind, and a note says so; slots may be the engine's own word."""
    ticker = Ticker(workload(slots_per_replica=slots, max_replicas=1000))
    honest = replicas(10, slots=32)
    ticker.settled(seen(honest))
    result = ticker.tick(seen((replica("liar", slots=32, **lie), *honest[1:])))
    assert isinstance(result.target, int)
    assert result.target <= 20
    assert "implausible: 1" in result.notes


def test_what_waits_in_a_replica_has_no_such_limit() -> None:
    """A surge may put thousands into the queue of one."""
    result = Ticker(workload(max_replicas=1000)).tick(seen(replicas(1, running=32, waiting=50_000, completions_rps=5)))
    assert isinstance(result.target, int)
    assert result.target > 40
    assert result.notes == ()


@pytest.mark.parametrize("reason", [Reason.VIEW_STALE, Reason.VIEW_UNAVAILABLE])
def test_an_api_server_that_is_gone_in_a_surge_takes_nothing_down(reason: Reason) -> None:
    """Ten minutes without a view: what the surge asked for holds, a lowered cap applies, the evidence grows old.

    A target without a view is that of the last tick that had one, so its evidence is too: the metrics that still come
    in do not make it fresh. When the view is back, nothing falls until the windows have filled, and ups act at once.
    """
    ticker = Ticker()
    ticker.settled(seen(replicas(10, running=27, completions_rps=4.2)))
    busy = replicas(10, running=Known(32, age_s=12), waiting=40, completions_rps=5)
    surge = ticker.tick(seen(busy))
    assert surge.target == 14
    blind = [ticker.tick(seen(busy, counts=Missing(reason))) for _ in range(40)]
    assert {item.target for item in blind} == {14}
    assert [item.evidence_age_s for item in blind] == [12 + 15 * n for n in range(1, 41)]
    assert blind[-1].reason == f"hold: {reason.value}"
    back = seen(replicas(14, **IDLE))
    assert [ticker.tick(back).target for _ in range(10)] == [14] * 10
    more = ticker.tick(seen(replicas(14, running=32, waiting=400, completions_rps=5))).target
    assert isinstance(more, int)
    assert more > 14
    ticker.settings = workload(max_replicas=5)
    assert ticker.tick(seen(busy, counts=Missing(reason))).target == 5


@pytest.mark.parametrize("reason", [Reason.VIEW_STALE, Reason.VIEW_UNAVAILABLE])
def test_requests_wake_a_workload_at_zero_whose_view_is_gone(reason: Reason) -> None:
    """The gateway says that they come; no replica is needed to see that. A gateway that is dark wakes nobody."""
    ticker = Ticker(workload(min_replicas=0))
    ticker.tick(seen(counts=ReplicaCounts(0, 0), gateway=gateway()))
    dark = gateway(Missing(Reason.SOURCE_DOWN), waiting=Missing(Reason.SOURCE_DOWN))
    assert ticker.tick(seen(counts=Missing(reason), gateway=dark)).target == 0
    result = ticker.tick(seen(counts=Missing(reason), gateway=gateway(3)))
    assert (result.target, result.active) == (1, True)
    assert [step.reason for step in result.trail] == [reason.value, "work_at_gateway"]


def test_a_queue_whose_deliveries_cannot_be_seen_keeps_its_last_worker() -> None:
    """Nothing waits, but what is being worked on is out of sight."""
    settings = workload(engine="rabbitmq", min_replicas=0, slots_per_replica=None, capacity_per_replica=None)
    hidden = queue(unacked=0, consumers=1, arrivals_rps=Missing(Reason.COUNTER_RESET), completions_rps=0)
    assert Ticker(settings).tick(seen(counts=ReplicaCounts(1, 1), queue=hidden), times=60).target == 1


def test_a_cache_that_is_not_full_is_no_idleness() -> None:
    """Neither slots nor capacity are set: 200 requests in each replica, with short contexts, need all of them."""
    ticker = Ticker(workload(slots_per_replica=None, capacity_per_replica=None))
    result = ticker.tick(seen(replicas(10, running=200, kv_usage=0.05)), times=60)
    assert (result.target, result.reason) == (10, "hold: not_configured")
    assert ticker.tick(seen(replicas(10, **IDLE)), times=60).target == 1


def test_pods_that_flap_do_not_multiply_the_demand() -> None:
    """Seven of ten full replicas leave the ready ones for a minute, and come back as they were."""
    ticker = Ticker(workload(capacity_per_replica=0.1, max_replicas=200))
    full = replicas(10, running=27, completions_rps=0.084)
    before = ticker.settled(seen(full)).target
    ticker.tick(seen(full[:3], counts=ReplicaCounts(10, 3, pending=7)), times=5)
    assert ticker.tick(seen(full)).target == before


def test_an_idle_workload_whose_gpus_are_out_of_sight_is_still_evidence() -> None:
    """Its engines answer: KEDA must not get errors because a GPU exporter is down."""
    ticker = Ticker()
    ticker.settled(seen(replicas(3, running=27)))
    dark_gpus = seen(replicas(3, **IDLE, gpu_activity=Missing(Reason.SOURCE_DOWN)))
    result = ticker.tick(dark_gpus, times=100)
    assert result.target == 3
    assert result.evidence_age_s == 0


def test_nothing_known_is_not_shown_as_zero() -> None:
    """The bounds are known all the same; there is no trail from nothing."""
    result = Ticker(workload(min_replicas=2)).tick(seen(counts=Missing(Reason.VIEW_UNAVAILABLE)))
    assert (result.lower, result.trail, result.reason) == (2, (), "nothing_known")
