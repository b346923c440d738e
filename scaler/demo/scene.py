"""What a demo plays: the traffic, its scale, and the configuration that Headway's processes are given."""

from dataclasses import dataclass, replace
from datetime import timedelta
from importlib import resources
from pathlib import Path
from typing import Any, Final

import numpy as np
import yaml

from scaler.adapters.clock import ScaledClock
from scaler.backtest.profiles import H100_8B
from scaler.config.durations import format_duration
from scaler.config.models import DecisionSettings
from scaler.hpa import HEADWAY_BEHAVIOUR, HpaSpec, KedaSpec
from scaler.traces.arrivals import Arrivals, draw_arrivals
from scaler.traces.model import CountTrace, Trace
from scaler.traces.read import read_trace, trace_name
from scaler.traces.surges import BIN_S, surge_starts

PROFILE: Final = H100_8B
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
_PLAUSIBLE_S: Final = 800_000_000.0  # 1995, before the oldest public trace
LEAD_TIME_S: Final = 120.0  # P90 of the profile's cold starts, rounded up


@dataclass(frozen=True, slots=True)
class Traffic:
    """Arrivals to play, with what a reader needs to know of them."""

    name: str
    attribution: str
    arrivals: Arrivals
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
    recorded = whole.window(start_s, simulated_s)
    once = draw_arrivals(recorded, np.random.default_rng(seed), PROFILE.lengths)
    scale = PEAK_REPLICAS * PROFILE.capacity_rps * TARGET / (_peak(_per_minute(once)) / BIN_S)
    arrivals = _on_unix_time(draw_arrivals(recorded, np.random.default_rng(seed), PROFILE.lengths, scale=scale))
    minutes = _per_minute(arrivals)
    first = minutes[0] / BIN_S / (PROFILE.capacity_rps * TARGET)
    return Traffic(
        name=trace_name(path),
        attribution=BUNDLED_FROM if trace is None else f"{path.name}, as given",
        arrivals=arrivals,
        scale=scale,
        first_replicas=int(np.clip(np.ceil(first), MIN_REPLICAS, MAX_REPLICAS)),
        surges=_surges(whole, start_s, simulated_s),
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


def _per_minute(arrivals: Arrivals) -> np.ndarray[Any, np.dtype[np.float64]]:
    edges = np.arange(arrivals.start_s, arrivals.end_s + BIN_S, BIN_S)
    return np.histogram(arrivals.at_s, bins=edges)[0].astype(np.float64)


def _peak(minutes: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    peak = float(np.quantile(minutes, 0.999))
    if peak <= 0:
        raise ValueError("the trace has no requests in the part to play")
    return peak


METADATA: Final = {
    "engine": "vllm",
    "slo": format_duration(SLO_S),
    "objective": str(OBJECTIVE),
    "slotsPerReplica": str(PROFILE.slots),
    "capacityPerReplica": str(PROFILE.capacity_rps),
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
    folder: Path, clock: ScaledClock, addresses: Addresses, targets: Path, cluster: Path, prometheus_url: str | None
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
                "metadata": METADATA,
            }
        ],
    }
    path = folder / "headway.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return path


def settings_of(traffic: Traffic, speed: float, seed: int, *, prometheus: bool) -> tuple[tuple[str, str], ...]:
    """Return what a reader needs to judge or repeat the run."""
    return (
        ("profile", f"{PROFILE.name}: {PROFILE.slots} slots, {PROFILE.capacity_rps:g} requests/s inside the SLO"),
        ("cold start", f"{PROFILE.lead_time.median_s:g} s at the median"),
        ("traffic", f"{traffic.name}, {traffic.scale:.2f} times the recorded requests, token lengths drawn"),
        ("replicas", f"{MIN_REPLICAS} to {MAX_REPLICAS}"),
        ("SLO", f"queue time at most {SLO_S:g} s for {OBJECTIVE:.0%} of the requests"),
        ("tick", f"{TICK_S:g} s"),
        ("metrics", "a Prometheus server" if prometheus else "direct scraping"),
        ("speed", f"{speed:g} times, {timedelta(seconds=round(traffic.arrivals.end_s - traffic.arrivals.start_s))}"),
        ("seed", str(seed)),
    )
