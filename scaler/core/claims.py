"""What one replica's word may weigh: a number that is finite and absurd must not ask for every replica there could be.

A replica cannot run ten times its slots, nor complete ten times its capacity. What it claims beyond that is cut off and
not disbelieved: so more load never asks for less, and where a setting is ten times too low replicas are still added.
How many requests wait, or are refused, has no such limit.
"""

from dataclasses import dataclass, replace
from math import inf

from scaler.config.models import DecisionSettings, Unit, WorkloadSettings
from scaler.core.observation import ReplicaReading
from scaler.core.pool import Pool, pool_replicas
from scaler.core.values import Known, Reading

MOST_TIMES = 10.0  # more than settings are wrong by, and too little for one replica to outweigh a fleet
_REQUESTS = Unit.REQUESTS

Replicas = tuple[ReplicaReading, ...]


def pool_within_reason(replicas: Replicas, settings: WorkloadSettings, decision: DecisionSettings) -> tuple[Pool, int]:
    """Pool the replicas with their claims cut to what one of them can do, and return how many had to be cut."""
    pool = pool_replicas(replicas, decision)
    limits = _limits(settings)
    if not _may_exceed(pool, limits):
        return pool, 0
    reasonable = tuple(_cut(replica, limits) for replica in replicas)
    changed = sum(new is not old for new, old in zip(reasonable, replicas, strict=True))
    return (pool_replicas(reasonable, decision), changed) if changed else (pool, 0)


@dataclass(slots=True)
class _Limits:
    running: float | None  # None: the slots that the engine itself exports decide
    completions_rps: float


def _limits(settings: WorkloadSettings) -> _Limits:
    slots, capacity = settings.slots_per_replica, settings.capacity_per_replica
    return _Limits(
        running=None if slots is None else MOST_TIMES * slots,
        completions_rps=inf if capacity is None or settings.unit is not _REQUESTS else MOST_TIMES * capacity,
    )


def _may_exceed(pool: Pool, limits: _Limits) -> bool:
    """Return whether one of the replicas may have to be cut. What all together do not exceed, none exceeds."""
    running, completions = pool.running, pool.completions_rps
    if completions.total + completions.claimed > limits.completions_rps:
        return True
    if limits.running is None:
        return pool.slots.known + pool.slots.claimants > 0
    return running.total + running.claimed > limits.running


def _cut(replica: ReplicaReading, limits: _Limits) -> ReplicaReading:
    most_running = _most_running(replica.slots) if limits.running is None else limits.running
    running = _at_most(replica.running, most_running)
    completions_rps = _at_most(replica.completions_rps, limits.completions_rps)
    if running is replica.running and completions_rps is replica.completions_rps:
        return replica
    return replace(replica, running=running, completions_rps=completions_rps)


def _most_running(slots: Reading) -> float:
    """Return the limit by the slots that the engine itself exports; no limit where it exports none."""
    return MOST_TIMES * slots.value if isinstance(slots, Known) and slots.value > 0 else inf


def _at_most(reading: Reading, limit: float) -> Reading:
    return Known(limit, reading.age_s) if isinstance(reading, Known) and reading.value > limit else reading
