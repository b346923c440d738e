"""trtllm-serve, NIM, TGI, llama.cpp and Ray Serve: their names, their units, and what they do not export."""

from dataclasses import replace

import pytest

from scaler.adapters.signals.llamacpp import LLAMACPP
from scaler.adapters.signals.project import Projector
from scaler.config.models import DecisionSettings
from scaler.core.values import Known, Missing, Reason
from scaler.ports import Sample
from tests.preset_rig import after, moved, read, scraped

NOT_EXPORTED = Missing(Reason.NOT_EXPORTED)


def test_trtllm_serve_tells_its_own_slots() -> None:
    """`trtllm_max_num_active_requests` is what it lets be active at once."""
    seen = read("trtllm", scraped("trtllm"))
    assert (seen.running, seen.waiting, seen.slots) == (Known(24.0), Known(6.0), Known(64.0))
    assert seen.kv_usage == Known(0.625)
    assert seen.preemptions_rps == NOT_EXPORTED


def test_trtllm_serve_counts_requests_by_how_they_ended() -> None:
    """Both reasons add up; without per-request metrics the count of its iterations stands in."""
    rises = {"trtllm_request_success_total": 15.0, "trtllm_num_requests_completed_total": 45.0}
    first = scraped("trtllm")
    assert read("trtllm", first, moved(first, rises)).completions_rps == Known(2.0)
    bare = [s for s in first if s.name != "trtllm_request_success_total"]
    assert read("trtllm", bare, moved(bare, rises)).completions_rps == Known(3.0)


def test_blocks_that_a_generation_takes_are_motion() -> None:
    """A long generation of trtllm-serve moves nothing else."""
    scrapes = [scraped("trtllm")]
    for _ in range(6):
        scrapes.append(moved(scrapes[-1], {"trtllm_kv_cache_gen_alloc_blocks_total": 9.0}))
    assert read("trtllm", *scrapes).still_s == Known(0.0)


def test_nim_1_has_no_prefix() -> None:
    """The names of 1.x are bare; `num_request_max` is its slots."""
    seen = after("nim", "nim", {"request_success_total": 30.0, "generation_tokens_total": 1500.0})
    assert (seen.running, seen.waiting, seen.slots) == (Known(12.0), Known(3.0), Known(256.0))
    assert seen.kv_usage == Known(0.375)
    assert (seen.completions_rps, seen.output_tokens_rps) == (Known(2.0), Known(100.0))
    assert {seen.queue_time_s, seen.preemptions_rps, seen.rejections_rps} == {NOT_EXPORTED}


def test_nim_2_has_vllm_s_names() -> None:
    """Each signal is probed under both spellings, and which one matched is told."""
    projector = Projector(DecisionSettings())
    seen = read("nim", scraped("nim-2"), projector=projector)
    assert (seen.running, seen.waiting, seen.slots) == (Known(3.0), Known(2.0), Known(1024.0))
    assert seen.kv_usage == Known(0.125)
    assert projector.matched["running"] == {"vllm:num_requests_running"}
    assert projector.matched["slots"] == {"num_request_max"}


def test_a_bare_name_of_another_program_is_not_nim_s() -> None:
    """A sidecar that counts `num_requests_running` of its own has no model."""
    sidecar = Sample(
        "num_requests_running", {"namespace": "demo", "pod": "chat-0", "instance": "10.0.0.1:9"}, 99.0, 0.0
    )
    first = scraped("nim")
    assert read("nim", [*first, replace(sidecar, at_s=first[0].at_s)]).running == Known(12.0)
    alone = [replace(sidecar, at_s=first[0].at_s), *(s for s in first if s.name != "num_requests_running")]
    assert read("nim", alone).running == Missing(Reason.NO_SERIES)


def test_tgi_s_batch_and_queue() -> None:
    """Counters without `_total`, token counts from the sums of histograms, refused requests as rejections."""
    rises = {
        "tgi_request_success": 30.0,
        "tgi_request_input_length_sum": 15360.0,
        "tgi_request_generated_tokens_sum": 6000.0,
    }
    seen = after("tgi", "tgi", rises)
    assert (seen.running, seen.waiting) == (Known(16.0), Known(5.0))
    assert (seen.completions_rps, seen.prompt_tokens_rps, seen.output_tokens_rps) == (
        Known(2.0),
        Known(1024.0),
        Known(400.0),
    )
    assert {seen.kv_usage, seen.preemptions_rps, seen.slots} == {NOT_EXPORTED}
    overloaded = after("tgi", "tgi", {"tgi_request_failure": 15.0}, lambda s: s.labels.get("err") == "overloaded")
    assert overloaded.rejections_rps == Known(1.0)
    invalid = after("tgi", "tgi", {"tgi_request_failure": 15.0}, lambda s: s.labels.get("err") == "validation")
    assert invalid.rejections_rps == Known(0.0)


def test_tgi_s_queue_time_is_in_seconds_whatever_its_name_lacks() -> None:
    """All that was observed between two scrapes waited about 2 s."""
    first = scraped("tgi")
    name = "tgi_request_queue_duration_bucket"
    second = moved(first, {name: 20.0}, lambda s: s.name == name and float(s.labels["le"]) >= 2.0)
    seen = read("tgi", first, second).queue_time_s
    assert isinstance(seen, Known)
    assert 1.0 < seen.value < 3.5


def test_tgi_s_batches_are_motion() -> None:
    """A long generation moves only the count of its decode steps."""
    scrapes = [scraped("tgi")]
    for _ in range(6):
        decodes = {"tgi_batch_inference_count": 300.0}
        scrapes.append(moved(scrapes[-1], decodes, lambda s: s.labels.get("method") == "decode"))
    assert read("tgi", *scrapes).still_s == Known(0.0)


def test_llama_cpp_has_no_labels_and_no_cache() -> None:
    """Whose series they are, the target says; what it does not export is no gap."""
    seen = after("llamacpp", "llamacpp", {"llamacpp:tokens_predicted_total": 900.0})
    assert (seen.running, seen.waiting) == (Known(4.0), Known(46.0))
    assert seen.output_tokens_rps == Known(60.0)
    assert {seen.kv_usage, seen.completions_rps, seen.queue_time_s, seen.slots} == {NOT_EXPORTED}


def test_llama_cpp_s_removed_cache_gauge_is_never_read() -> None:
    """Where an old server still has it, it says nothing that a new one would (LLMKube#1373)."""
    assert not [name for name in LLAMACPP.names() if "kv_cache" in name]


def test_llama_cpp_s_mean_that_calls_itself_a_counter_is_no_motion() -> None:
    """`n_busy_slots_per_decode` creeps while nothing is decoded; calls of the decoder are what moves."""
    busy, decoding = [scraped("llamacpp")], [scraped("llamacpp")]
    for _ in range(6):
        busy.append(moved(busy[-1], {"llamacpp:n_busy_slots_per_decode": 0.01}))
        decoding.append(moved(decoding[-1], {"llamacpp:n_decode_total": 400.0}))
    assert read("llamacpp", *busy).still_s == Known(90.0)
    assert read("llamacpp", *decoding).still_s == Known(0.0)


def test_ray_serve_s_replica_and_router() -> None:
    """Recorded under load: 4 of 4 run in the replica, 6 wait in the router."""
    seen = after("rayserve", "rayserve", {"ray_serve_deployment_request_counter_total": 30.0})
    assert (seen.running, seen.waiting) == (Known(4.0), Known(6.0))
    assert seen.completions_rps == Known(2.0)
    assert {seen.kv_usage, seen.slots, seen.output_tokens_rps} == {NOT_EXPORTED}


@pytest.mark.parametrize("label", ["replica", "WorkerId", "deployment", "application"])
def test_ray_serve_s_replicas_in_one_pod_add_up(label: str) -> None:
    """A worker pod with two replicas, or two processes, is one replica of the scale target."""
    first = scraped("rayserve")
    other = [
        replace(s, labels={**s.labels, label: "other"})
        for s in first
        if s.name == "ray_serve_replica_processing_queries"
    ]
    assert read("rayserve", [*first, *other]).running == Known(8.0)


def test_ray_serve_s_times_are_in_milliseconds() -> None:
    """What the router's histogram observed between 100 and 200 is a tenth of a second and more."""
    first = scraped("rayserve")
    name = "ray_serve_request_router_fulfillment_time_ms_bucket"
    second = moved(first, {name: 40.0}, lambda s: s.name == name and float(s.labels["le"]) >= 200)
    seen = read("rayserve", first, second).queue_time_s
    assert isinstance(seen, Known)
    assert 0.05 <= seen.value <= 0.2


def test_ray_serve_s_refused_requests_are_rejections() -> None:
    """The proxy answers 503 above `max_queued_requests`."""
    seen = after("rayserve", "rayserve", {"ray_serve_num_deployment_http_error_requests_total": 15.0})
    assert seen.rejections_rps == Known(1.0)


def test_ray_serve_is_never_called_frozen() -> None:
    """A request may run for minutes in which no counter moves: nothing is known of its motion, and that is no gap."""
    assert after("rayserve", "rayserve", {}).still_s == NOT_EXPORTED


@pytest.mark.parametrize("engine", ["trtllm", "nim", "tgi", "llamacpp", "rayserve"])
def test_a_pod_s_own_claims_do_not_count(engine: str) -> None:
    """Whose series they are is what the target says, whatever the exposition claims."""
    claims = [
        replace(s, labels={**s.labels, "pod": "attacker-0", "namespace": "evil", "exported_pod": "chat-0"})
        for s in scraped(engine)
    ]
    assert read(engine, claims).running == Missing(Reason.NO_SERIES)
