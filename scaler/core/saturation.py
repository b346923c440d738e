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
from scaler.core.values import BENIGN, Known, Missing, Reading, Reason


@dataclass(frozen=True, slots=True)
class Term:
    """One term: as it may scale up, and as it may scale down (where a silent replica counts at target)."""

    up: Reading
    down: Reading


_NO_CACHE = Missing(Reason.NOT_EXPORTED)  # a queue has no KV cache


def utilisation_target(settings: WorkloadSettings, decision: DecisionSettings) -> float:
    """Return the share of the slots, or of the capacity, that is used at target."""
    return decision.utilisation_target if settings.active_ratio_target is None else settings.active_ratio_target


def saturation_of(
    pool: Pool, queue: QueueReading | None, settings: WorkloadSettings, decision: DecisionSettings
) -> Saturation:
    """Return the saturation of a workload's consumers, every term named."""
    slots = _slots_of_queue(queue, settings, decision) if queue else _slots_of_pool(pool, settings, decision)
    kv = Term(_NO_CACHE, _NO_CACHE) if queue else _kv(pool, settings, decision)
    waiting = queue.waiting if queue else pool.waiting.up()
    completions = queue.completions_rps if queue else pool.completions_rps.up()
    little = littles_law_wait_s(waiting, completions)
    measured = pool.queue_time_s.mean()
    queue_time = _scaled(little if isinstance(little, Known) else measured, settings.slo_s)
    value = _highest(("slots", slots.up), ("kv_cache", kv.up), ("queue_time", queue_time))
    level = _highest(("slots", slots.up), ("kv_cache", kv.up))
    level_down = _highest_of_all(slots.down, kv.down)
    return Saturation(
        value=value[1],
        value_down=_highest_of_all(slots.down, kv.down, queue_time),
        level=level[1],
        level_down=level_down,
        binding=value[0],
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
    slots, target = settings.slots_per_replica, utilisation_target(settings, decision)
    if slots is None:
        absent = Missing(Reason.NOT_CONFIGURED)
        return Term(absent, absent)
    at_target = target * slots
    down = pool.running.down(at_target, hold_share=decision.silent_hold_share)
    full = at_target * pool.ready
    return Term(_scaled(pool.running.up(), full), _scaled(down, full))


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
    target, ready = settings.kv_target, max(pool.ready, 1)
    up = _scaled(pool.kv_usage.up(), target * ready)
    down = _scaled(pool.kv_usage.down(target, hold_share=decision.silent_hold_share), target * ready)
    pressed = any(p.total + p.claimed > 0 for p in (pool.waiting, pool.preemptions_rps))
    unseen = pool.waiting.gap or pool.preemptions_rps.gap
    return Term(up if pressed else _at_most_one(up), down if pressed or unseen else _at_most_one(down))


def _scaled(reading: Reading, divisor: float) -> Reading:
    if not isinstance(reading, Known) or divisor <= 0:
        return reading if not isinstance(reading, Known) else Missing(Reason.NO_REPLICAS)
    return Known(reading.value / divisor, reading.age_s)


def _at_most_one(reading: Reading) -> Reading:
    return Known(min(reading.value, 1.0), reading.age_s) if isinstance(reading, Known) else reading


def _highest(*terms: tuple[str, Reading]) -> tuple[str, Reading]:
    """Return the largest known term with its name; with none known, the first absence, named `none`."""
    known = [(reading.value, name, reading) for name, reading in terms if isinstance(reading, Known)]
    if not known:
        return "none", terms[0][1]
    _, name, reading = max(known, key=lambda term: term[0])
    return name, reading


def _highest_of_all(*readings: Reading) -> Reading:
    """Return the largest reading, or the first gap: what is unknown may be the largest."""
    known = [r for r in readings if isinstance(r, Known)]
    for reading in readings:
        if not isinstance(reading, Known) and not (isinstance(reading, Missing) and reading.reason in BENIGN):
            return reading
    return max(known, key=lambda r: r.value, default=readings[0])
