"""Runs as the report sees them, made by hand: an afternoon with one surge, and the nearest variations of it."""

import math
from dataclasses import replace
from typing import Any

from scaler.report.run_record import DemoResult, RunRecord, RunSample, ScaleEvent

CAPACITY_RPS = 5.0
STEP_S = 15.0


def a_result(**changes: Any) -> DemoResult:
    """Return the figures of a run that met its objective."""
    figures: dict[str, Any] = {
        "trace": "azure_llm_2024_code",
        "ticks": 360,
        "grpc_calls": 1440,
        "grpc_p99_ms": 4.2,
        "replicas_min": 3,
        "replicas_max": 14,
        "scale_ups": 9,
        "scale_downs": 5,
        "slo_attainment": 0.9941,
        "gpu_hours": 8.12,
        "requests": 212_345,
        "surges": 4,
        "speed": 90.0,
        "simulated_s": 5400.0,
        "wall_s": 60.0,
        "grpc_errors": 0,
        "ticks_due": 360,
        "tick_errors": 0,
        "first_decision_s": 3.1,
        "queue_time_p50_s": 0.0,
        "queue_time_p99_s": 0.74,
        "static_peak_gpu_hours": 21.0,
        "prometheus": False,
    }
    return DemoResult(**(figures | changes))


def a_sample(at_s: float = 0.0, **changes: Any) -> RunSample:
    """Return a quiet moment: three ready replicas, a little work, nothing waiting."""
    quiet = RunSample(
        at_s=at_s,
        arrivals_rps=12.0,
        ready=3,
        pending=0,
        draining=0,
        spec=3,
        told=3,
        waiting=0,
        running=40,
        kv_usage=0.31,
        queue_time_p95_s=0.0,
        attainment=1.0,
        saturation=0.62,
    )
    return replace(quiet, **changes)


def a_record(samples: int = 361, **changes: Any) -> RunRecord:
    """Return a run of `samples` samples, one every 15 s, through a daily hump with three surges."""
    taken, events = _afternoon(samples)
    record = RunRecord(
        title="Headway demo",
        trace="azure_llm_2024_code",
        attribution="Azure LLM inference trace 2024, Microsoft (Azure/AzurePublicDataset), CC-BY-4.0.",
        speed=90.0,
        slo_s=1.0,
        objective=0.99,
        samples=taken,
        events=events,
        settings=(("tick", "15 s"), ("lead time", "4 min"), ("engine", "8B model on one H100")),
        result=a_result(),
        capacity_rps=CAPACITY_RPS,
    )
    return replace(record, **changes)


def _afternoon(count: int) -> tuple[tuple[RunSample, ...], tuple[ScaleEvent, ...]]:
    samples: list[RunSample] = []
    events: list[ScaleEvent] = []
    spec, ready, waiting, served, met = 4, 4, 0.0, 0.0, 0.0
    orders: list[tuple[float, int]] = []  # when ready, how many
    for index in range(count):
        at_s = index * STEP_S
        arrivals = _arrivals_rps(at_s)
        ready += sum(number for due, number in orders if due <= at_s)
        orders = [order for order in orders if order[0] > at_s]
        waiting = max(0.0, waiting + (arrivals - ready * CAPACITY_RPS) * STEP_S)
        queue_s = waiting / (ready * CAPACITY_RPS)
        served += arrivals * STEP_S
        met += arrivals * STEP_S * (1.0 if queue_s <= 1 else 0.0)
        wish = max(3, math.ceil(arrivals / CAPACITY_RPS / 0.85 + waiting / 240 / CAPACITY_RPS))
        pending = sum(number for _, number in orders)
        if wish > spec or (wish < spec - 1 and index % 12 == 0 and not pending):
            reason = "reactive: backlog" if waiting else "reactive: demand" if wish > spec else "stabilisation"
            events.append(ScaleEvent(at_s, spec, wish, reason))
            orders += [(at_s + 150.0, wish - spec)] if wish > spec else []
            ready = min(ready, wish)
            spec = wish
        level = arrivals / (ready * CAPACITY_RPS)
        samples.append(
            RunSample(
                at_s=at_s,
                arrivals_rps=arrivals,
                ready=ready,
                pending=sum(number for _, number in orders),
                draining=0,
                spec=spec,
                told=None if 40 <= index < 44 else spec,
                waiting=round(waiting),
                running=round(min(level, 1.0) * ready * 40),
                kv_usage=min(0.97, 0.55 * level),
                queue_time_p95_s=None if index % 50 == 7 else queue_s,
                attainment=met / served if served else None,
                saturation=max(level / 0.85, queue_s),
            )
        )
    return tuple(samples), tuple(events)


def _arrivals_rps(at_s: float) -> float:
    hump = 14 + 26 * math.sin(math.pi * at_s / 5400) ** 2
    surges = sum(18 * math.exp(-(((at_s - at) / 140) ** 2)) for at in (1200, 2600, 3900))
    return max(0.5, hump + surges + 3 * math.sin(at_s / 47) + 2 * math.sin(at_s / 19))
