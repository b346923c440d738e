"""TensorRT-LLM's own server (`trtllm-serve`) as signals.

Its Prometheus text is served at `/prometheus/metrics`; `/metrics` is JSON of the last iterations, which is no
exposition. Per-request metrics need `return_perf_metrics: true`, those of an iteration `enable_iter_perf_stats: true`.
"""

from scaler.adapters.signals.candidates import Candidate, Combine, Kind, Preset, Signal
from scaler.config.models import Unit

_ENGINE = ("model_name", "engine_type")


def _counter(field: str, *names: str, labels: tuple[str, ...] = (), unit: Unit | None = None) -> Signal:
    candidates = tuple(Candidate(f"trtllm_{name}") for name in names)
    return Signal(
        field, candidates, Kind.COUNTER, parts=(*_ENGINE, *labels), progress=field == "completions_rps", unit=unit
    )


TRTLLM = Preset(
    name="trtllm",
    path="/prometheus/metrics",  # /metrics is JSON
    version="main of 2026 (050f80d)",
    owners=(("namespace", "pod"),),
    signals=(
        Signal("running", (Candidate("trtllm_num_requests_running"),), parts=_ENGINE),
        Signal("waiting", (Candidate("trtllm_num_requests_waiting"),), parts=_ENGINE),
        Signal(
            "kv_usage",
            (Candidate("trtllm_kv_cache_utilization"),),  # 0..1
            combine=Combine.MAX,
            parts=_ENGINE,
            limit=1.0,
        ),
        _counter(
            "completions_rps",
            "request_success_total",
            "num_requests_completed_total",
            "e2e_request_latency_seconds_count",
            labels=("finished_reason",),
        ),
        _counter("prompt_tokens_rps", "prompt_tokens_total", unit=Unit.PROMPT_TOKENS),
        _counter("output_tokens_rps", "generation_tokens_total", unit=Unit.OUTPUT_TOKENS),
        Signal(
            "queue_time_s",
            (Candidate("trtllm_request_queue_time_seconds_bucket"),),
            Kind.HISTOGRAM,
            parts=(*_ENGINE, "le"),
            rare=True,
        ),
        Signal("slots", (Candidate("trtllm_max_num_active_requests"),), parts=_ENGINE, optional=True),
    ),
    # Requests and their tokens are counted when a request ends; cache blocks are taken while it generates.
    motion=(
        Signal(
            "generation_blocks",
            (Candidate("trtllm_kv_cache_gen_alloc_blocks_total"),),
            Kind.COUNTER,
            parts=_ENGINE,
            optional=True,
        ),
    ),
    notes="""\
- Scrape `/prometheus/metrics`: `/metrics` is JSON.
- `trtllm_num_requests_running` counts active requests, paused ones included.
- Preemptions are not exported (`trtllm_num_paused_requests` is a level, no count); a full cache is corroborated by
  what waits.
- `trtllm_request_error_total` counts all errors by HTTP code; none of them means a full queue alone, so rejections
  are not known.
""",
)
