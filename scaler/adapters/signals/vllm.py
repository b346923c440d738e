"""vLLM's metrics as signals: the names of 0.33, older ones, and the spelling under Ray.

A data-parallel pod has one series per engine core (label `engine`), a Ray pod one per `ReplicaId`; a pod is one
replica, so its parts are combined here. Work in flight and counters are summed. KV usage takes the fullest part: a
request is bound to one engine core, so the fullest one is the first to make requests wait, and a mean would hide it
(GIE#2950, kthena#1782).
"""

from scaler.adapters.signals.candidates import Candidate, Combine, Kind, Preset, Signal
from scaler.config.models import Unit

_RANKS = ("engine", "ReplicaId", "model_name")


def _names(*names: str, where: tuple[tuple[str, str], ...] = ()) -> tuple[Candidate, ...]:
    """Return the candidates of bare names, each as vLLM and as Ray spell it (Ray: ':' is '_', prefix `ray_`)."""
    return tuple(Candidate(f"{prefix}{name}", where) for name in names for prefix in ("vllm:", "ray_vllm_"))


def _counter(
    field: str, name: str, *labels: str, optional: bool = False, progress: bool = False, unit: Unit | None = None
) -> Signal:
    return Signal(
        field,
        # Ray's exporter has spelt counters with and without `_total` over its versions.
        (*_names(f"{name}_total"), Candidate(f"ray_vllm_{name}")),
        Kind.COUNTER,
        parts=(*_RANKS, *labels),
        optional=optional,
        progress=progress,
        unit=unit,
    )


VLLM = Preset(
    name="vllm",
    version="0.33.0",
    # Never `exported_pod`: that is what a pod says of itself.
    owners=(("namespace", "pod"),),
    signals=(
        Signal("running", _names("num_requests_running"), parts=_RANKS),
        Signal(
            "waiting",
            # Deferred requests wait for a LoRA slot or a KV transfer; more replicas would not help them.
            (
                *_names("num_requests_waiting_by_reason", where=(("reason", "capacity"),)),
                *_names("num_requests_waiting"),
            ),
            parts=_RANKS,
        ),
        Signal(
            "kv_usage",
            # 0..1 despite `perc`; a value above 1 is an error and is not taken for a percentage.
            _names("kv_cache_usage_perc", "gpu_cache_usage_perc"),
            combine=Combine.MAX,
            parts=_RANKS,
            limit=1.0,
        ),
        _counter("completions_rps", "request_success", "finished_reason", progress=True),
        # The prompt is counted at its first token of output, so its count tells no motion that the other does not.
        _counter("prompt_tokens_rps", "prompt_tokens", unit=Unit.PROMPT_TOKENS),
        _counter("output_tokens_rps", "generation_tokens", progress=True),
        _counter("preemptions_rps", "num_preemptions"),
        # Only with a queue limit set, only in newer versions, and without an engine label.
        _counter("rejections_rps", "admission_rejections", "reason", optional=True),
        Signal(
            "queue_time_s",
            _names("request_queue_time_seconds_bucket"),
            Kind.HISTOGRAM,
            parts=(*_RANKS, "le"),
            rare=True,
        ),
    ),
    notes="""\
- No limit of concurrency is exported (`max_num_seqs`; `kv_cache_max_concurrency` assumes that every request is of the
  largest length): configure `slotsPerReplica` as `--max-num-seqs`.
- Queue time is observed when a request ends, and no bucket is below 0.3 s: Little's law leads.
- Gauges are renewed by engine steps; after a mass abort they stand still (vllm#29928), which `frozen` catches.
- `vllm:iteration_tokens_total` is a histogram; it is not read.
- Rejections exist only with `--max-num-queued-reqs` or `--max-num-queued-tokens`.
""",
)
