"""NVIDIA NIM for LLMs as signals, from `/v1/metrics`: 1.x without any prefix, 2.x with vLLM's names.

2.x is built on vLLM. Which spelling a given image exports is not documented, and some export vLLM's names beside a bare
`num_request_max`; so each signal is probed under both, pod by pod. A bare `num_requests_running` could be any
program's: it counts only with the label `model_name`, and only from the workload's own pods.
"""

from dataclasses import replace

from scaler.adapters.signals.candidates import Candidate, Kind, Preset, Signal
from scaler.adapters.signals.vllm import VLLM

_RANKS = ("engine", "model_name")
_BARE = {
    "running": ("num_requests_running",),
    "waiting": ("num_requests_waiting",),
    "kv_usage": ("gpu_cache_usage_perc",),  # 0..1
    "completions_rps": ("request_success_total", "request_finish_total", "e2e_request_latency_seconds_count"),
    "prompt_tokens_rps": ("prompt_tokens_total",),
    "output_tokens_rps": ("generation_tokens_total",),
    "preemptions_rps": ("num_preemptions_total",),
    "queue_time_s": ("request_queue_time_seconds_bucket",),
}
_OPTIONAL = frozenset({"preemptions_rps", "queue_time_s"})  # 1.x does not export them


def _bare(*names: str) -> tuple[Candidate, ...]:
    return tuple(Candidate(name, having=("model_name",)) for name in names)


def _probed(signal: Signal) -> Signal:
    """Return one of vLLM's signals, probed under its own name and under the one without a prefix."""
    of_vllm = tuple(c for c in signal.candidates if c.name.startswith("vllm:"))
    return replace(
        signal,
        candidates=(*of_vllm, *_bare(*_BARE.get(signal.field, ()))),
        parts=(*_RANKS, *(label for label in signal.parts if label not in {"engine", "ReplicaId", "model_name"})),
        optional=signal.optional or signal.field in _OPTIONAL,
    )


NIM = Preset(
    name="nim",
    path="/v1/metrics",
    version="1.x, 2.1.6",
    owners=(("namespace", "pod"),),
    signals=(
        *(_probed(signal) for signal in VLLM.signals),
        Signal("slots", _bare("num_request_max"), Kind.GAUGE, parts=_RANKS, optional=True),
    ),
    notes="""\
- Scrape `/v1/metrics` on the port of the API.
- 1.x exports no queue time, no preemptions and no rejections: Little's law leads, and a full cache is corroborated by
  what waits.
- `num_request_max` is what the engine lets run at once, so `slotsPerReplica` need not be set.
- The names of 2.x could not be confirmed from NVIDIA's documentation; both spellings are probed.
""",
)
