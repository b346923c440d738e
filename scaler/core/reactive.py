"""How many replicas the load needs now, as absolute numbers: each need is a count of its own, and the largest wins.

Absolute means that asking twice asks for the same: replicas that are on their way do not make the number grow, and the
number grows with the pool. (AIBrix#2670 is what happens otherwise.)
"""

import math
from dataclasses import dataclass

from scaler.config.models import DecisionSettings, WorkloadSettings
from scaler.core.demand import Demand, units_per_request
from scaler.core.front import held_back, work_in_front, works_at_zero
from scaler.core.observation import GatewayReading, QueueReading, ReplicaCounts
from scaler.core.plan import Saturation
from scaler.core.pool import Pool
from scaler.core.saturation import slots_per_replica
from scaler.core.values import BENIGN, Known, Missing, Reading, Reason, is_benign

# A wish is a count of replicas. Readings are sums of floats, so a need that is whole up to rounding is that whole
# number.
_ROUNDING = 1e-9
_MOST = 1_000_000  # more than any workload can have; the bounds of the workload come later


@dataclass(slots=True)
class Load:
    """What a workload's replicas are up against, in one tick."""

    pool: Pool
    queue: QueueReading | None
    gateway: GatewayReading | None
    saturation: Saturation
    demand: Demand
    capacity: Reading  # work units per second of one replica
    counts: ReplicaCounts
    implausible: int  # replicas whose claims had to be cut
    drain_s: float  # within which a backlog must be gone: the lead time


@dataclass(slots=True)
class Needs:
    """What the load needs by name, for scaling up; and one number for scaling down, or why nothing may fall."""

    up: dict[str, int]
    down: int | Missing

    @property
    def largest(self) -> tuple[str, int] | None:
        """The binding need and its count; None when nothing is known."""
        return max(self.up.items(), key=lambda item: item[1], default=None)


def needs_of(load: Load, settings: WorkloadSettings, decision: DecisionSettings) -> Needs:
    """Return what the load needs. Monotone in work in flight, waiting, KV usage and demand."""
    saturation, demand = load.saturation, load.demand.up
    waiting = _waiting(load, for_down=False, decision=decision)
    up = {
        _level_name(saturation): _level(saturation.level, load, decision),
        "demand": _for_demand(demand, load.capacity, decision),
        "backlog": _backlog(load, waiting, demand, settings, decision),
    }
    known = {name: need for name, need in up.items() if isinstance(need, int)}
    in_front, work = work_in_front(load.queue, load.gateway)
    known[in_front] = work
    return Needs(known, _down(load, settings, decision))


def _down(load: Load, settings: WorkloadSettings, decision: DecisionSettings) -> int | Missing:
    """Return the largest need with every unknown at its worst; Missing where one of them has no bound."""
    waiting = _waiting(load, for_down=True, decision=decision)
    if (unseen := _unseen(load, waiting)) is not None:
        return unseen
    demand = _for_demand(load.demand.down, load.capacity, decision)
    needs = (
        _level_for_down(load, decision),
        demand,
        _backlog(load, waiting, load.demand.down, settings, decision, for_down=True),
    )
    _, most = work_in_front(load.queue, load.gateway, for_down=True)
    for need in needs:
        if isinstance(need, int):
            most = max(most, need)
        elif need.reason not in BENIGN:
            return need
    slots = load.saturation.terms["slots"]
    if not isinstance(slots, Known) and isinstance(demand, Missing) and not _known_idle(load):
        # Neither slots nor capacity: an empty queue, or a cache that is not full, says nothing of how busy they are.
        return Missing(Reason.NOT_CONFIGURED)
    return most


def _unseen(load: Load, waiting: Reading) -> Missing | None:
    """Return why a whole part of the load is out of sight, so that nothing may fall; None where none is."""
    if load.queue is None and load.pool.ready == 0 and not works_at_zero(None, load.gateway):
        return Missing(Reason.NO_REPLICAS)
    if not isinstance(waiting, Known):
        return Missing(_reason_of(waiting))
    if load.queue is None and load.pool.ready != load.counts.ready:
        return Missing(Reason.SILENT)  # some ready replicas are not even listed: nothing is said of them
    if load.gateway is None or isinstance(load.gateway.arrivals_rps, Known) or is_benign(load.gateway.arrivals_rps):
        return None
    return Missing(_reason_of(load.gateway.arrivals_rps))


def _known_idle(load: Load) -> bool:
    """Return whether nothing waits, runs or comes: that needs no scale to be judged by."""
    if load.queue is None:
        busy = load.pool.running.total + load.pool.waiting.total > 0 or load.pool.running.unknown > 0
        return not busy and not work_in_front(None, load.gateway, for_down=True)[1]
    signals = (load.queue.waiting, load.queue.unacked, load.queue.arrivals_rps)
    return all(isinstance(signal, Known) and signal.value == 0 for signal in signals)


def _level_name(saturation: Saturation) -> str:
    slots, kv = saturation.terms["slots"], saturation.terms["kv_cache"]
    by_kv = isinstance(kv, Known) and not (isinstance(slots, Known) and slots.value >= kv.value)
    return "level_kv_cache" if by_kv else "level_slots"


def _level(level: Reading, load: Load, decision: DecisionSettings) -> int | Missing:
    """Return the level's share of the replicas that it was measured on."""
    if not isinstance(level, Known):
        return Missing(_reason_of(level))
    measured_on = load.pool.ready if load.queue is None else load.counts.ready
    return _whole(measured_on * min(level.value, decision.level_step_max))


def _level_for_down(load: Load, decision: DecisionSettings) -> int | Missing:
    """Return the level's need; 0 without replicas: then what is seen in front of them says all there is."""
    level = _level(load.saturation.level_down, load, decision)
    absence = Reason.NO_REPLICAS if load.queue is None else Reason.NO_CONSUMERS
    nothing_to_measure = isinstance(level, Missing) and load.counts.ready == 0 and level.reason is absence
    return 0 if nothing_to_measure else level


def _for_demand(demand: Reading, capacity: Reading, decision: DecisionSettings) -> int | Missing:
    """Return demand / (capacity x utilisation target), so that replicas run at target and not at their limit."""
    if not isinstance(capacity, Known):
        return Missing(_reason_of(capacity))
    if not isinstance(demand, Known):
        return Missing(_reason_of(demand))
    return _whole(demand.value / capacity.value / decision.utilisation_target)


def _backlog(
    load: Load,
    waiting: Reading,
    demand: Reading,
    settings: WorkloadSettings,
    decision: DecisionSettings,
    *,
    for_down: bool = False,
) -> int | Missing:
    """Return what serves the demand and drains, within the drain time, the backlog that pending replicas will not take.

    For scaling up it is zero while replicas are blocked: capacity is what is short then, and asking for more of it
    gives none. For scaling down it counts in full: what was asked for is not given up because it does not come.
    """
    if not isinstance(waiting, Known):
        return Missing(_reason_of(waiting))
    if waiting.value == 0 or (load.counts.blocked and not for_down):
        return 0
    rate = _requests_per_replica_rps(load, settings)
    if not isinstance(rate, Known):
        return Missing(_reason_of(rate))
    per_request = units_per_request(load.pool, settings.unit)
    steady = float(load.counts.ready)
    if isinstance(demand, Known) and isinstance(per_request, Known) and per_request.value > 0:
        steady = demand.value / per_request.value / rate.value
    taken = 0.0 if for_down else _taken_by_pending(load, settings)
    need = steady + max(0.0, waiting.value - taken) / load.drain_s / rate.value
    if settings.capacity_per_replica is None:
        # What a replica completes now is no capacity: a sick one that completes almost nothing would ask for thousands.
        # Rounded down, as `steady` is then what is there and not what is needed: else one waiting request would ask for
        # one more replica, and for one more when that is there.
        need = math.floor(min(need, max(1, load.counts.ready) * decision.level_step_max))
    return _whole(need)


def _taken_by_pending(load: Load, settings: WorkloadSettings) -> float:
    """Return the requests that pending replicas will take as soon as they are ready: their slots."""
    if not load.counts.pending:
        return 0.0
    slots = slots_per_replica(load.pool, settings)
    return load.counts.pending * slots.value if isinstance(slots, Known) else 0.0


def _requests_per_replica_rps(load: Load, settings: WorkloadSettings) -> Reading:
    """Return the requests per second of one replica: its capacity, or what it completes now, with work waiting."""
    capacity, per_request = load.capacity, units_per_request(load.pool, settings.unit)
    if isinstance(capacity, Known) and isinstance(per_request, Known):
        return _rate(capacity, per_request.value)
    completions = load.queue.completions_rps if load.queue else load.pool.completions_rps.up
    working = load.counts.ready if load.queue else load.pool.completions_rps.known
    return _rate(completions, working) if isinstance(completions, Known) else completions


def _rate(total: Known, parts: float) -> Reading:
    """Return a share of a rate that can be divided by; NO_COMPLETIONS where there is none."""
    share = total.value / parts if parts > 0 else 0.0
    return Known(share, total.age_s) if share > 0 else Missing(Reason.NO_COMPLETIONS)


def _waiting(load: Load, *, for_down: bool, decision: DecisionSettings) -> Reading:
    """Return the requests that wait: in the queue, or in the replicas and at the gateway in front of them."""
    if load.queue:
        return load.queue.waiting
    pooled, outside = load.pool.waiting, held_back(load.gateway)
    inside = pooled.down(0.0, hold_share=decision.silent_hold_share) if for_down else pooled.up
    if load.gateway is None:
        return inside
    if load.pool.ready == 0:
        return outside
    if isinstance(inside, Known) and isinstance(outside, Known):
        return Known(inside.value + outside.value, max(inside.age_s, outside.age_s))
    absent, other = (outside, inside) if isinstance(inside, Known) else (inside, outside)
    return absent if for_down else other  # what is known counts up, what is not may be the larger part


def _whole(need: float) -> int:
    if math.isnan(need):
        raise OverflowError("a need must be a number, was NaN")
    if need >= _MOST:
        return _MOST
    return math.ceil(need - _ROUNDING) if need > _ROUNDING else 0


def _reason_of(reading: Reading) -> Reason:
    return reading.reason if isinstance(reading, Missing) else Reason.STALE
