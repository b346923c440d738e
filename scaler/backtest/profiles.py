"""What a replica of the simulated fleet can do: an engine on a GPU, with the public numbers that it stands on."""

import math
from dataclasses import dataclass

import numpy as np

from scaler.traces.lengths import AZURE_CONVERSATION, TokenLengths


@dataclass(frozen=True, slots=True)
class LeadTime:
    """From pod creation to Ready: lognormal around a median, `sigma` the deviation of the logarithm; 0 for exactly."""

    median_s: float
    sigma: float = 0.0

    def __post_init__(self) -> None:
        if not self.median_s >= 0:
            raise ValueError(f"median_s must be >= 0, was {self.median_s}")
        if not 0 <= self.sigma <= 2:
            raise ValueError(f"sigma must be 0 .. 2, was {self.sigma}")

    def draw(self, rng: np.random.Generator, count: int) -> list[float]:
        """Draw `count` lead times in seconds."""
        if self.sigma == 0 or self.median_s == 0:
            return [self.median_s] * count
        return [float(value) for value in rng.lognormal(math.log(self.median_s), self.sigma, count)]


@dataclass(frozen=True, slots=True)
class EngineProfile:
    """One replica. A decoding step of `n` sequences takes `step_base_s + n * step_per_sequence_s`.

    Prompts are processed one after another at `prefill_tokens_per_s`, while decoding stands still: that is what a long
    prompt does to a step of a continuously batching engine. `prefill_budget_tokens` is the engine's limit of prompt
    tokens per step: while more than that is ahead, a request waits in the queue.
    """

    name: str
    model_name: str  # the label of the engine's metrics
    slots: int  # max_num_seqs: sequences that decode together
    kv_tokens: int  # tokens that fit into the KV cache
    max_model_len: int  # prompt and output of one request, in tokens
    prefill_tokens_per_s: float
    prefill_budget_tokens: int
    step_base_s: float
    step_per_sequence_s: float
    lengths: TokenLengths
    capacity_rps: float  # requests per second of `lengths` that meet a queue time of 1 s at 0.99
    lead_time: LeadTime
    drain_s: float  # termination grace period: what has not finished by then is cut off
    gpus_per_replica: float = 1.0

    def __post_init__(self) -> None:
        positive = (
            "slots", "kv_tokens", "max_model_len", "prefill_tokens_per_s", "prefill_budget_tokens", "capacity_rps",
            "gpus_per_replica",
        )  # fmt: skip
        for name in positive:
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be > 0, was {getattr(self, name)}")
        for name in ("step_base_s", "step_per_sequence_s", "drain_s"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must be >= 0, was {getattr(self, name)}")
        if not self.step_base_s + self.step_per_sequence_s > 0:
            raise ValueError("step_base_s + step_per_sequence_s must be > 0, was 0")
        if self.max_model_len > self.kv_tokens:
            raise ValueError(f"max_model_len must be <= kv_tokens ({self.kv_tokens}), was {self.max_model_len}")

    @property
    def capacity_prompt_tokens(self) -> float:
        """Return the capacity in prompt tokens per second."""
        return self.capacity_rps * self.lengths.prompt_mean

    @property
    def capacity_output_tokens(self) -> float:
        """Return the capacity in output tokens per second."""
        return self.capacity_rps * self.lengths.output_mean

    def tokens_per_s(self, sequences: int) -> float:
        """Return the tokens that each of `sequences` sequences decodes per second while no prompt is processed."""
        return 1.0 / (self.step_base_s + sequences * self.step_per_sequence_s)

    def throughput_rps(self, sequences: int) -> float:
        """Return the requests of mean length that finish per second with `sequences` always in flight."""
        prefill_s = self.lengths.prompt_mean / self.prefill_tokens_per_s
        decode_s = (self.lengths.output_mean - 1) / (sequences * self.tokens_per_s(sequences))
        return 1.0 / (prefill_s + decode_s)


# An 8B model in bfloat16 on one H100 SXM of 80 GB, behind an engine set to 128 sequences. What each number stands on:
# - KV cache: 32 layers x 8 KV heads x 128 x 2 (K, V) x 2 bytes = 128 KiB per token (model card of Llama 3.1 8B). Of
#   80 GB x 0.9 (vLLM's default gpu_memory_utilization) the weights take 16 GB and activations and graphs about 2 GB;
#   54 GB hold about 412,000 tokens.
# - Decoding reads weights and caches once a step (H100 data sheet: 3.35 TB/s, about 85 % of it reached): 16 GB of
#   weights take 5.6 ms, with launch and sampling 7 ms; a sequence of 1,260 tokens (165 MB) adds 0.06 ms of reading and,
#   at 16 GFLOP a token and with its share of sampling, 0.04 ms.
# - Prompts: 25,000 tokens/s are 16 GFLOP x 25,000 = 400 TFLOP/s, 40 % of the data sheet's 989.
# - Check: 1,000 ShareGPT conversations (230 tokens in, 203 out) sent at once finish at 32.4 requests/s in a published
#   run (vllm-project/vllm#18566); these numbers with 256 sequences and short caches give 1 / (9 ms + 18 ms) = 37.
# - 8,192 prompt tokens a step: vLLM's default max_num_batched_tokens of its server on this GPU.
# - Cold start: published start-ups of 8B models take 82 s with cached image and compilation (tensorfuse, September
#   2025; an L40S), 25-30 s of loading and graphs plus 60 s of imports and initialisation elsewhere; regimes of 60-90 s
#   are usual on a warm node.
# - Capacity: measured on this model with Poisson arrivals of two hours, where 0.99 is crossed (11.0 requests/s: 0.999,
#   11.5: 0.989, 12.0: 0.92); it depends on the traffic's bursts. No mix of these lengths exceeds throughput_rps(128) =
#   12.6 for long.
H100_8B = EngineProfile(
    name="8b-h100",
    model_name="llama-3.1-8b-instruct",
    slots=128,
    kv_tokens=412_000,
    max_model_len=32_768,
    prefill_tokens_per_s=25_000,
    prefill_budget_tokens=8_192,
    step_base_s=0.007,
    step_per_sequence_s=0.0001,
    lengths=AZURE_CONVERSATION,
    capacity_rps=11.5,
    lead_time=LeadTime(median_s=90, sigma=0.2),
    drain_s=120,
)

PROFILES = {H100_8B.name: H100_8B}
