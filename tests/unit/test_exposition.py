"""The fleet's metrics as text: genuine names, and the quick rendering equal to the library's own."""

from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from scaler.adapters.signals.dcgm import DCGM
from scaler.adapters.signals.vllm import VLLM
from scaler.backtest.pods import PodMetrics
from scaler.backtest.profiles import H100_8B
from scaler.demo.exposition import GpuReading, VllmText, _Families, dcgm_text, vllm_families
from tests.plant_builders import STEADY, T0, plant, requests_at


def busy_pod() -> PodMetrics:
    fleet = plant(requests_at(*range(20)), profile=STEADY)
    fleet.advance(T0 + 33.3)
    return fleet.pods()["chat-0"]


@pytest.mark.parametrize("metrics", [busy_pod(), replace(busy_pod(), kv_usage=1e-7, generation_tokens=10**12)])
def test_the_quick_text_is_the_librarys(metrics: PodMetrics) -> None:
    """Filling in the numbers gives byte by byte what prometheus_client renders, for small and large numbers."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(list(vllm_families(metrics, H100_8B))))
    assert VllmText(H100_8B).render(metrics) == generate_latest(registry)


def test_values_are_where_they_belong() -> None:
    """Parsed again, the text says what the engine says."""
    metrics = busy_pod()
    text = VllmText(H100_8B).render(metrics).decode()
    samples = {
        (
            sample.name,
            sample.labels.get("le"),
            sample.labels.get("reason"),
            sample.labels.get("finished_reason"),
        ): sample
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    plain = {key[0]: sample.value for key, sample in samples.items() if key[1:] == (None, None, None)}
    assert plain["vllm:num_requests_running"] == metrics.running == 4
    assert plain["vllm:num_requests_waiting"] == metrics.waiting == 4
    assert plain["vllm:kv_cache_usage_perc"] == pytest.approx(metrics.kv_usage)
    assert plain["vllm:prompt_tokens_total"] == metrics.prompt_tokens == 160
    assert plain["vllm:generation_tokens_total"] == metrics.generation_tokens
    assert plain["vllm:num_preemptions_total"] == 0
    assert samples["vllm:request_success_total", None, None, "stop"].value == metrics.success == 12
    assert samples["vllm:num_requests_waiting_by_reason", None, "capacity", None].value == metrics.waiting
    assert samples["vllm:request_queue_time_seconds_bucket", "+Inf", None, None].value == metrics.success
    assert plain["vllm:request_queue_time_seconds_sum"] == pytest.approx(metrics.queue_time.total)
    assert all(
        sample.labels["model_name"] == H100_8B.model_name and sample.labels["engine"] == "0"
        for key, sample in samples.items()
        if key[0] != "vllm:cache_config_info"
    )


def test_headways_preset_finds_every_signal() -> None:
    """Each signal that Headway reads from vLLM, but the optional ones, is there under its first name."""
    names = {
        sample.name
        for family in text_string_to_metric_families(VllmText(H100_8B).render(busy_pod()).decode())
        for sample in family.samples
    }
    for signal in VLLM.signals:
        assert signal.optional or signal.candidates[0].name in names


def test_gpu_text() -> None:
    """The GPUs show as dcgm-exporter shows them: one series per pod, with the pod's name and namespace."""
    text = dcgm_text([GpuReading("demo", "chat-0", 0.25), GpuReading("demo", "chat-1", 0.0)]).decode()
    (family,) = text_string_to_metric_families(text)
    assert family.name == DCGM.signals[0].candidates[0].name
    assert [(s.labels["namespace"], s.labels["pod"], s.value) for s in family.samples] == [
        ("demo", "chat-0", 0.25),
        ("demo", "chat-1", 0.0),
    ]
    assert len({s.labels["UUID"] for s in family.samples}) == 2
