"""SGLang's metrics as signals (0.5.23; they need `--enable-metrics`).

The scheduler's series have the labels of its rank, those of the tokenizer's side have none. Only the first
tensor-parallel rank reports, unless `--enable-metrics-for-all-schedulers` is set: then all of them tell of the same
requests. So neither `tp_rank` nor `pp_rank` is a part, `dp_rank` is.

With priority scheduling a queue's total is under `priority=""` and its breakdown under `priority="<n>"`: the gauges
take the total only. The tokenizer's counters are the other way round: each request counts under its own priority, and
nothing under the empty one, so there all priorities are summed.
"""

from scaler.adapters.signals.candidates import Candidate, Combine, Kind, Preset, Signal
from scaler.config.models import Unit

_RANKS = ("model_name", "dp_rank")
_REQUESTS = ("model_name", "priority", "is_streaming")
_TOTAL = (("priority", ""),)

SGLANG = Preset(
    name="sglang",
    version="0.5.23",
    owners=(("namespace", "pod"),),
    signals=(
        Signal("running", (Candidate("sglang:num_running_reqs", _TOTAL),), parts=_RANKS),
        Signal("waiting", (Candidate("sglang:num_queue_reqs", _TOTAL),), parts=_RANKS),
        # 0..1, rounded to two decimals; the fullest rank is the first to make requests wait, as with vLLM.
        Signal("kv_usage", (Candidate("sglang:token_usage", _TOTAL),), combine=Combine.MAX, parts=_RANKS, limit=1.0),
        Signal(
            "completions_rps",
            # Each finished request is observed in the histogram too; its count stands in for the counter.
            (Candidate("sglang:num_requests_total"), Candidate("sglang:e2e_request_latency_seconds_count")),
            Kind.COUNTER,
            parts=_REQUESTS,
            progress=True,
        ),
        Signal(
            "prompt_tokens_rps",
            (Candidate("sglang:prompt_tokens_total"),),
            Kind.COUNTER,
            parts=_REQUESTS,
            unit=Unit.PROMPT_TOKENS,
        ),
        Signal(
            "output_tokens_rps",
            (Candidate("sglang:generation_tokens_total"),),
            Kind.COUNTER,
            parts=_REQUESTS,
            unit=Unit.OUTPUT_TOKENS,
        ),
        # A retracted request gives up its cache and waits again: what vLLM calls a preemption.
        Signal("preemptions_rps", (Candidate("sglang:num_retracted_requests_total"),), Kind.COUNTER, parts=_RANKS),
        Signal(
            "queue_time_s",
            (Candidate("sglang:queue_time_seconds_bucket"),),
            Kind.HISTOGRAM,
            parts=(*_RANKS, "le"),
            rare=True,
        ),
    ),
    # The tokens of a request are counted when it ends; these move with every forward pass.
    motion=(
        Signal("realtime_tokens", (Candidate("sglang:realtime_tokens_total"),), Kind.COUNTER, parts=(*_RANKS, "mode")),
    ),
    notes="""\
- No limit of concurrency is exported (`max_running_requests_under_SLO` is never set): configure `slotsPerReplica` as
  `--max-running-requests`.
- `sglang:utilization` is never read: it is stuck at 0, and -1 on a prefill server (sglang#22713).
- `sglang:fwd_occupancy` is 0-100 and NaN until its first window; it is not read.
- Refused requests (`--max-queued-requests`) have no counter of their own; rejections are not known.
- Queue time is observed at the first forward pass: it leads, where vLLM's comes at the end of a request.
""",
)
