"""Triton: microseconds, a mean from two counters, ensembles, and the TensorRT-LLM backend's own gauges."""

import pytest

from scaler.core.values import Known, Missing, Reason
from scaler.ports import Sample
from tests.preset_rig import after, moved, read, scraped

QUEUED = "nv_inference_queue_duration_us"
SUCCESS = "nv_inference_request_success"
EXECUTED = "nv_inference_compute_infer_duration_us"


def of_render(sample: Sample) -> bool:
    """Return whether a sample is of the model that works; the other is loaded and idle."""
    return sample.labels.get("model") == "render"


def test_what_is_pending_waits() -> None:
    """Two wait behind the one that runs; the idle model adds nothing."""
    assert read("triton", scraped("triton")).waiting == Known(2.0)


def test_mean_queue_time_is_a_quotient_of_two_counters_in_microseconds() -> None:
    """30 requests waited 45 s between them."""
    seen = after("triton", "triton", {QUEUED: 45e6, SUCCESS: 30.0}, of_render)
    assert seen.queue_time_s == Known(1.5)
    assert seen.completions_rps == Known(2.0)


@pytest.mark.parametrize("queued_us", [0.0, 5e6])
def test_without_a_success_there_is_no_mean_queue_time(queued_us: float) -> None:
    """Idle or stuck, 0 / 0 is neither 0 nor NaN; that nobody waits is for the pending count to say."""
    seen = after("triton", "triton", {QUEUED: queued_us}, of_render)
    assert seen.queue_time_s == Missing(Reason.NO_COMPLETIONS)


def test_one_counter_of_a_quotient_is_not_enough() -> None:
    """Without the counter that is divided by, the mean is missing."""
    first = [s for s in scraped("triton") if s.name != SUCCESS]
    assert read("triton", first, moved(first, {QUEUED: 1e6})).queue_time_s == Missing(Reason.NO_SERIES)


def test_a_restart_has_no_mean_queue_time_until_two_scrapes_after_it() -> None:
    """A counter that fell says nothing of what happened in between."""
    first = scraped("triton")
    reset = moved(first, {QUEUED: -399023.0, SUCCESS: -6.0}, of_render)
    assert read("triton", first, reset).queue_time_s == Missing(Reason.COUNTER_RESET)
    again = moved(reset, {QUEUED: 2e6, SUCCESS: 4.0}, of_render)
    assert read("triton", first, reset, again).queue_time_s == Known(0.5)


def test_what_runs_is_executing_time_per_second() -> None:
    """24 s of execution in 15 s: 1.6 requests executed at once on average (Little's law)."""
    assert after("triton", "triton", {EXECUTED: 24e6}, of_render).running == Known(1.6)
    assert read("triton", scraped("triton")).running == Missing(Reason.TOO_FEW_SAMPLES)


def test_only_what_waited_too_long_is_known_to_be_refused() -> None:
    """Other failures are no demand that went unserved."""
    rises = {"nv_inference_request_failure": 3.0}
    rejected = after("triton", "triton", rises, lambda s: of_render(s) and s.labels.get("reason") == "REJECTED")
    assert rejected.rejections_rps == Known(0.2)
    broken = after("triton", "triton", rises, lambda s: s.labels.get("reason") in {"BACKEND", "CANCELED", "OTHER"})
    assert broken.rejections_rps == Known(0.0)


def test_an_ensemble_s_queue_is_that_of_its_steps() -> None:
    """The ensemble itself always shows 0; the sum over the pod's models does not lose its step's queue."""
    assert read("triton", scraped("triton-ensemble")).waiting == Known(3.0)


def test_an_ensemble_counts_a_request_once_more_than_its_steps() -> None:
    """A limit that docs/signals.md states: nothing tells an ensemble from its step, so 4 requests are 8 successes."""
    first = scraped("triton-ensemble")
    assert sum(s.value for s in first if s.name == SUCCESS) == 8
    assert read("triton", first, moved(first, {SUCCESS: 15.0})).completions_rps == Known(2.0)


def test_the_tensorrt_llm_backend_speaks_for_itself() -> None:
    """Its requests leave Triton's queue at once: what waits, runs and may run is what the backend says."""
    seen = after("triton", "triton-trtllm", {EXECUTED: 60e6})
    assert (seen.waiting, seen.running, seen.slots) == (Known(7.0), Known(15.0), Known(16.0))
    assert seen.kv_usage == Known(0.5)


def test_plain_models_have_neither_a_cache_nor_slots() -> None:
    """A property of the set-up, no gap."""
    seen = read("triton", scraped("triton"))
    assert (seen.kv_usage, seen.slots) == (Missing(Reason.NOT_EXPORTED), Missing(Reason.NOT_EXPORTED))


def test_iterations_of_the_backend_are_motion() -> None:
    """One request generates for minutes; no counter of Triton's own moves meanwhile."""
    scrapes = [scraped("triton-trtllm")]
    for _ in range(6):
        rises = {"nv_trt_llm_general_metrics": 700.0}
        scrapes.append(moved(scrapes[-1], rises, lambda s: s.labels.get("general_type") == "iteration_counter"))
    assert read("triton", *scrapes).still_s == Known(0.0)


def test_the_time_of_the_last_iteration_is_no_motion() -> None:
    """A time stamp goes on by itself."""
    scrapes = [scraped("triton-trtllm")]
    for _ in range(6):
        rises = {"nv_trt_llm_general_metrics": 15.0}
        scrapes.append(moved(scrapes[-1], rises, lambda s: s.labels.get("general_type") == "timestamp"))
    assert read("triton", *scrapes).still_s == Known(90.0)
