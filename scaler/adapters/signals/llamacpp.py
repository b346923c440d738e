"""llama.cpp's server as signals (it needs `--metrics`).

No series has a label: the target says whose they are. There are no histograms, no count of finished requests, and since
llama.cpp#13660 no gauge of the KV cache: `llamacpp:kv_cache_usage_ratio` is gone, and whoever scales on it never scales
(LLMKube#1373).
"""

from scaler.adapters.signals.candidates import Candidate, Kind, Preset, Signal
from scaler.config.models import Unit

LLAMACPP = Preset(
    name="llamacpp",
    version="main of 2026",
    owners=(("namespace", "pod"),),
    signals=(
        Signal("running", (Candidate("llamacpp:requests_processing"),)),
        Signal("waiting", (Candidate("llamacpp:requests_deferred"),)),
        Signal(
            "prompt_tokens_rps", (Candidate("llamacpp:prompt_tokens_total"),), Kind.COUNTER, unit=Unit.PROMPT_TOKENS
        ),
        Signal(
            "output_tokens_rps", (Candidate("llamacpp:tokens_predicted_total"),), Kind.COUNTER, unit=Unit.OUTPUT_TOKENS
        ),
    ),
    # Tokens are counted when a request ends, calls of the decoder while it runs.
    motion=(Signal("decodes", (Candidate("llamacpp:n_decode_total"),), Kind.COUNTER),),
    notes="""\
- Finished requests are not counted, so demand and queue time cannot be told from the engine: set `slotsPerReplica` as
  `--parallel`, and a gateway as `source` where demand is to lead.
- KV usage is not exported (the gauges were removed in llama.cpp#13660); `kv_cache_usage_ratio` is never read.
- `llamacpp:n_busy_slots_per_decode` and `n_tokens_max` call themselves counters and are a mean and a maximum; they
  are not read.
- A router needs `?model=` in the scrape's parameters.
""",
)
