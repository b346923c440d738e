"""From samples to readings: what is believed, what is not, and why."""

import math
from collections.abc import Iterable
from dataclasses import fields, replace

import pytest

from scaler.adapters.signals.candidates import Kind
from scaler.adapters.signals.project import Answer, Projector
from scaler.adapters.signals.vllm import VLLM
from scaler.config.models import DecisionSettings
from scaler.core.observation import ReplicaReading
from scaler.core.values import Known, Missing, Reading, Reason, Stale
from scaler.ports import Sample
from tests.metrics_fakes import T0, exposition, vllm_pod

POD = ("demo", "chat-0")


def readings(
    samples: Iterable[Sample], projector: Projector | None = None, *, now_s: float = T0, absent: Reason | None = None
) -> ReplicaReading:
    """Project one pod's samples."""
    projector = projector or Projector(DecisionSettings())
    answer = Answer(tuple(samples), absent or Reason.NO_SERIES)
    return projector.replicas(VLLM, {POD}, answer, now_s)[POD]


def with_value(samples: Iterable[Sample], name: str, value: float, **labels: str) -> list[Sample]:
    """Replace the value of the series of a name that have these labels."""
    return [replace(s, value=value) if s.name == name and labels.items() <= s.labels.items() else s for s in samples]


def without(samples: Iterable[Sample], *names: str) -> list[Sample]:
    """Drop the series of these names."""
    return [s for s in samples if s.name not in names]


def later(samples: Iterable[Sample], seconds: float, **adds: float) -> list[Sample]:
    """Move samples on in time, and each counter named by the end of its name by so much per series."""
    return [
        replace(s, at_s=s.at_s + seconds, value=s.value + adds.get(s.name.removeprefix("vllm:"), 0.0)) for s in samples
    ]


def test_data_parallel_ranks_are_one_replica() -> None:
    """Running and waiting of all ranks add up; KV usage is that of the fullest rank."""
    seen = readings(vllm_pod())
    assert seen.running == Known(78.0)
    assert seen.kv_usage == Known(0.71875)


def test_deferred_requests_do_not_wait_for_capacity() -> None:
    """Of 8 waiting requests one waits for something that more replicas would not give it."""
    assert readings(vllm_pod()).waiting == Known(7.0)


def test_an_engine_without_reasons_reports_all_that_wait() -> None:
    """Where waiting is not split by reason, the whole count is taken, and the name that matched is told."""
    projector = Projector(DecisionSettings())
    seen = readings(without(vllm_pod(), "vllm:num_requests_waiting_by_reason"), projector)
    assert seen.waiting == Known(8.0)
    assert projector.matched["waiting"] == {"vllm:num_requests_waiting"}


@pytest.mark.parametrize(
    ("name", "kv_name"), [("vllm_0_8", "vllm:gpu_cache_usage_perc"), ("vllm_ray", "ray_vllm_gpu_cache_usage_perc")]
)
def test_old_names_and_ray_s_spelling(name: str, kv_name: str) -> None:
    """A fleet of mixed versions is read pod by pod, each under the names that it has."""
    projector = Projector(DecisionSettings())
    seen = readings(vllm_pod(name=name), projector)
    assert (seen.running, seen.waiting, seen.kv_usage) == (Known(2.0), Known(1.0), Known(0.25))
    assert projector.matched["kv_usage"] == {kv_name}


def test_rates_span_two_scrapes() -> None:
    """Counters of all ranks and finish reasons add up to rates per second; the age is that of the newest sample."""
    projector = Projector(DecisionSettings())
    first = vllm_pod()
    assert readings(first, projector).completions_rps == Missing(Reason.TOO_FEW_SAMPLES)
    second = later(first, 15, request_success_total=30, generation_tokens_total=150, num_preemptions_total=3)
    seen = readings(second, projector, now_s=T0 + 20)
    assert seen.completions_rps == Known(8 * 30 / 15, 5.0)  # two ranks, four reasons
    assert seen.output_tokens_rps == Known(20.0, 5.0)
    assert seen.preemptions_rps == Known(0.4, 5.0)
    assert seen.prompt_tokens_rps == Known(0.0, 5.0)
    assert seen.rejections_rps == Known(0.0, 5.0)


def test_the_same_scrape_twice_is_no_news() -> None:
    """Two ticks within one scrape interval keep the rate; it is not taken for an engine that stopped."""
    projector = Projector(DecisionSettings())
    first = vllm_pod()
    second = later(first, 15, request_success_total=30)
    readings(first, projector)
    before = readings(second, projector, now_s=T0 + 15).completions_rps
    after = readings(second, projector, now_s=T0 + 29).completions_rps
    assert before == Known(16.0, 0.0)
    assert after == Known(16.0, 14.0)


def test_a_restarted_engine_s_counters_are_a_reset() -> None:
    """After a fall there is no rate until two samples after it; never a negative one."""
    projector = Projector(DecisionSettings())
    first = vllm_pod()
    readings(first, projector)
    reset = [replace(s, value=0.0) if s.name == "vllm:request_success_total" else s for s in later(first, 15)]
    assert readings(reset, projector, now_s=T0 + 15).completions_rps == Missing(Reason.COUNTER_RESET)
    after = with_value(later(reset, 15), "vllm:request_success_total", 3.0, finished_reason="stop")
    assert readings(after, projector, now_s=T0 + 30).completions_rps == Known(2 * 3 / 15)  # two ranks


def test_one_rank_s_reset_makes_the_pod_s_rate_unknown() -> None:
    """The other rank's rate alone would be too low."""
    projector = Projector(DecisionSettings())
    first = vllm_pod()
    readings(first, projector)
    moved = later(first, 15, request_success_total=30)
    one_fell = with_value(moved, "vllm:request_success_total", 1.0, engine="1", finished_reason="stop")
    assert readings(one_fell, projector, now_s=T0 + 15).completions_rps == Missing(Reason.COUNTER_RESET)


def test_the_measured_queue_time_is_that_of_the_window() -> None:
    """The quantile is of what was observed since the oldest sample of the window, not since the engine started."""
    projector = Projector(DecisionSettings())
    first = vllm_pod()
    readings(first, projector)
    moved = [
        replace(s, value=s.value + 100) if _is_queue_bucket(s) and float(s.labels["le"]) >= 1.5 else s
        for s in later(first, 15)
    ]
    seen = readings(moved, projector, now_s=T0 + 15).queue_time_s
    assert isinstance(seen, Known)
    assert seen.value == pytest.approx(1.0 + 0.5 * 0.95)  # all in (1.0, 1.5]


def _is_queue_bucket(sample: Sample) -> bool:
    return sample.name == "vllm:request_queue_time_seconds_bucket"


def test_without_completions_there_is_no_measured_queue_time() -> None:
    """A window in which nothing was observed has no quantile; it is not 0."""
    projector = Projector(DecisionSettings())
    readings(vllm_pod(), projector)
    seen = readings(later(vllm_pod(), 15), projector, now_s=T0 + 15)
    assert seen.queue_time_s == Missing(Reason.NO_COMPLETIONS)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (math.nan, Reason.INVALID_VALUE),
        (math.inf, Reason.INVALID_VALUE),
        (-math.inf, Reason.INVALID_VALUE),
        (-1.0, Reason.NEGATIVE),
    ],
)
@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("vllm:num_requests_running", "running"),
        ("vllm:kv_cache_usage_perc", "kv_usage"),
        ("vllm:request_success_total", "completions_rps"),
        ("vllm:request_queue_time_seconds_bucket", "queue_time_s"),
    ],
)
def test_a_value_that_is_no_value(name: str, field: str, value: float, reason: Reason) -> None:
    """One bad rank makes the pod's signal unknown; the others' sum is not the pod's."""
    projector = Projector(DecisionSettings())
    readings(vllm_pod(), projector)
    seen = readings(with_value(later(vllm_pod(), 15), name, value, engine="0"), projector, now_s=T0 + 15)
    assert getattr(seen, field) == Missing(reason)


def test_a_kv_usage_above_one_is_an_error_and_no_percentage() -> None:
    """The gauge is 0..1 despite its name: 61 is not taken for 61 %."""
    seen = readings(with_value(vllm_pod(), "vllm:kv_cache_usage_perc", 61.25))
    assert seen.kv_usage == Missing(Reason.INVALID_VALUE)


@pytest.mark.parametrize("name", ["vllm:num_requests_running", "vllm:request_success_total"])
def test_an_absurd_value_is_an_error(name: str) -> None:
    """Two finite values whose sum would be infinite are no values."""
    projector = Projector(DecisionSettings())
    readings(with_value(vllm_pod(), name, 0.0), projector)
    seen = readings(with_value(later(vllm_pod(), 15), name, 1.7e308), projector, now_s=T0 + 15)
    assert Missing(Reason.INVALID_VALUE) in (seen.running, seen.completions_rps)


@pytest.mark.parametrize("bound", ["nan", "-inf", "-1", "much"])
def test_a_bucket_without_a_place_in_the_order_is_an_error(bound: str) -> None:
    """A histogram with such a bound has no quantile."""
    projector = Projector(DecisionSettings())
    samples = [replace(s, labels={**s.labels, "le": bound}) if s.labels.get("le") == "1.0" else s for s in vllm_pod()]
    readings(samples, projector)
    moved = [replace(s, value=s.value + 5) if _is_queue_bucket(s) else s for s in later(samples, 15)]
    assert readings(moved, projector, now_s=T0 + 15).queue_time_s == Missing(Reason.INVALID_VALUE)


def test_a_late_sample_is_stale_and_tells_its_age() -> None:
    """Staleness goes by the sample's own time; every signal of the pod says so."""
    seen = readings(vllm_pod(), now_s=T0 + 91)
    assert seen.running == Stale(91.0)
    assert seen.completions_rps == Stale(91.0)
    assert readings(vllm_pod(), now_s=T0 + 90).running == Known(78.0, 90.0)


def test_one_late_rank_makes_the_pod_stale() -> None:
    """A rank that fell silent is not left out of the sum."""
    ranks = [replace(s, at_s=T0 - 100) if s.labels.get("engine") == "1" else s for s in vllm_pod()]
    assert readings(ranks).running == Stale(100.0)


def rank(number: str, at_s: float, **renames: str) -> list[Sample]:
    """Return what one rank of the pod exports, with labels changed."""
    return [replace(s, labels={**s.labels, **renames}) for s in vllm_pod(at_s=at_s) if s.labels.get("engine") == number]


def tick(projector: Projector, samples: Iterable[Sample], now_s: float, absent: Reason | None = None) -> ReplicaReading:
    """Project one pod's samples as one tick does."""
    projector.begin(now_s)
    return readings(samples, projector, now_s=now_s, absent=absent)


def test_a_lost_rank_does_not_make_its_pod_half_idle() -> None:
    """First its last word is stale; once it has no series any more it is missed, until it is back."""
    projector = Projector(DecisionSettings())
    assert tick(projector, vllm_pod(), T0).running == Known(78.0)
    dead = rank("1", T0)
    assert tick(projector, [*rank("0", T0 + 105), *dead], T0 + 105).running == Stale(105.0)
    for now_s in range(int(T0) + 120, int(T0) + 690, 15):
        seen = tick(projector, rank("0", now_s), now_s)
        assert {seen.running, seen.waiting, seen.kv_usage} == {Missing(Reason.SOURCE_DOWN)}
    assert tick(projector, vllm_pod(at_s=T0 + 690), T0 + 690).running == Known(78.0)


def test_a_rank_that_stays_away_is_given_up() -> None:
    """After ten minutes without it the pod is what it shows."""
    projector = Projector(DecisionSettings())
    tick(projector, vllm_pod(), T0)
    assert tick(projector, rank("0", T0 + 600), T0 + 600).running == Missing(Reason.SOURCE_DOWN)
    assert tick(projector, rank("0", T0 + 601), T0 + 601).running == Known(37.0)


def test_a_rank_that_a_partial_answer_lacks_is_missed_at_once() -> None:
    """The reason is the answer's; with a whole answer the sum is known again."""
    projector = Projector(DecisionSettings())
    tick(projector, vllm_pod(), T0)
    cut = tick(projector, rank("0", T0 + 15), T0 + 15, Reason.PARTIAL_ANSWER)
    assert cut.running == Missing(Reason.PARTIAL_ANSWER)
    assert tick(projector, vllm_pod(at_s=T0 + 30), T0 + 30).running == Known(78.0)


def test_a_pod_that_restarted_has_the_ranks_that_it_has_now() -> None:
    """None of its parts is what it was: nothing of it is missed, also where it now has fewer."""
    projector = Projector(DecisionSettings())
    tick(projector, vllm_pod(), T0)
    fresh = rank("0", T0 + 15, model_name="another")
    assert tick(projector, fresh, T0 + 15).running == Known(37.0)


def test_a_rank_that_comes_back_as_another_takes_the_place_of_the_lost_one() -> None:
    """A Ray replica starts again under a new identity; the pod is whole again then."""
    projector = Projector(DecisionSettings())
    tick(projector, vllm_pod(), T0)
    assert tick(projector, rank("0", T0 + 120), T0 + 120).running == Missing(Reason.SOURCE_DOWN)
    whole = [*rank("0", T0 + 135), *rank("1", T0 + 135, engine="2")]
    assert tick(projector, whole, T0 + 135).running == Known(78.0)
    assert tick(projector, rank("0", T0 + 150), T0 + 150).running == Missing(Reason.SOURCE_DOWN)


def test_a_sample_from_the_future_is_not_fresh_for_ever() -> None:
    """A clock that is a little ahead is forgiven; one that is far ahead would hide a silence."""
    assert readings(vllm_pod(at_s=T0 + 5)).running == Known(78.0, 0.0)
    assert readings(vllm_pod(at_s=T0 + 3600)).running == Missing(Reason.INVALID_VALUE)


def test_an_idle_engine_is_known_to_be_idle() -> None:
    """A constant 0 from fresh samples is Known(0): staleness never comes from equal values."""
    projector = Projector(DecisionSettings())
    idle = with_value(vllm_pod(), "vllm:num_requests_running", 0.0)
    for tick in range(20):
        seen = readings(later(idle, 15 * tick), projector, now_s=T0 + 15 * tick)
    assert seen.running == Known(0.0)
    assert seen.completions_rps == Known(0.0)
    assert seen.still_s == Known(285.0)


def test_a_frozen_engine_claims_work_and_stands_still() -> None:
    """The projection tells both facts: the gauge as it stands, and for how long no counter has moved."""
    projector = Projector(DecisionSettings())
    for tick in range(8):
        seen = readings(later(vllm_pod(), 15 * tick), projector, now_s=T0 + 15 * tick)
    assert seen.running == Known(78.0)
    assert seen.still_s == Known(105.0)
    moved = readings(later(vllm_pod(), 120, generation_tokens_total=1), projector, now_s=T0 + 120)
    assert moved.still_s == Known(0.0)


def test_ticks_without_a_new_scrape_do_not_make_an_engine_still() -> None:
    """Standing still is measured between scrapes, not between ticks."""
    projector = Projector(DecisionSettings())
    readings(vllm_pod(), projector)
    moved = later(vllm_pod(), 15, generation_tokens_total=9)
    for now_s in (15, 30, 45, 60):
        seen = readings(moved, projector, now_s=T0 + now_s)
    assert seen.still_s == Known(0.0, 45.0)


def test_no_series_under_any_name_is_missing_not_zero() -> None:
    """An empty answer, as after an outage, and an engine whose names nobody knows, are both unknown."""
    assert readings([]).running == Missing(Reason.NO_SERIES)
    renamed = [replace(s, name=s.name.replace("vllm:", "vllm2:")) for s in vllm_pod()]
    seen = readings(renamed)
    for field in ("running", "waiting", "kv_usage", "completions_rps", "queue_time_s", "still_s"):
        assert getattr(seen, field) == Missing(Reason.NO_SERIES), field


def test_a_signal_that_an_engine_does_not_have_is_no_gap() -> None:
    """An older vLLM without admission control has no rejections: a property of the engine, not a silence."""
    assert readings(vllm_pod(name="vllm_0_8")).rejections_rps == Missing(Reason.NOT_EXPORTED)
    assert readings([]).rejections_rps == Missing(Reason.NO_SERIES)


def test_a_renamed_gauge_is_a_gap() -> None:
    """A KV gauge that vanished while all else is there is what autoscalers once did not notice."""
    assert readings(without(vllm_pod(), "vllm:kv_cache_usage_perc")).kv_usage == Missing(Reason.NO_SERIES)


def test_of_a_partial_answer_what_is_there_is_known() -> None:
    """What is not there may be what was lost, optional signals included."""
    seen = readings(
        without(vllm_pod(), "vllm:kv_cache_usage_perc", "vllm:admission_rejections_total"),
        absent=Reason.PARTIAL_ANSWER,
    )
    assert seen.running == Known(78.0)
    assert seen.kv_usage == Missing(Reason.PARTIAL_ANSWER)
    assert seen.rejections_rps == Missing(Reason.PARTIAL_ANSWER)


@pytest.mark.parametrize("reason", [Reason.SOURCE_DOWN, Reason.SOURCE_TIMEOUT])
def test_a_failed_source_gives_its_reason(reason: Reason) -> None:
    """Every reading that depended on the source says why."""
    seen = readings([], absent=reason)
    assert {seen.running, seen.kv_usage, seen.completions_rps, seen.still_s} == {Missing(reason)}


def test_a_target_that_is_down_says_so() -> None:
    """`up` 0 explains why there are no series."""
    up = Sample("up", {"namespace": "demo", "pod": "chat-0"}, 0.0, T0)
    assert readings([up]).running == Missing(Reason.SOURCE_DOWN)
    assert readings([replace(up, value=1.0)]).running == Missing(Reason.NO_SERIES)
    assert readings([up]).still_s == Missing(Reason.SOURCE_DOWN)


def test_a_pod_s_own_claims_do_not_count() -> None:
    """What a pod says of itself arrives as `exported_...`; who it is, is what its target says."""
    spoof = exposition("vllm", namespace="evil", pod="attacker-0", exported_namespace="demo", exported_pod="chat-0")
    assert readings(spoof).running == Missing(Reason.NO_SERIES)
    assert readings([*vllm_pod(), *spoof]).running == Known(78.0)


def test_ghosts_contribute_nothing() -> None:
    """Series of a pod that is gone are not added to anybody."""
    projector = Projector(DecisionSettings())
    answer = Answer((*vllm_pod("chat-0"), *vllm_pod("chat-9")))
    assert set(projector.replicas(VLLM, {POD}, answer, T0)) == {POD}
    assert projector.replicas(VLLM, {POD}, answer, T0)[POD].running == Known(78.0)


def test_a_pod_seen_through_two_jobs_counts_once() -> None:
    """Two scrape jobs, or a pod that came back under a new address, are one pod: the newest sample counts."""
    old = [
        replace(s, at_s=T0 - 30, value=s.value * 2, labels={**s.labels, "instance": "10.0.0.1:8000"})
        for s in vllm_pod()
    ]
    new = [replace(s, labels={**s.labels, "instance": "10.0.0.2:8000"}) for s in vllm_pod()]
    assert readings([*old, *new]).running == Known(78.0)
    assert readings([*new, *old]).running == Known(78.0)


def at(instance: str, samples: Iterable[Sample]) -> list[Sample]:
    """Return the samples as scraped from an address."""
    return [replace(s, labels={**s.labels, "instance": instance}) for s in samples]


def counted(at_s: float, total: float) -> list[Sample]:
    """Return a pod whose output tokens of the first rank are so many, and of the other none."""
    samples = with_value(vllm_pod(at_s=at_s), "vllm:generation_tokens_total", 0.0)
    return with_value(samples, "vllm:generation_tokens_total", total, engine="0")


@pytest.mark.parametrize("apart_s", [-1.0, -0.2, 0.0, 0.2, 1.0])
def test_two_servers_behind_one_pod_have_no_rate(apart_s: float) -> None:
    """Two counters of equal labels, 900,000 apart, are no jump of one counter, whichever is the newer."""
    projector = Projector(DecisionSettings())
    for i in range(4):
        now_s = T0 + 15 * i
        one = at("10.0.0.1:8000", counted(now_s, 1e6 + 150 * i))
        other = at("10.0.0.1:8001", counted(now_s + apart_s * (-1) ** i, 1e5 + 150 * i))
        assert readings([*one, *other], projector, now_s=now_s).output_tokens_rps == Missing(Reason.INVALID_VALUE)


def test_two_counters_of_one_name_are_no_movement() -> None:
    """What two servers behind one pod dispute does not hide that all else stands still."""
    projector = Projector(DecisionSettings())
    for i in range(4):
        one, other = counted(T0 + 15 * i, 1e6 + 150 * i), counted(T0 + 15 * i, 1e5)
        seen = readings([*at("10.0.0.1:8000", one), *at("10.0.0.1:8001", other)], projector, now_s=T0 + 15 * i)
    assert seen.still_s == Known(45.0)


def test_two_servers_that_are_scraped_far_apart_never_make_one_rate() -> None:
    """Where the newest sample is now the one's and now the other's, each has its own rate, never the jump between."""
    projector = Projector(DecisionSettings())
    for i in range(6):
        now_s = T0 + 15 * i
        one, other = counted(now_s - 5 * (i % 2), 1e5 + 150 * i), counted(now_s - 5 * (1 - i % 2), 1e6 + 150 * i)
        seen = readings([*at("10.0.0.1:8000", one), *at("10.0.0.1:8001", other)], projector, now_s=now_s)
        expected = Missing(Reason.TOO_FEW_SAMPLES) if i < 2 else Known(10.0)
        assert seen.output_tokens_rps == expected


def test_one_server_that_two_jobs_scrape_at_once_has_its_rate() -> None:
    """Half a second later the same counter has risen a little: that is no dispute."""
    projector = Projector(DecisionSettings())
    for i in range(3):
        now_s = T0 + 15 * i
        one = at("10.0.0.1:8000", counted(now_s - 0.5, 1e6 + 15000 * i - 500))
        other = at("chat-0", counted(now_s, 1e6 + 15000 * i))
        seen = readings([*one, *other], projector, now_s=now_s)
    assert seen.output_tokens_rps == Known(1000.0)


def test_a_pod_under_a_new_address_counts_anew() -> None:
    """The newest counts; the old address's last word, clearly older, is no dispute, and no start of the new rate."""
    projector = Projector(DecisionSettings())
    old = at("10.0.0.1:8000", counted(T0, 100.0))
    readings(old, projector)
    new = at("10.0.0.2:8000", counted(T0 + 15, 5000.0))
    seen = readings([*old, *new], projector, now_s=T0 + 15)
    assert seen.output_tokens_rps == Missing(Reason.TOO_FEW_SAMPLES)
    new = at("10.0.0.2:8000", counted(T0 + 30, 5150.0))
    assert readings([*old, *new], projector, now_s=T0 + 30).output_tokens_rps == Known(10.0)


def test_memory_follows_the_fleet() -> None:
    """Counters of pods that are gone are forgotten."""
    projector = Projector(DecisionSettings())
    for generation in range(20):
        pod, now_s = ("demo", f"chat-{generation}"), T0 + 900 * generation
        projector.begin(now_s)
        projector.replicas(VLLM, {pod}, Answer(tuple(vllm_pod(pod[1], at_s=now_s))), now_s)
        if generation == 0:
            of_one_pod = len(projector._counters)
    assert len(projector._counters) == of_one_pod
    assert len(projector._motion) == 1
    assert len(projector._parts) == sum(signal.kind is Kind.GAUGE for signal in VLLM.signals)


def all_readings(replica: ReplicaReading) -> dict[str, Reading]:
    """Return a replica's readings by name."""
    return {
        name: value
        for name in (field.name for field in fields(ReplicaReading))
        if isinstance(value := getattr(replica, name), Known | Missing | Stale)
    }


def test_what_no_source_was_set_for_is_not_configured() -> None:
    """GPU activity without a source is a matter of the set-up."""
    assert all_readings(readings(vllm_pod()))["gpu_activity"] == Missing(Reason.NOT_CONFIGURED)


@pytest.mark.parametrize("at_s", [math.nan, T0])
def test_a_sample_without_a_time_gives_way_wherever_it_is_listed(at_s: float) -> None:
    """Of two samples of one part the dated one counts, and a number before NaN, in whichever order they come."""
    good = Sample("vllm:num_requests_running", {"namespace": "demo", "pod": "chat-0", "engine": "0"}, 3.0, T0)
    odd = replace(good, value=9.0 if math.isnan(at_s) else math.nan, at_s=at_s)
    assert [readings(pair).running for pair in ((good, odd), (odd, good))] == [Known(3.0)] * 2
    assert readings((replace(odd, at_s=math.nan),)).running == Missing(Reason.INVALID_VALUE)


@pytest.mark.parametrize(
    ("value", "ago_s", "expected"),
    [
        (8.0, 5.0, Known(8.0, 5.0)),
        (8.0, 91.0, Known(0.0, 1.0)),  # of a port that is gone
        (math.nan, 5.0, Missing(Reason.INVALID_VALUE)),
    ],
)
def test_of_two_containers_of_a_pod_the_idle_one_does_not_hide_the_other(
    value: float, ago_s: float, expected: Reading
) -> None:
    """Two engines that call themselves one, at two ports of one pod: the newest sample may be the idle one's."""
    idle = Sample("vllm:num_requests_running", {"namespace": "demo", "pod": "chat-0", "engine": "0"}, 0.0, T0 - 1)
    idle = replace(idle, labels={**idle.labels, "instance": "10.0.0.1:8001"})
    other = replace(idle, labels={**idle.labels, "instance": "10.0.0.1:8000"}, value=value, at_s=T0 - ago_s)
    assert [readings(pair).running for pair in ((idle, other), (other, idle))] == [expected] * 2
