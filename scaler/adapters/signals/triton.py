"""Triton Inference Server's metrics as signals: plain models, and the TensorRT-LLM backend's own gauges (2.51, 24.10).

Plain Triton has no gauge of what runs. Its counters of durations give it by Little's law: the microseconds that
requests spent executing, per second, are how many executed at once on average (over the rate window, of those that
finished in it).

Queue time has no histogram either: it is the mean of the window, from two counters. Where nothing succeeded there is no
mean, whether nothing was asked or everything is stuck; that nobody waits is for the pending count to say.
"""

from scaler.adapters.signals.candidates import Candidate, Combine, Kind, Preset, Signal

_MODEL = ("model", "version")
_MICROSECONDS = 1e6


def _requests(kind: str) -> Candidate:
    """Return a gauge of the TensorRT-LLM backend; with it, requests leave Triton's own queue at once."""
    return Candidate("nv_trt_llm_request_metrics", (("request_type", kind),), kind=Kind.GAUGE)


TRITON = Preset(
    name="triton",
    version="2.51.0 (24.10)",
    owners=(("namespace", "pod"),),
    signals=(
        Signal(
            "running",
            (
                _requests("scheduled"),
                Candidate("nv_inference_compute_infer_duration_us", divisor=_MICROSECONDS, kind=Kind.COUNTER),
            ),
            parts=_MODEL,
        ),
        Signal("waiting", (_requests("waiting"), Candidate("nv_inference_pending_request_count")), parts=_MODEL),
        Signal(
            "kv_usage",
            (Candidate("nv_trt_llm_kv_cache_block_metrics", (("kv_cache_block_type", "fraction"),)),),
            combine=Combine.MAX,
            parts=_MODEL,
            limit=1.0,
            optional=True,
        ),
        Signal(
            "completions_rps",
            # Requests, not `nv_inference_count`, which counts each element of a client's batch.
            (Candidate("nv_inference_request_success"),),
            Kind.COUNTER,
            parts=_MODEL,
            progress=True,
        ),
        Signal(
            "rejections_rps",
            (Candidate("nv_inference_request_failure", (("reason", "REJECTED"),)),),
            Kind.COUNTER,
            parts=_MODEL,
            optional=True,  # older versions count failures without a reason
        ),
        Signal(
            "queue_time_s",
            (
                Candidate(
                    "nv_inference_queue_duration_us",
                    divisor=_MICROSECONDS,
                    per="nv_inference_request_success",
                ),
            ),
            Kind.RATIO,
            parts=_MODEL,
        ),
        Signal("slots", (_requests("max"),), parts=_MODEL, optional=True),
    ),
    # With the TensorRT-LLM backend a request may generate for minutes before any counter of Triton's own moves. A gauge
    # by its type, a count by what it holds.
    motion=(
        Signal(
            "iterations",
            (Candidate("nv_trt_llm_general_metrics", (("general_type", "iteration_counter"),)),),
            Kind.COUNTER,
            parts=_MODEL,
            optional=True,
        ),
    ),
    notes="""\
- What runs is the executing time per second of plain models (microseconds / 1e6); requests that run longer than the
  rate window show only when they end: a source of GPU activity keeps such a server from looking stalled.
- All models of a pod are summed. An ensemble and its steps each count a request, and nothing tells one from the
  other: completions and what runs are then so many times too high, in demand and in learned capacity alike. Set
  `capacityPerReplica` in the same count, or read the entry model alone with a query profile.
- `nv_inference_pending_request_count` is always 0 for an ensemble; its steps show the queue.
- Requests that waited too long count as REJECTED; those refused because the queue is full are counted nowhere.
- With the TensorRT-LLM backend, requests wait inside the backend: the measured queue time is Triton's own, near 0,
  and Little's law over the backend's gauges leads.
- Plain models export no limit of concurrency: configure `slotsPerReplica` as instances x batch size.
- Tokens are not exported as counters: use the unit `requests`.
- Summaries (`nv_inference_queue_summary_us`) are off by default and cannot be added up; they are not read.
""",
)
