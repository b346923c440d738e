"""The simulated fleet: queue, cold starts, deletion, cost, metrics and failures, against numbers worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest

from scaler.backtest.plant import Plant
from scaler.backtest.pods import Phase
from scaler.backtest.profiles import H100_8B, LeadTime
from scaler.traces.arrivals import draw_arrivals
from tests.plant_builders import ROUND, STEADY, T0, count_trace, plant, requests_at

ONE_SLOT = replace(STEADY, slots=1)  # a request of 11 tokens takes 10 s


def phases(fleet: Plant, after_s: float) -> dict[str, Phase]:
    return {pod.name: pod.phase for pod in fleet.view(T0 + after_s).pods}


def test_first_come_first_served() -> None:
    """Requests wait in one queue and start in order of arrival as slots come free."""
    fleet = plant(requests_at(0, 1, 2), profile=ONE_SLOT)
    view = fleet.view(T0 + 5)
    assert (view.arrived, view.running, view.waiting, view.finished) == (3, 1, 2, 0)
    fleet.advance(T0 + 30)
    scores = fleet.scores(slo_s=9.0)
    assert scores.finished == 3
    assert scores.queue_time_p50_s == pytest.approx(9.0)  # 0, 9 and 18
    assert scores.met == 2
    assert scores.attainment == pytest.approx(2 / 3)


def test_the_least_loaded_pod_takes_the_request() -> None:
    """Each request goes to the pod with the fewest running ones."""
    fleet = plant(requests_at(0, 0, 0, 0, 0), replicas=2)
    fleet.advance(T0 + 0.1)
    assert [metrics.running for metrics in fleet.pods().values()] == [3, 2]


def test_the_waiting_are_attributed_evenly() -> None:
    """The queue shows in the metrics of the ready pods, in shares that differ by one at most."""
    fleet = plant(requests_at(*range(7)), replicas=2, profile=ONE_SLOT)
    fleet.advance(T0 + 6.5)
    assert [metrics.waiting for metrics in fleet.pods().values()] == [3, 2]


def test_cold_start() -> None:
    """A new pod is pending for exactly the lead time, answers no scrape until then, and then takes what waits."""
    fleet = plant(requests_at(0, 1, 2), profile=ONE_SLOT)
    fleet.scale(2, T0 + 3)
    view = fleet.view(T0 + 32.9)
    assert phases(fleet, 32.9) == {"chat-0": Phase.READY, "chat-1": Phase.PENDING}
    assert (view.spec, view.ready, view.replicas) == (2, 1, 2)
    assert (view.pods[1].created_s, view.pods[1].ready_s) == (T0 + 3, T0 + 33)
    assert list(fleet.pods()) == ["chat-0"]
    assert phases(fleet, 33.0) == {"chat-0": Phase.READY, "chat-1": Phase.READY}
    assert list(fleet.pods()) == ["chat-0", "chat-1"]


def test_a_fleet_at_zero_queues_until_a_pod_is_ready() -> None:
    """At zero replicas requests wait; the first one started is the first that came."""
    fleet = plant(requests_at(0, 1), replicas=0, profile=ONE_SLOT)
    assert fleet.view(T0 + 10).waiting == 2
    assert dict(fleet.pods()) == {}
    fleet.scale(1, T0 + 10)
    fleet.advance(T0 + 100)
    assert fleet.scores(slo_s=40.0).met == 1  # 40 s and 49 s


def test_lead_times_do_not_depend_on_the_policy() -> None:
    """The n-th pod that is created waits equally long, whenever and for whomever it is."""
    one, two = (Plant(H100_8B, requests_at(), seed=3, initial_replicas=initial, start_s=T0) for initial in (1, 4))
    one.scale(3, T0 + 10)
    one.scale(5, T0 + 500)
    two.scale(5, T0 + 70)
    two.scale(6, T0 + 80)
    two.scale(8, T0 + 90)
    waits = [
        [pod.ready_s - pod.created_s for pod in fleet.view(T0 + 500).pods][initial:]
        for fleet, initial in ((one, 1), (two, 4))
    ]
    assert waits[0] == pytest.approx(waits[1])
    assert len({round(wait, 6) for wait in waits[0]}) == 4


def test_another_seed_gives_other_lead_times() -> None:
    """Seeds differ in the lead times that they give, and one seed repeats itself."""
    waits = []
    for seed in (1, 1, 2):
        fleet = Plant(H100_8B, requests_at(), seed, 0, T0)
        fleet.scale(3, T0)
        waits.append([pod.ready_s for pod in fleet.view(T0).pods])
    assert waits[0] == waits[1] != waits[2]


def test_the_given_lead_time_replaces_the_profiles() -> None:
    """A lead time that is given holds exactly, and 0 makes a pod Ready at once."""
    for lead_s in (0.0, 45.0):
        fleet = Plant(H100_8B, requests_at(), 1, 0, T0, lead_time=LeadTime(lead_s))
        fleet.scale(1, T0)
        (pod,) = fleet.view(T0).pods
        assert pod.ready_s == T0 + lead_s
        assert pod.ready == (lead_s == 0)


def test_pods_go_in_the_order_of_a_replica_set() -> None:
    """Pods that are not ready go first, then the youngest."""
    fleet = plant(requests_at(), replicas=2)
    fleet.scale(3, T0 + 10)
    fleet.scale(5, T0 + 50)  # chat-2 is Ready since 40; chat-3 and chat-4 are pending
    fleet.scale(4, T0 + 60)
    assert list(phases(fleet, 60)) == ["chat-0", "chat-1", "chat-2", "chat-3"]
    fleet.scale(2, T0 + 61)
    assert list(phases(fleet, 61)) == ["chat-0", "chat-1"]


def test_an_old_pod_that_is_not_ready_goes_before_a_young_one_that_is() -> None:
    """Readiness counts before age: a restarting pod goes although it is the oldest."""
    fleet = plant(requests_at(), replicas=2)
    fleet.scale(3, T0 + 10)
    fleet.restart("chat-0", T0 + 50, ready_after_s=30)
    fleet.scale(2, T0 + 60)
    assert phases(fleet, 60) == {"chat-1": Phase.READY, "chat-2": Phase.READY}


def test_a_deleted_pod_finishes_what_it_has() -> None:
    """A draining pod takes nothing new, still answers scrapes, and is gone with its last request."""
    fleet = plant(requests_at(0, 0, 5), replicas=2, profile=STEADY)
    fleet.scale(1, T0 + 3)
    assert phases(fleet, 3) == {"chat-0": Phase.READY, "chat-1": Phase.DRAINING}
    view = fleet.view(T0 + 6)
    assert (view.ready, view.replicas) == (1, 1)
    assert [metrics.running for metrics in fleet.pods().values()] == [2, 1]
    assert phases(fleet, 9.9) == {"chat-0": Phase.READY, "chat-1": Phase.DRAINING}
    assert phases(fleet, 10) == {"chat-0": Phase.READY}
    fleet.advance(T0 + 20)
    assert fleet.scores(slo_s=1.0).met == 3


def test_draining_ends_with_the_grace_period() -> None:
    """What has not finished by the end of the grace period is lost and did not meet the SLO."""
    fleet = plant(requests_at(0), profile=replace(STEADY, drain_s=4.0))
    fleet.scale(0, T0 + 3)
    assert phases(fleet, 6.9) == {"chat-0": Phase.DRAINING}
    assert phases(fleet, 7) == {}
    view = fleet.view(T0 + 7)
    assert (view.running, view.finished, view.lost) == (0, 0, 1)
    assert fleet.scores(slo_s=1.0).met == 0


def test_gpu_time_counts_from_creation_until_gone() -> None:
    """Cold start and drain cost GPUs too; the scored part is cut out."""
    profile = replace(STEADY, gpus_per_replica=2.0)
    fleet = plant(requests_at(0), profile=profile)
    fleet.scale(2, T0 + 5)  # 95 s
    fleet.scale(0, T0 + 100)
    fleet.advance(T0 + 150)
    assert fleet.scores(slo_s=1.0).gpu_seconds == pytest.approx(2 * (100 + 95))
    assert fleet.scores(slo_s=1.0, from_s=T0 + 90).gpu_seconds == pytest.approx(2 * (10 + 10))
    assert fleet.scores(slo_s=1.0).gpu_hours == pytest.approx(390 / 3600)


def test_gpu_time_includes_the_drain() -> None:
    """A pod costs until its last request has left."""
    fleet = plant(requests_at(0), profile=STEADY)
    fleet.scale(0, T0 + 3)
    fleet.advance(T0 + 50)
    assert fleet.scores(slo_s=1.0).gpu_seconds == pytest.approx(10)


def test_attainment_without_requests_is_none() -> None:
    """No requests, no attainment; what has not arrived by now is not a request yet."""
    fleet = plant(requests_at(50))
    fleet.advance(T0 + 10)
    scores = fleet.scores(slo_s=1.0)
    assert (scores.requests, scores.attainment, scores.queue_time_p99_s, scores.ttft_p99_s) == (0, None, None, None)


def test_the_unfinished_do_not_count_as_met() -> None:
    """A request that runs, or waits, when the run ends did not meet the SLO."""
    fleet = plant(requests_at(0, 12, 13), profile=ONE_SLOT)
    fleet.advance(T0 + 15)
    scores = fleet.scores(slo_s=60.0)
    assert (scores.requests, scores.finished, scores.met) == (3, 1, 1)


def test_ttft_as_the_objective() -> None:
    """Time to first token adds the prompt to the queue time."""
    fleet = plant(requests_at(0, 100, prompt=[10, 40]))  # 1 s and 4 s of prompt
    fleet.advance(T0 + 200)
    assert fleet.scores(slo_s=1.0).met == 2
    assert fleet.scores(slo_s=1.0, on_ttft=True).met == 1
    assert fleet.scores(slo_s=4.0, on_ttft=True).met == 2


def test_the_scored_part() -> None:
    """Only requests that arrive in the scored part count."""
    fleet = plant(requests_at(0, 1, 100), profile=ONE_SLOT)
    fleet.advance(T0 + 200)
    scores = fleet.scores(slo_s=1.0, from_s=T0 + 1)
    assert (scores.requests, scores.met) == (2, 1)


def test_metrics_of_one_request() -> None:
    """Tokens count as they are made, the first token at its time, queue time and success only at the end."""
    fleet = plant(requests_at(0), profile=ROUND)
    fleet.advance(T0 + 0.5)
    before = fleet.pods()["chat-0"]
    assert (before.running, before.prompt_tokens, before.success, before.ttft.counts[-1]) == (1, 0, 0, 0)
    fleet.advance(T0 + 6)
    during = fleet.pods()["chat-0"]
    assert (during.prompt_tokens, during.generation_tokens, during.success) == (10, 6, 0)
    assert during.kv_usage == pytest.approx((10 + 6) / 1000)
    assert (during.ttft.counts[-1], round(during.ttft.total, 6)) == (1, 1.0)
    assert during.queue_time.counts[-1] == 0
    fleet.advance(T0 + 60)
    after = fleet.pods()["chat-0"]
    assert (after.running, after.kv_usage, after.generation_tokens, after.success) == (0, 0.0, 11, 1)
    assert after.queue_time.counts[0] == after.queue_time.counts[-1] == 1
    assert (after.e2e.counts[-1], round(after.e2e.total, 6)) == (1, 11.0)
    assert after.e2e.counts[after.e2e.bounds.index(10.0)] == 0
    assert after.e2e.counts[after.e2e.bounds.index(15.0)] == 1
    assert after.busy_s == pytest.approx(11.0)


def test_queue_time_shows_late() -> None:
    """As in vLLM, a wait is in the histogram only once the request that waited has finished."""
    fleet = plant(requests_at(0, 1), profile=ONE_SLOT)
    fleet.advance(T0 + 19)  # the second has started after 9 s and is still running
    assert fleet.pods()["chat-0"].queue_time.total == 0
    fleet.advance(T0 + 20)
    assert fleet.pods()["chat-0"].queue_time.total == pytest.approx(9.0)


def test_a_full_cache_lets_the_head_wait_for_room() -> None:
    """Without room in the cache a free slot is no use, and a shorter request behind does not overtake."""
    fleet = plant(requests_at(0, 1, 2, prompt=[300, 300, 10]), profile=replace(STEADY, kv_tokens=550))
    view = fleet.view(T0 + 5)
    assert (view.running, view.waiting) == (1, 2)
    assert fleet.view(T0 + 10.5).waiting == 0
    fleet.advance(T0 + 40)
    assert fleet.scores(slo_s=9.5).met == 3  # 0, 9 and 8 s


def test_another_pod_with_room_takes_the_head() -> None:
    """When the least loaded pod has no room, a pod with more requests and room takes it."""
    fleet = plant(
        requests_at(0, 1, 2, 3, prompt=[400, 10, 10, 200], output=[100, 100, 100, 11]),
        replicas=2,
        profile=replace(STEADY, kv_tokens=550),
    )
    fleet.advance(T0 + 2.5)
    assert [metrics.running for metrics in fleet.pods().values()] == [2, 1]
    fleet = plant(
        requests_at(0, 1, 2, 3, prompt=[400, 10, 10, 200], output=[100, 5, 100, 11]),
        replicas=2,
        profile=replace(STEADY, kv_tokens=550),
    )
    # chat-0 holds 400 tokens, chat-1 ten: the third and the fourth both go to chat-1 unless it is the fuller one.
    fleet.advance(T0 + 3)
    assert [metrics.running for metrics in fleet.pods().values()] == [2, 2]


def test_preemption_delays_and_is_counted() -> None:
    """With the cache full, the request admitted last is computed again later; only its first wait is queue time."""
    fleet = plant(requests_at(0, 0, prompt=50, output=31), profile=replace(STEADY, kv_tokens=120, max_model_len=120))
    fleet.advance(T0 + 20)
    view = fleet.view(T0 + 20)
    assert (view.running, view.waiting) == (1, 1)
    assert fleet.pods()["chat-0"].preemptions == 1
    fleet.advance(T0 + 100)
    after = fleet.pods()["chat-0"]
    assert (after.success, after.generation_tokens, after.prompt_tokens) == (2, 62, 100)
    assert after.queue_time.total == 0
    assert after.ttft.counts[-1] == 2
    # 9 s, then behind the first until 30 s, then the 20 tokens that are left after the one of the recomputation.
    assert after.e2e.total == pytest.approx(30 + 50)


def test_the_preempted_comes_before_those_that_wait() -> None:
    """A preempted request goes on before requests that have not started yet."""
    profile = replace(STEADY, kv_tokens=120, max_model_len=120, slots=2)
    fleet = plant(requests_at(0, 0, 1, prompt=50, output=[31, 31, 11]), profile=profile)
    fleet.advance(T0 + 100)
    assert fleet.view(T0 + 100).finished == 3
    # The third starts once the second, back at 30 s, has left room for its prompt: at 50 s.
    assert fleet.pods()["chat-0"].queue_time.total == pytest.approx(29.0)


def test_a_prompt_beyond_the_model_is_rejected() -> None:
    """A prompt that the model cannot take is refused at once, one that leaves little room is answered shortly."""
    fleet = plant(requests_at(0, 1, prompt=[500, 498], output=50), profile=STEADY)
    view = fleet.view(T0 + 3)
    assert (view.lost, view.waiting, view.finished) == (1, 0, 1)


def test_a_silent_pod_serves_on() -> None:
    """A silent pod answers no scrape but takes and finishes requests."""
    fleet = plant(requests_at(0, 5), replicas=1, profile=STEADY)
    fleet.silence("chat-0", T0 + 1)
    assert dict(fleet.pods()) == {}
    assert fleet.view(T0 + 20).finished == 2
    fleet.silence("chat-0", T0 + 20, silent=False)
    assert fleet.pods()["chat-0"].success == 2


def test_a_frozen_engine_keeps_its_gauges_and_starves() -> None:
    """After a mass abort gauges stand, no counter moves and nothing is sent there, until a restart."""
    fleet = plant(requests_at(0, 0, 0, 0, *range(10, 30)), replicas=2, profile=STEADY)
    fleet.freeze("chat-1", T0 + 5)
    frozen = fleet.pods()["chat-1"]
    assert (frozen.running, frozen.generation_tokens) == (2, 12)
    assert frozen.kv_usage == pytest.approx(2 * 16 / 1000)
    fleet.advance(T0 + 25)
    later = fleet.pods()["chat-1"]
    assert later == frozen
    assert fleet.view(T0 + 25).lost == 2
    fleet.restart("chat-1", T0 + 26, ready_after_s=10)
    assert list(fleet.pods()) == ["chat-0"]
    assert phases(fleet, 26) == {"chat-0": Phase.READY, "chat-1": Phase.PENDING}
    fleet.advance(T0 + 36)
    fresh = fleet.pods()["chat-1"]
    assert fresh.running > 0
    assert (fresh.success, fresh.queue_time.counts[-1]) == (0, 0)


def test_failures_name_an_unknown_pod() -> None:
    """A failure of a pod that is not there is an error that says which are."""
    fleet = plant(requests_at())
    with pytest.raises(KeyError, match=r"pod must be one of \['chat-0'\], was 'chat-9'"):
        fleet.freeze("chat-9", T0)


def test_time_does_not_go_back() -> None:
    """A call in the past is an error."""
    fleet = plant(requests_at())
    fleet.advance(T0 + 5)
    with pytest.raises(ValueError, match=r"to_s must be >= 1000005.0, was 1000004"):
        fleet.view(T0 + 4)


def test_arguments_have_ranges() -> None:
    """Negative replicas, and a start after the first arrival, are errors."""
    with pytest.raises(ValueError, match="replicas must be >= 0, was -1"):
        plant(requests_at()).scale(-1, T0)
    with pytest.raises(ValueError, match="start_s must be <= the first arrival"):
        Plant(ROUND, requests_at(5), 1, 1, T0 + 6)


def test_a_queue_of_one_server_waits_as_theory_says() -> None:
    """Poisson arrivals at one slot with exponential service: the mean wait is rho / (mu - lambda)."""
    rng = np.random.default_rng(20)
    count, rate_rps, service_s = 10_000, 0.7, 1.0
    tokens = np.maximum(2, np.rint(rng.exponential(service_s, count) * 1000)).astype(int)
    arrivals = requests_at(
        *np.cumsum(rng.exponential(1 / rate_rps, count)), prompt=1, output=list(tokens + 1), end_s=1e6
    )
    profile = replace(ONE_SLOT, step_base_s=0.001, max_model_len=100_000, kv_tokens=100_000)
    fleet = plant(arrivals, profile=profile)
    fleet.advance(T0 + 1e6)
    metrics = fleet.pods()["chat-0"]
    assert metrics.success == count
    # 0.7 / (1 - 0.7) = 2.33 s; the mean of 10,000 correlated waits has a deviation of about a twentieth.
    assert metrics.queue_time.total / count == pytest.approx(0.7 / 0.3, rel=0.2)


@pytest.mark.parametrize(("share", "meets"), [(0.95, True), (1.05, False)])
def test_the_stated_capacity_of_the_profile(share: float, meets: bool) -> None:
    """With Poisson traffic one replica of the built-in profile crosses 0.99 within 1 s at its stated capacity."""
    per_bin = H100_8B.capacity_rps * share * 10
    trace = count_trace([float(n) for n in np.random.default_rng(4).poisson(per_bin, 180)])
    arrivals = draw_arrivals(trace, np.random.default_rng(4), H100_8B.lengths)
    fleet = Plant(H100_8B, arrivals, 1, 1)
    fleet.advance(arrivals.end_s + 60)
    attainment = fleet.scores(slo_s=1.0).attainment
    assert attainment is not None
    assert (attainment >= 0.99) == meets


def test_the_bound_of_the_profile() -> None:
    """The stated capacity lies below what the engine can finish at all, and by less than a tenth."""
    assert 0.9 < H100_8B.capacity_rps / H100_8B.throughput_rps(H100_8B.slots) < 1
