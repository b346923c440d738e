"""The outcome of a run in two plain sentences: what it served and cost, and whether the objective was met."""

import math

from scaler.config.durations import format_duration
from scaler.report.run_record import RunRecord
from scaler.report.text import exact_percent, percent, printable, quantity


def verdict(record: RunRecord) -> tuple[str, str]:
    """Return the two sentences. Text from outside is in them, with its control characters escaped."""
    return _served(record), _judged(record)


def objective_met(record: RunRecord) -> bool | None:
    """Return whether the objective was met; None where no request arrived to judge by."""
    attainment = record.result.slo_attainment
    return None if attainment is None else attainment >= record.objective


def _served(record: RunRecord) -> str:
    result = record.result
    time = format_duration(round(result.simulated_s))
    requests = f"{result.requests:,} request{'' if result.requests == 1 else 's'}" if result.requests else "no request"
    return (
        f"In {time} of recorded traffic ({printable(record.trace)}) the fleet received {requests} and spent "
        f"{quantity(result.gpu_hours)} GPU-hours{_replicas(record)}{_comparison(record)}."
    )


def _replicas(record: RunRecord) -> str:
    least, most = record.result.replicas_min, record.result.replicas_max
    if least is None or most is None:
        return ""
    return f" on {most} replica{'' if most == 1 else 's'}" if least == most else f" on {least} to {most} replicas"


def _comparison(record: RunRecord) -> str:
    spent, fixed = record.result.gpu_hours, record.result.static_peak_gpu_hours
    if not fixed:
        return ""
    saved = 1 - spent / fixed
    if abs(saved) < 0.005:
        return f", as many as a fixed fleet of its peak size ({quantity(fixed)})"
    word = "less" if saved > 0 else "more"
    return f", {abs(saved):.0%} {word} than the {quantity(fixed)} of a fixed fleet of its peak size".replace(
        "%", " %", 1
    )


def _judged(record: RunRecord) -> str:
    attainment, objective = record.result.slo_attainment, exact_percent(record.objective)
    if attainment is None:
        return f"Without requests there is nothing to hold against the objective of {objective}."
    share = percent(attainment, beside=record.objective)
    start = f"{share} of the requests met the queue-time SLO of {format_duration(record.slo_s)}"
    if attainment >= record.objective:
        return f"{start}, so the objective of {objective} was met."
    return f"{start}, so the objective of {objective} was missed, {_shortfall(record, attainment)}."


def _shortfall(record: RunRecord, attainment: float) -> str:
    # Both are whole requests; the tolerance keeps 0.99 x 100 from needing a hundredth one.
    needed = math.ceil(record.objective * record.result.requests - 1e-6)
    short = max(1, needed - round(attainment * record.result.requests))
    return f"by {short:,} request{'' if short == 1 else 's'}"
