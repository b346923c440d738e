"""Consumer saturation: how near the consumers are to their target limits, as the maximum of corroborated terms.

Slots (the active ratio) and KV cache are levels: they cannot exceed the pool by much and say "grow by this share".
Queue time is not a level: it enters the decision through the backlog, and is a term here for people and dashboards.
"""

import math
from dataclasses import dataclass

from scaler.config.models import DecisionSettings, WorkloadSettings
from scaler.core.observation import QueueReading
from scaler.core.plan import Saturation
from scaler.core.pool import Pool
from scaler.core.values import Known, Missing, Reading, Reason, is_benign


@dataclass(slots=True)
class Term:
    """One term: as it may scale up, and as it may scale down (where a silent replica counts at target)."""

    up: Reading
    down: Reading


_NO_CACHE = Missing(Reason.NOT_EXPORTED)  # a queue has no KV cache
_NO_SLOTS = Missing(Reason.NOT_CONFIGURED)


def utilisation_target(settings: WorkloadSettings, decision: DecisionSettings) -> float:
    """Return the share of the slots, or of the capacity, that is used at target."""
    return decision.utilisation_target if settings.active_ratio_target is None else settings.active_ratio_target


def slots_per_replica(pool: Pool, settings: WorkloadSettings) -> Reading:
    """Return the requests that one replica runs at once: as configured, else as the believed engines export it."""
    if settings.slots_per_replica is not None:
        return Known(float(settings.slots_per_replica))
    exported = pool.slots
    if not exported.known:
        return Missing(exported.reason) if exported.gap else _NO_SLOTS
    slots = exported.total / exported.known
    return Known(slots) if slots > 0 else Missing(Reason.INVALID_VALUE)


def saturation_of(
    pool: Pool, queue: QueueReading | None, settings: WorkloadSettings, decision: DecisionSettings
) -> Saturation:
    """Return the saturation of a workload's consumers, every term named."""
    slots = _slots_of_queue(queue, settings, decision) if queue else _slots_of_pool(pool, settings, decision)
    kv = Term(_NO_CACHE, _NO_CACHE) if queue else _kv(pool, settings, decision)
    waiting = queue.waiting if queue else pool.waiting.up
    completions = queue.completions_rps if queue else pool.completions_rps.up
    little = littles_law_wait_s(waiting, completions)
    measured = pool.queue_time_s.mean()
    queue_time = _scaled(little if isinstance(little, Known) else measured, settings.slo_s)
    absent = "none" if not isinstance(slots.up, Known) else "slots"
    binding, level = _higher(absent, slots.up, "kv_cache", kv.up)
    binding, value = _higher(binding, level, "queue_time", queue_time)
    return Saturation(
        value=value,
        level=level,
        level_down=_higher_for_down(slots.down, kv.down),
        binding=binding,
        terms={
            "slots": slots.up,
            "kv_cache": kv.up,
            "queue_time": queue_time,
            "queue_time_measured": _scaled(measured, settings.slo_s),
            "kv_cache_p90": pool.kv_p90,
            "gpu_activity": pool.gpu_activity.mean(),
        },
    )


def littles_law_wait_s(waiting: Reading, completions_rps: Reading) -> Reading:
    """Return the wait in seconds that a request arriving now would see: waiting / completion rate.

    J. D. C. Little, "A Proof for the Queuing Formula: L = lambda W", Operations Research 9 (1961). With nothing
    waiting the wait is 0, whatever the rate; with something waiting and nothing completing there is no value.
    """
    if not isinstance(waiting, Known):
        return waiting
    if waiting.value == 0:
        return waiting
    if not isinstance(completions_rps, Known):
        return completions_rps
    wait_s = waiting.value / completions_rps.value if completions_rps.value > 0 else math.inf
    if not math.isfinite(wait_s):
        return Missing(Reason.NO_COMPLETIONS)
    return Known(wait_s, max(waiting.age_s, completions_rps.age_s))


def _slots_of_pool(pool: Pool, settings: WorkloadSettings, decision: DecisionSettings) -> Term:
    slots = slots_per_replica(pool, settings)
    if not isinstance(slots, Known):
        return Term(slots, slots)
    at_target = utilisation_target(settings, decision) * slots.value
    down = pool.running.down(at_target, hold_share=decision.silent_hold_share)
    return _term(pool.running.up, down, at_target * pool.ready)


def _slots_of_queue(queue: QueueReading, settings: WorkloadSettings, decision: DecisionSettings) -> Term:
    """Return unacked / (consumers x prefetch), over its target. Without consumers there is no ratio: it is not 0."""
    if not isinstance(queue.consumers, Known):
        return Term(queue.consumers, queue.consumers)
    if queue.consumers.value == 0:
        absent = Missing(Reason.NO_CONSUMERS)
        return Term(absent, absent)
    if not isinstance(queue.prefetch, Known):
        return Term(queue.prefetch, queue.prefetch)
    slots = queue.consumers.value * queue.prefetch.value
    if slots <= 0:  # prefetch 0 means unlimited in AMQP: there are no slots to count
        absent = Missing(Reason.NOT_CONFIGURED)
        return Term(absent, absent)
    ratio = _scaled(queue.unacked, slots * utilisation_target(settings, decision))
    return Term(ratio, ratio)


def _kv(pool: Pool, settings: WorkloadSettings, decision: DecisionSettings) -> Term:
    """Return the mean KV-cache usage over its target.

    A full cache that flows is healthy: above 1 only when requests wait for capacity or preemptions happen. For
    scaling down, a corroboration that cannot be seen counts as given.
    """
    target, waiting, preemptions = settings.kv_target, pool.waiting, pool.preemptions_rps
    down = pool.kv_usage.down(target, hold_share=decision.silent_hold_share)
    usage = _term(pool.kv_usage.up, down, target * (pool.ready or 1))
    if waiting.total + waiting.claimed > 0 or preemptions.total + preemptions.claimed > 0:
        return usage
    unseen = waiting.gap or preemptions.gap
    return Term(_at_most_one(usage.up), usage.down if unseen else _at_most_one(usage.down))


def _term(up: Reading, down: Reading, divisor: float) -> Term:
    scaled = _scaled(up, divisor)
    return Term(scaled, scaled if down is up else _scaled(down, divisor))


def _scaled(reading: Reading, divisor: float) -> Reading:
    if not isinstance(reading, Known):
        return reading
    return Known(reading.value / divisor, reading.age_s) if divisor > 0 else Missing(Reason.NO_REPLICAS)


def _at_most_one(reading: Reading) -> Reading:
    return Known(1.0, reading.age_s) if isinstance(reading, Known) and reading.value > 1 else reading


def _higher(name: str, reading: Reading, other_name: str, other: Reading) -> tuple[str, Reading]:
    """Return the larger known reading with its name; the first one where the other is not known."""
    if isinstance(other, Known) and not (isinstance(reading, Known) and reading.value >= other.value):
        return other_name, other
    return name, reading


def _higher_for_down(reading: Reading, other: Reading) -> Reading:
    """Return the larger reading, or the first gap: what is unknown may be the larger one."""
    if isinstance(reading, Known):
        if isinstance(other, Known):
            return other if other.value > reading.value else reading
        return reading if is_benign(other) else other
    return other if is_benign(reading) and not is_benign(other) else reading
