"""The simulated fleet's metrics as text: what vLLM 0.33 and dcgm-exporter expose, name by name.

prometheus_client writes the text once, with the labels that all pods share; a scrape then only fills in the numbers. A
fleet of twenty pods that is scraped ten times a second would otherwise spend most of a core on rendering.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from scaler.backtest.histogram import LATENCY_BUCKETS, TTFT_BUCKETS, HistogramReading
from scaler.backtest.pods import PodMetrics
from scaler.backtest.profiles import EngineProfile

BLOCK_SIZE = 16  # tokens per KV block; vLLM's default

_LABELS = ("model_name", "engine")
_REASONS = ("capacity", "deferred")
_FINISHED = ("stop", "length", "abort", "error", "repetition")


class VllmText:
    """Renders one pod's `/metrics`."""

    def __init__(self, profile: EngineProfile) -> None:
        blank = PodMetrics(
            "", 0, 0, 0.0, 0, 0, 0, 0, _blank(LATENCY_BUCKETS), _blank(TTFT_BUCKETS), _blank(LATENCY_BUCKETS), 0.0
        )
        lines = _text(vllm_families(blank, profile)).splitlines(keepends=False)
        # Every line that is not a comment ends in its value, which is the only part that a scrape changes.
        filled = (line if line.startswith("#") else line.rpartition(" ")[0] + " %s" for line in lines)
        self._template = "\n".join(filled) + "\n"

    def render(self, metrics: PodMetrics) -> bytes:
        """Return the exposition of one pod."""
        return (self._template % tuple(map(floatToGoString, _vllm_values(metrics)))).encode()


def vllm_families(metrics: PodMetrics, profile: EngineProfile) -> Iterator[Metric]:
    """Yield the metric families of one pod, in order."""
    labels = (profile.model_name, "0")  # one engine core per pod
    yield _gauge("num_requests_running", "Number of requests in model execution batches.", labels, metrics.running)
    yield _gauge("num_requests_waiting", "Number of requests waiting to be processed.", labels, metrics.waiting)
    by_reason = GaugeMetricFamily(
        "vllm:num_requests_waiting_by_reason", "Number of waiting requests by reason.", labels=(*_LABELS, "reason")
    )
    for reason, value in zip(_REASONS, (metrics.waiting, 0), strict=True):
        by_reason.add_metric((*labels, reason), value)
    yield by_reason
    yield _gauge("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", labels, metrics.kv_usage)
    yield _counter("num_preemptions", "Cumulative number of preemption from the engine.", labels, metrics.preemptions)
    yield _counter("prompt_tokens", "Number of prefill tokens processed.", labels, metrics.prompt_tokens)
    yield _counter("generation_tokens", "Number of generation tokens processed.", labels, metrics.generation_tokens)
    success = CounterMetricFamily(
        "vllm:request_success", "Count of successfully processed requests.", labels=(*_LABELS, "finished_reason")
    )
    for reason in _FINISHED:
        success.add_metric((*labels, reason), metrics.success if reason == "stop" else 0)
    yield success
    yield _histogram(
        "time_to_first_token_seconds", "Histogram of time to first token in seconds.", labels, metrics.ttft
    )
    yield _histogram("e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", labels, metrics.e2e)
    queue_time = "Histogram of time spent in WAITING phase for request."
    yield _histogram("request_queue_time_seconds", queue_time, labels, metrics.queue_time)
    yield _cache_config(profile)


def _vllm_values(metrics: PodMetrics) -> Iterator[float]:
    """Yield the values of `vllm_families` in the order of its samples."""
    yield from (float(metrics.running), float(metrics.waiting), float(metrics.waiting), 0.0, float(metrics.kv_usage))
    yield from (float(metrics.preemptions), float(metrics.prompt_tokens), float(metrics.generation_tokens))
    yield from (float(metrics.success) if reason == "stop" else 0.0 for reason in _FINISHED)
    for histogram in (metrics.ttft, metrics.e2e, metrics.queue_time):
        yield from map(float, histogram.counts)
        yield float(histogram.counts[-1])
        yield float(histogram.total)
    yield 1.0


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One pod's GPU: the share of the last interval in which it had work, 0..1."""

    namespace: str
    pod: str
    activity: float


def dcgm_text(readings: Iterable[GpuReading]) -> bytes:
    """Return what dcgm-exporter exposes with `--kubernetes`: one GPU per pod."""
    names = ("gpu", "UUID", "pci_bus_id", "device", "modelName", "Hostname", "container", "namespace", "pod")
    family = GaugeMetricFamily(
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "Ratio of time the graphics engine is active.", labels=names
    )
    for number, reading in enumerate(readings):
        node, gpu = divmod(number, 8)
        family.add_metric(
            (
                str(gpu), f"GPU-{number:08x}-0000-0000-0000-000000000000", f"00000000:{gpu + 1:02X}:00.0",
                f"nvidia{gpu}", "NVIDIA H100 80GB HBM3", f"gpu-node-{node}", "vllm", reading.namespace, reading.pod,
            ),
            reading.activity,
        )  # fmt: skip
    return _text([family]).encode()


def _gauge(name: str, doc: str, labels: tuple[str, ...], value: float) -> Metric:
    family = GaugeMetricFamily(f"vllm:{name}", doc, labels=_LABELS)
    family.add_metric(labels, value)
    return family


def _counter(name: str, doc: str, labels: tuple[str, ...], value: float) -> Metric:
    family = CounterMetricFamily(f"vllm:{name}", doc, labels=_LABELS)
    family.add_metric(labels, value)
    return family


def _histogram(name: str, doc: str, labels: tuple[str, ...], reading: HistogramReading) -> Metric:
    family = HistogramMetricFamily(f"vllm:{name}", doc, labels=_LABELS)
    bounds = (*(repr(bound) for bound in reading.bounds), "+Inf")
    family.add_metric(labels, list(zip(bounds, reading.counts, strict=True)), reading.total)
    return family


def _cache_config(profile: EngineProfile) -> Metric:
    facts: Mapping[str, str] = {
        "block_size": str(BLOCK_SIZE),
        "engine": "0",
        "gpu_memory_utilization": "0.9",
        "kv_cache_max_concurrency": f"{profile.kv_tokens / profile.max_model_len:.2f}",
        "kv_cache_size_tokens": str(profile.kv_tokens),
        "num_gpu_blocks": str(profile.kv_tokens // BLOCK_SIZE),
    }
    doc = "Information of the LLMEngine CacheConfig"
    family = GaugeMetricFamily("vllm:cache_config_info", doc, labels=tuple(facts))
    family.add_metric(tuple(facts.values()), 1)
    return family


def _blank(bounds: tuple[float, ...]) -> HistogramReading:
    return HistogramReading(bounds, (0,) * (len(bounds) + 1), 0.0)


class _Families(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _text(families: Iterable[Metric]) -> str:
    # describe would collect, and so use up, the families
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(list(families)))
    return generate_latest(registry).decode()
