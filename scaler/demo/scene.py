"""What a demo plays: the traffic, its scale, and the configuration that Headway's processes are given."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from importlib import resources
from pathlib import Path
from typing import Any, Final

import numpy as np
import yaml

from scaler.adapters.clock import ScaledClock
from scaler.backtest.profiles import H100_8B, EngineProfile
from scaler.config.durations import format_duration
from scaler.config.models import DecisionSettings
from scaler.hpa import HEADWAY_BEHAVIOUR, HpaSpec, KedaSpec
from scaler.traces.arrivals import Arrivals, draw_arrivals
from scaler.traces.model import CountTrace, Trace
from scaler.traces.read import read_trace, trace_name
from scaler.traces.surges import BIN_S, surge_starts

PROFILE: Final = H100_8B
LONGEST_CONTEXT: Final = 131_072  # tokens that the profile's model can be set to; traces with long requests need it
NAMESPACE: Final = "demo"
NAME: Final = "chat"
BUNDLED: Final = "azure_llm_2024_code.csv.gz"
BUNDLED_START_S: Final = 14 * 3600.0  # from 14:00 UTC on: the part of the day with the most surges
BUNDLED_FROM: Final = (
    "Azure LLM inference trace 2024, Microsoft (Azure/AzurePublicDataset), CC-BY-4.0; Stojkovic et al., "
    "DynamoLLM, HPCA 2025; 10-s counts from cybsbbb/LLM_energy_optimization_rl (Apache-2.0). Changes: one day, stamps "
    "moved to the starts of the bins, counts scaled, arrivals and token lengths drawn."
)

PEAK_REPLICAS: Final = 8  # the traffic is scaled so that its peak needs about so many
MIN_REPLICAS: Final = 2
MAX_REPLICAS: Final = 16
TARGET: Final = 0.85  # of the capacity: the default utilisation target
SLO_S: Final = 1.0
OBJECTIVE: Final = 0.99
TICK_S: Final = 15.0
CONTROL_DELAYS_S: Final = DecisionSettings().control_delays_s
_Floats = np.ndarray[Any, np.dtype[np.float64]]
_PLAUSIBLE_S: Final = 800_000_000.0  # 1995, before the oldest public trace
LEAD_TIME_S: Final = 120.0  # P90 of the profile's cold starts, rounded up


@dataclass(frozen=True, slots=True)
class Traffic:
    """Arrivals to play, with what a reader needs to know of them."""

    name: str
    attribution: str
    arrivals: Arrivals
    profile: EngineProfile  # set up for these requests: its capacity, its longest context
    has_lengths: bool  # of the trace; otherwise they are drawn
    scale: float  # times the recorded requests
    first_replicas: int  # what the first minute needs
    surges: int | None  # None: not to be told from this trace


def traffic_of(trace: Path | None, simulated_s: float, seed: int) -> Traffic:
    """Read the trace and draw the arrivals of its first `simulated_s` seconds; None is an afternoon of the bundled one.

    TraceError for a file that cannot be used, ValueError for one without traffic.
    """
    path = trace or Path(str(resources.files("scaler.demo") / "data" / BUNDLED))
    whole = read_trace(path)
    start_s = _start_of(whole) + (0.0 if trace else BUNDLED_START_S)
    _check_length(whole, simulated_s)
    recorded = whole.window(start_s, simulated_s)
    has_lengths = _has_lengths(whole)
    once = draw_arrivals(recorded, np.random.default_rng(seed), PROFILE.lengths)
    if not once.count:
        raise ValueError("the trace has no requests in the part to play")
    scale = PEAK_REPLICAS / _peak(_needed(once, has_lengths=has_lengths))
    arrivals = _on_unix_time(draw_arrivals(recorded, np.random.default_rng(seed), PROFILE.lengths, scale=scale))
    profile = _profile_for(arrivals) if has_lengths else PROFILE  # of these: a small trace alone has no steady mean
    first = _needed(arrivals, has_lengths=has_lengths)[0]
    return Traffic(
        name=trace_name(path),
        attribution=BUNDLED_FROM if trace is None else f"{path.name}, as given",
        arrivals=arrivals,
        profile=profile,
        has_lengths=has_lengths,
        scale=scale,
        first_replicas=int(np.clip(np.ceil(first), MIN_REPLICAS, MAX_REPLICAS)),
        surges=_surges(whole, start_s, simulated_s),
    )


def _check_length(trace: Trace, simulated_s: float) -> None:
    """Raise ValueError for a part that is too short to have traffic, in terms of what a person can change."""
    if isinstance(trace, CountTrace):
        least_s, what = trace.step_s, "one step"
    else:
        least_s, what = float(trace.arrival_s[0]), "the time to the first request"
    if simulated_s < least_s:
        raise ValueError(
            f"--seconds times --speed are {simulated_s:g} s of {trace.name}, less than {what} of it ({least_s:g} s): "
            "give more --seconds, or a higher --speed"
        )


def _start_of(trace: Trace) -> float:
    return trace.start_s if isinstance(trace, CountTrace) else 0.0


def _surges(trace: Trace, start_s: float, duration_s: float) -> int | None:
    """Count the recorded surges of a part, judged by the noise of the whole; None where the bins are too coarse."""
    if not isinstance(trace, CountTrace) or "requests" not in trace.columns or BIN_S % trace.step_s:
        return None
    bins = int(BIN_S / trace.step_s)
    counts = trace.columns["requests"]
    minutes = counts[: len(counts) // bins * bins].reshape(-1, bins).sum(axis=1)
    starts = (trace.start_s + BIN_S * i for i in surge_starts(minutes, LEAD_TIME_S + CONTROL_DELAYS_S))
    return sum(start_s <= at_s < start_s + duration_s for at_s in starts)


def _on_unix_time(arrivals: Arrivals) -> Arrivals:
    """Move a trace that counts seconds from its own start to a plausible date: clocks before 1970 are no clocks."""
    if arrivals.start_s >= _PLAUSIBLE_S:
        return arrivals
    return replace(
        arrivals,
        at_s=arrivals.at_s + _PLAUSIBLE_S,
        start_s=arrivals.start_s + _PLAUSIBLE_S,
        end_s=arrivals.end_s + _PLAUSIBLE_S,
        filled=tuple((a + _PLAUSIBLE_S, b + _PLAUSIBLE_S) for a, b in arrivals.filled),
    )


def _has_lengths(trace: Trace) -> bool:
    """Return whether the trace says how long its requests are; ValueError when it says how long they took instead."""
    lengths = any(name.endswith("_tokens") for name in trace.columns)
    if "service_s" in trace.columns and not lengths:
        raise ValueError(
            f"{trace.name} has service_s, which the simulated engine cannot play: it serves tokens. Give prompt_tokens "
            "and output_tokens, or leave service_s out to have lengths drawn"
        )
    return lengths


def _work_s(prompt_tokens: _Floats, output_tokens: _Floats) -> _Floats:
    """Return the seconds of a full replica that requests of these lengths take up."""
    held = float(np.mean(prompt_tokens) + np.mean(output_tokens) / 2)  # tokens of KV cache per request
    together = int(np.clip(PROFILE.kv_tokens / held, 1, PROFILE.slots))
    decoded_per_s = together * PROFILE.tokens_per_s(together)
    work: _Floats = prompt_tokens / PROFILE.prefill_tokens_per_s + (output_tokens - 1) / decoded_per_s
    return work


def _mean_work_s() -> float:
    """Return the work of a request of the profile's mean lengths, for which its capacity was measured."""
    lengths = PROFILE.lengths
    return float(_work_s(np.array([lengths.prompt_mean]), np.array([lengths.output_mean]))[0])


def _profile_for(arrivals: Arrivals) -> EngineProfile:
    """Return the profile with the context and the capacity for requests of these lengths.

    ValueError when more of them are too long for its model than the objective allows to fail.
    """
    longest = int(arrivals.prompt_tokens.max(initial=1)) + 1
    context = min(max(PROFILE.max_model_len, longest), LONGEST_CONTEXT)
    too_long = float(np.mean(arrivals.prompt_tokens >= context))
    if too_long > 1 - OBJECTIVE:
        raise ValueError(
            f"{too_long:.0%} of the requests have prompts of {context:,} tokens or more, too long for {PROFILE.name}"
        )
    mean_s = float(np.mean(_work_s(arrivals.prompt_tokens.astype(float), arrivals.output_tokens.astype(float))))
    capacity_rps = float(f"{PROFILE.capacity_rps * _mean_work_s() / mean_s:.4g}")
    return replace(PROFILE, max_model_len=context, capacity_rps=capacity_rps)


def _needed(arrivals: Arrivals, *, has_lengths: bool) -> _Floats:
    """Return the replicas that each minute needs: by its work where the trace tells it, else by its requests."""
    edges = np.arange(arrivals.start_s, arrivals.end_s + BIN_S, BIN_S)
    if not has_lengths:
        requests = np.histogram(arrivals.at_s, bins=edges)[0]
        return requests / (BIN_S * PROFILE.capacity_rps * TARGET)
    work_s = _work_s(arrivals.prompt_tokens.astype(float), arrivals.output_tokens.astype(float))
    per_minute = np.histogram(arrivals.at_s, bins=edges, weights=work_s)[0]
    return per_minute / (BIN_S * PROFILE.capacity_rps * _mean_work_s() * TARGET)


def _peak(needed: _Floats) -> float:
    peak = float(np.quantile(needed, 0.999))
    if peak <= 0:
        raise ValueError("the trace has no requests in the part to play")
    return peak


def metadata_of(profile: EngineProfile) -> dict[str, str]:
    """Return the trigger metadata of the demo's workload."""
    return {
        "engine": "vllm",
        "slo": format_duration(SLO_S),
        "objective": str(OBJECTIVE),
        "slotsPerReplica": str(profile.slots),
        "capacityPerReplica": str(profile.capacity_rps),
        "leadTime": format_duration(LEAD_TIME_S),
    }


HPA: Final = HpaSpec(MIN_REPLICAS, MAX_REPLICAS, behaviour=HEADWAY_BEHAVIOUR)
KEDA: Final = KedaSpec(min_replicas=MIN_REPLICAS)


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where Headway is to listen."""

    grpc: str
    http: str
    admin: str


def write_configuration(
    folder: Path,
    clock: ScaledClock,
    addresses: Addresses,
    metadata: Mapping[str, str],
    targets: Path,
    cluster: Path,
    prometheus_url: str | None,
) -> Path:
    """Write the processes' configuration file, with all of Headway's settings at their defaults."""
    scrape = {"scrape": {"targetsFile": str(targets)}}
    metrics = scrape if prometheus_url is None else {"prometheus": {"url": prometheus_url}}
    document = {
        "clock": {"speed": clock.speed, "wallOrigin": clock.wall_origin_s, "origin": clock.origin_s},
        "controller": {
            "tick": format_duration(TICK_S),
            "httpAddress": addresses.http,
            "adminAddress": addresses.admin,
            "checkpoint": "checkpoint.json",
        },
        "scaler": {"grpcAddress": addresses.grpc, "httpAddress": "127.0.0.1:0"},
        "planStore": {"file": "plan.json"},
        "metrics": metrics,
        "gpuMetrics": {"same": True},
        "cluster": {"file": str(cluster)},
        "workloads": [
            {
                "namespace": NAMESPACE,
                "name": NAME,
                "minReplicas": MIN_REPLICAS,
                "maxReplicas": MAX_REPLICAS,
                "metadata": dict(metadata),
            }
        ],
    }
    path = folder / "headway.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return path


def settings_of(traffic: Traffic, speed: float, seed: int, *, prometheus: bool) -> tuple[tuple[str, str], ...]:
    """Return what a reader needs to judge or repeat the run."""
    profile = traffic.profile
    lengths = "token lengths of the trace" if traffic.has_lengths else "token lengths drawn"
    return (
        ("profile", f"{profile.name}: {profile.slots} slots, {profile.capacity_rps:g} requests/s inside the SLO"),
        ("cold start", f"{profile.lead_time.median_s:g} s at the median"),
        ("traffic", f"{traffic.name}, {traffic.scale:.2f} times the recorded requests, {lengths}"),
        ("replicas", f"{MIN_REPLICAS} to {MAX_REPLICAS}"),
        ("SLO", f"queue time at most {SLO_S:g} s for {OBJECTIVE:.0%} of the requests"),
        ("tick", f"{TICK_S:g} s"),
        ("metrics", "a Prometheus server" if prometheus else "direct scraping"),
        ("speed", f"{speed:g} times, {timedelta(seconds=round(traffic.arrivals.end_s - traffic.arrivals.start_s))}"),
        ("seed", str(seed)),
    )
