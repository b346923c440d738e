"""SGLang: its own collectors' output, with and without priorities and with every rank reporting."""

import math

import pytest

from scaler.adapters.signals.sglang import SGLANG
from scaler.core.values import Known, Missing, Reason
from tests.preset_rig import after, moved, read, scraped


@pytest.mark.parametrize("fixture", ["sglang", "sglang-priority"])
def test_totals_count_once_with_and_without_priorities(fixture: str) -> None:
    """12 run and 5 wait; under priorities 9 + 3 and 4 + 1 of them are told again, which is no more work."""
    seen = read("sglang", scraped(fixture))
    assert (seen.running, seen.waiting) == (Known(12.0), Known(5.0))
    assert seen.kv_usage == Known(0.43)


def test_a_breakdown_is_no_total() -> None:
    """Where only priorities are told, the largest of them is not what waits."""
    parts = [s for s in scraped("sglang-priority") if s.labels.get("priority") != ""]
    seen = read("sglang", parts)
    assert (seen.running, seen.waiting) == (Missing(Reason.NO_SERIES), Missing(Reason.NO_SERIES))


@pytest.mark.parametrize(("fixture", "series"), [("sglang", 2), ("sglang-priority", 4)])
def test_finished_requests_of_all_priorities_add_up(fixture: str, series: int) -> None:
    """Unlike the queues, a request counts under its own priority only: the empty one would count nothing."""
    rises = {
        "sglang:num_requests_total": 3.0,
        "sglang:prompt_tokens_total": 30.0,
        "sglang:generation_tokens_total": 60.0,
    }
    seen = after("sglang", fixture, rises)
    assert seen.completions_rps == Known(series * 3 / 15)
    assert seen.prompt_tokens_rps == Known(series * 30 / 15)
    assert seen.output_tokens_rps == Known(series * 60 / 15)


def test_tensor_parallel_ranks_tell_of_the_same_requests() -> None:
    """Rank 1 is told by two tensor-parallel ranks, and counts once; the data-parallel ranks add up."""
    seen = read("sglang", scraped("sglang-dp"))
    assert (seen.running, seen.waiting) == (Known(20.0), Known(6.0))
    assert seen.kv_usage == Known(0.71)
    assert after("sglang", "sglang-dp", {"sglang:num_retracted_requests_total": 3.0}).preemptions_rps == Known(
        2 * 3 / 15
    )


def test_a_missing_counter_of_requests_is_made_up_for_by_a_histogram_s_count() -> None:
    """Every finished request is observed there too."""
    first = [s for s in scraped("sglang") if s.name != "sglang:num_requests_total"]
    seen = read("sglang", first, moved(first, {"sglang:e2e_request_latency_seconds_count": 6.0}))
    assert seen.completions_rps == Known(2 * 6 / 15)


def test_queue_time_is_in_seconds() -> None:
    """All that was observed between two scrapes lies between 0.3 and 0.5 s."""
    first = scraped("sglang")
    second = moved(first, {"sglang:queue_time_seconds_bucket": 8.0}, lambda s: float(s.labels.get("le", 0)) > 0.3)
    seen = read("sglang", first, second).queue_time_s
    assert isinstance(seen, Known)
    assert 0.3 <= seen.value <= 0.5


def test_utilisation_and_occupancy_are_never_read() -> None:
    """One is stuck at 0 (sglang#22713), the other NaN until its first window."""
    first = scraped("sglang")
    assert {s.name: s.value for s in first}["sglang:utilization"] == 0.0
    assert any(s.name == "sglang:fwd_occupancy" and math.isnan(s.value) for s in first)
    assert not {"sglang:utilization", "sglang:fwd_occupancy"} & set(SGLANG.names())


def test_one_long_generation_is_motion() -> None:
    """No request ends for minutes, and tokens are counted at the end: the forward passes tell that it works."""
    first = scraped("sglang")
    still, working = [first], [first]
    for _ in range(6):
        still.append(moved(still[-1], {"sglang:scheduler_idle_seconds_total": 15.0}))
        working.append(moved(working[-1], {"sglang:realtime_tokens_total": 400.0}))
    assert read("sglang", *working).still_s == Known(0.0)
    assert read("sglang", *still).still_s == Known(90.0)


def test_an_idle_engine_has_no_queue_time_and_a_known_queue() -> None:
    """Nothing was observed: there is no quantile, and it is not 0."""
    seen = after("sglang", "sglang", {})
    assert seen.queue_time_s == Missing(Reason.NO_COMPLETIONS)
    assert seen.completions_rps == Known(0.0)
    assert seen.slots == Missing(Reason.NOT_EXPORTED)
