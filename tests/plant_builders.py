"""Builders for traces, arrivals and plants. Numbers are round, so that an expected time can be done in the head."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from scaler.backtest.plant import Plant
from scaler.backtest.profiles import EngineProfile, LeadTime
from scaler.traces.arrivals import Arrivals
from scaler.traces.lengths import TokenLengths
from scaler.traces.model import CountTrace

T0 = 1_000_000.0

FIXED_LENGTHS = TokenLengths(prompt_mean=10, prompt_sigma=0, output_mean=11, output_sigma=0)

# A prompt of 10 tokens takes 1 s, a step of n sequences n s: two sequences share the engine exactly.
ROUND = EngineProfile(
    name="round",
    model_name="toy",
    slots=4,
    kv_tokens=1000,
    max_model_len=500,
    prefill_tokens_per_s=10,
    prefill_budget_tokens=1000,
    step_base_s=0.0,
    step_per_sequence_s=1.0,
    lengths=FIXED_LENGTHS,
    capacity_rps=0.1,
    lead_time=LeadTime(30.0),
    drain_s=1000.0,
)

# Prompts take less time than a stamp resolves; a sequence decodes at one token a second, whatever the batch.
STEADY = replace(ROUND, prefill_tokens_per_s=1e15, step_base_s=1.0, step_per_sequence_s=0.0)


def count_trace(
    requests: Sequence[float], *, step_s: float = 10.0, start_s: float = T0, **more: Sequence[float]
) -> CountTrace:
    """Return a trace with these counts; NaN is a missing bin."""
    columns: Mapping[str, Sequence[float]] = {"requests": requests, **more}
    return CountTrace("made", start_s, step_s, {name: np.asarray(v, dtype=float) for name, v in columns.items()})


def requests_at(
    *after_s: float, prompt: int | Sequence[int] = 10, output: int | Sequence[int] = 11, end_s: float = 10_000.0
) -> Arrivals:
    """Return requests that arrive so many seconds after T0."""
    count = len(after_s)
    return Arrivals(
        at_s=T0 + np.asarray(after_s, dtype=float),
        prompt_tokens=np.broadcast_to(np.asarray(prompt, dtype=np.int64), count).copy(),
        output_tokens=np.broadcast_to(np.asarray(output, dtype=np.int64), count).copy(),
        start_s=T0,
        end_s=T0 + end_s,
    )


def plant(arrivals: Arrivals, replicas: int = 1, profile: EngineProfile = ROUND, *, seed: int = 1) -> Plant:
    """Return a plant at T0 with replicas that are Ready."""
    return Plant(profile, arrivals, seed, replicas, T0)
