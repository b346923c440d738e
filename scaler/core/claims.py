"""What one replica's word may weigh: a number that is finite and absurd must not ask for every replica there could be.

A replica cannot run ten times its slots, nor complete ten times its capacity. What it claims beyond that is cut off and
not disbelieved: so more load never asks for less, and where a setting is ten times too low replicas are still added.
How many requests wait, or are refused, has no such limit.
"""

from dataclasses import replace
from math import inf

from scaler.config.models import Unit, WorkloadSettings
from scaler.core.observation import ReplicaReading
from scaler.core.values import Known, Reading

MOST_TIMES = 10.0  # more than settings are wrong by, and too little for one replica to outweigh a fleet
_REQUESTS = Unit.REQUESTS

Replicas = tuple[ReplicaReading, ...]


def within_reason(replicas: Replicas, settings: WorkloadSettings) -> tuple[Replicas, int]:
    """Return the replicas with their claims cut to what one of them can do, and how many had to be cut."""
    slots, capacity = settings.slots_per_replica, settings.capacity_per_replica
    most_rps = inf if capacity is None or settings.unit is not _REQUESTS else MOST_TIMES * capacity
    most_running = inf if slots is None else MOST_TIMES * slots
    cut: dict[int, ReplicaReading] = {}
    for number, replica in enumerate(replicas):
        running, completions = replica.running, replica.completions_rps
        limit = _most_running(replica.slots) if slots is None else most_running
        if (isinstance(running, Known) and running.value > limit) or (
            isinstance(completions, Known) and completions.value > most_rps
        ):
            cut[number] = replace(
                replica, running=_at_most(running, limit), completions_rps=_at_most(completions, most_rps)
            )
    if not cut:
        return replicas, 0
    return tuple(cut.get(number, replica) for number, replica in enumerate(replicas)), len(cut)


def _most_running(slots: Reading) -> float:
    """Return the limit by the slots that the engine itself exports; no limit where it exports none."""
    return MOST_TIMES * slots.value if isinstance(slots, Known) and slots.value > 0 else inf


def _at_most(reading: Reading, limit: float) -> Reading:
    return Known(limit, reading.age_s) if isinstance(reading, Known) and reading.value > limit else reading
