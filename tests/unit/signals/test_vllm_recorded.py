"""vLLM's own logger: what it exports in 0.33 is read, and read as what it is."""

from dataclasses import replace

from scaler.adapters.signals.vllm import VLLM
from scaler.core.values import Known
from tests.preset_rig import moved, read, scraped


def test_two_ranks_of_the_named_version() -> None:
    """Work adds up, deferred requests do not wait for capacity, and the fullest cache counts."""
    first = scraped("vllm-recorded")
    seen = read("vllm", first, moved(first, {"vllm:request_success_total": 3.0, "vllm:generation_tokens_total": 30.0}))
    assert (seen.running, seen.waiting, seen.kv_usage) == (Known(78.0), Known(7.0), Known(0.71875))
    assert seen.completions_rps == Known(2 * 5 * 3 / 15)  # two ranks, five reasons
    assert seen.output_tokens_rps == Known(4.0)
    assert seen.rejections_rps == Known(0.0)


def test_many_deferred_requests_hide_nothing_and_add_nothing() -> None:
    """However many wait for a LoRA slot or a KV transfer, 7 wait for capacity."""
    deferred = [replace(s, value=99.0) if s.labels.get("reason") == "deferred" else s for s in scraped("vllm-recorded")]
    assert read("vllm", deferred).waiting == Known(7.0)


def test_a_histogram_named_total_is_no_counter() -> None:
    """`vllm:iteration_tokens_total` has buckets, a sum and a count, none of which is read."""
    assert any(s.name == "vllm:iteration_tokens_total_count" for s in scraped("vllm-recorded"))
    assert not [name for name in VLLM.names() if "iteration_tokens" in name]
