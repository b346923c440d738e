"""Hugging Face's Text Generation Inference as signals (3.3; the project is in maintenance mode).

Its names carry no suffixes: counters have no `_total`, and a histogram of seconds has no `_seconds`. There is no label
for the model; one server serves one.
"""

from scaler.adapters.signals.candidates import Candidate, Kind, Preset, Signal
from scaler.config.models import Unit

TGI = Preset(
    name="tgi",
    version="3.3",
    owners=(("namespace", "pod"),),
    signals=(
        Signal("running", (Candidate("tgi_batch_current_size"),)),
        Signal("waiting", (Candidate("tgi_queue_size"),)),
        Signal(
            "completions_rps",
            (Candidate("tgi_request_success"), Candidate("tgi_request_duration_count")),
            Kind.COUNTER,
            progress=True,
            parts=("method",),
        ),
        # Histograms of tokens per request: their sums are counters of tokens.
        Signal(
            "prompt_tokens_rps", (Candidate("tgi_request_input_length_sum"),), Kind.COUNTER, unit=Unit.PROMPT_TOKENS
        ),
        Signal(
            "output_tokens_rps", (Candidate("tgi_request_generated_tokens_sum"),), Kind.COUNTER, unit=Unit.OUTPUT_TOKENS
        ),
        Signal(
            "rejections_rps",
            (Candidate("tgi_request_failure", (("err", "overloaded"),)),),
            Kind.COUNTER,
            optional=True,  # a counter that has never counted has no series
        ),
        Signal(
            "queue_time_s",
            (Candidate("tgi_request_queue_duration_bucket"),),
            Kind.HISTOGRAM,
            parts=("le",),
            rare=True,
        ),
    ),
    # Everything of a request is counted when it ends; this counts each step of its batch.
    motion=(
        Signal("batches", (Candidate("tgi_batch_inference_count"),), Kind.COUNTER, parts=("method",), optional=True),
    ),
    notes="""\
- KV usage and preemptions are not exported: `tgi_batch_current_max_tokens` has no total beside it.
- No limit of concurrency is exported (`--max-concurrent-requests` refuses, it does not run): configure
  `slotsPerReplica`.
- Requests above `--max-concurrent-requests` are refused at once and count as `overloaded`.
- Counters and gauges have no series until they were first set: a server that has served nothing since its start
  exports neither its batch nor its queue, and counts as silent, not as idle.
""",
)
