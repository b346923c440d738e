"""One workload, one tick: from what was seen to what it should have, every adjustment on the trail."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from scaler.config.models import DecisionSettings, Mode, WorkloadSettings
from scaler.core import clamps
from scaler.core.claims import pool_within_reason
from scaler.core.conditions import missing_signals, notes_of
from scaler.core.demand import capacity_of, demand_of_pool, demand_of_queue, lead_time_s
from scaler.core.front import work_in_front, works_at_zero
from scaler.core.members import Members, members_of
from scaler.core.observation import ReplicaCounts, WorkloadObservation
from scaler.core.plan import Change, Recommendation, Saturation, Step
from scaler.core.pool import Pool
from scaler.core.quantum import rounded
from scaler.core.reactive import Load, Needs, needs_of
from scaler.core.saturation import saturation_of
from scaler.core.state import WorkloadState
from scaler.core.values import Known, Missing, Reading, Reason, WorkloadId

# Every decision asks for it, and a member is as slow to look up as a small object is to make.
_OBSERVE = Mode.OBSERVE


@dataclass(slots=True)
class Trail:
    """The target on its way through the steps. Kept are those that changed it, and those that always speak."""

    start: int
    target: int = field(init=False)
    steps: list[Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.target = self.start

    def apply(self, name: str, after: int, reason: str, *, always: bool = False) -> None:
        """Record what a step made of the target."""
        if always or after != self.target:
            self.steps.append(Step(name, self.target, after, reason))
            self.target = after

    def clamp(self, name: str, after: int, reason: Callable[[], str]) -> None:
        """Record what a clamp made of the target. Its reason is worded only when it acts: it seldom does."""
        if after != self.target:
            self.apply(name, after, reason())

    def reason(self) -> str:
        """Name the step that decided: the last one that moved the target, else the first one that spoke."""
        decided = self.steps[0]
        for step in self.steps:
            if step.before != step.after:
                decided = step
        return f"{decided.name}: {decided.reason}"


@dataclass(slots=True)
class Terms:
    """What a decision is made under: the workload's settings, the platform's, and the time (Unix seconds)."""

    workload: WorkloadId
    settings: WorkloadSettings
    decision: DecisionSettings
    now_s: float


@dataclass(slots=True)
class Facts:
    """What a recommendation shows beside its target: what was seen, and what it would have been."""

    counts: ReplicaCounts | Missing
    saturation: Saturation
    demand: Reading
    uncapped: int | Missing
    lower: int
    missing: tuple[str, ...]
    notes: tuple[str, ...]


def decide(
    state: WorkloadState | None, seen: WorkloadObservation, terms: Terms
) -> tuple[WorkloadState, Recommendation]:
    """Return the next state of a workload and its recommendation.

    What is unknown never lowers the target. `state` is None the first time that this engine sees the workload.
    """
    state = state or WorkloadState(first_seen_s=terms.now_s)
    if _interrupted(state, terms):
        state = replace(state, first_seen_s=terms.now_s)  # nobody looked: the windows must fill again
    if isinstance(seen.counts, Missing):
        return _without_view(state, seen, seen.counts, terms)
    return _with_view(state, seen, seen.counts, terms)


def _interrupted(state: WorkloadState, terms: Terms) -> bool:
    """Return whether no tick was decided within the hold window: a pause, failed ticks, a clock that was set."""
    longest = max(terms.decision.hold_s, terms.decision.stale_after_s)
    return bool(state.wishes) and not 0 <= terms.now_s - state.wishes[-1][0] <= longest


def bounds_of(settings: WorkloadSettings, *, works_at_zero: bool) -> tuple[int, int]:
    """Return the lowest and highest target; at least 1 where no demand source works at zero and could wake it."""
    lower = max(settings.min_replicas, 0 if works_at_zero else 1)
    return min(lower, settings.max_replicas), settings.max_replicas


def _with_view(
    state: WorkloadState, seen: WorkloadObservation, counts: ReplicaCounts, terms: Terms
) -> tuple[WorkloadState, Recommendation]:
    decision, now_s = terms.decision, terms.now_s
    load, members = _load_of(state, seen, counts, terms)
    needs = needs_of(load, terms.settings, decision)
    previous = _told_before(state, seen, counts) if state.unrounded is None else state.unrounded
    trail = Trail(previous)
    wish = _wish(trail, needs, load, rollout=seen.rollout)
    trail.apply("forecast", trail.target, f"absent: {seen.forecast.reason}", always=True)
    wishes = clamps.remembered(state.wishes or ((now_s, previous),), wish, decision.hold_s, now_s)
    bounds = bounds_of(terms.settings, works_at_zero=works_at_zero(seen.queue, seen.gateway))
    _clamp(trail, state, wishes, bounds, terms)
    unrounded = trail.target
    _round(trail, counts, bounds[1], terms)
    targets = state.targets or ((state.first_seen_s, previous),)
    next_state = WorkloadState(
        first_seen_s=state.first_seen_s,
        target=trail.target,
        unrounded=unrounded,
        wishes=wishes,
        targets=clamps.recorded(targets, unrounded, decision.rate.period_s, now_s),
        in_system=load.demand.in_system,
        members=members,
        last_evidence_s=_newest(_evidence_s(load, now_s), state.last_evidence_s),
        changed=_changed(trail, state, _told_before(state, seen, counts), now_s),
    )
    need = needs.down if isinstance(needs.down, int) else trail.target
    facts = Facts(
        counts=counts,
        saturation=load.saturation,
        demand=load.demand.up,
        uncapped=wish,
        lower=clamps.bounded(min(need, trail.target), *bounds),
        missing=missing_signals(load, terms.settings),
        notes=notes_of(load, rollout=seen.rollout),
    )
    return next_state, _recommendation(next_state, seen, trail.target, trail, terms, facts)


def _without_view(
    state: WorkloadState, seen: WorkloadObservation, absent: Missing, terms: Terms
) -> tuple[WorkloadState, Recommendation]:
    """Keep what was decided last, else what was published; with neither, say that nothing is known."""
    target = seen.published_target if state.target is None else state.target
    lower, upper = bounds_of(terms.settings, works_at_zero=works_at_zero(seen.queue, seen.gateway))
    if target is None:
        return state, _recommendation(state, seen, absent, None, terms, _unseen(absent, absent, lower))
    trail = Trail(target)
    trail.apply("hold", target, absent.reason.value, always=True)
    # Work that is known to wait wakes a workload at zero: its replicas are not needed to see that.
    in_front, work = work_in_front(seen.queue, seen.gateway)
    trail.apply("reactive", max(target, work), in_front)
    trail.apply("bounds", min(trail.target, upper), f"at most {upper}")  # a cap holds, whatever is not seen
    unrounded = min(max(target if state.unrounded is None else state.unrounded, work), upper)
    wishes = clamps.remembered(state.wishes, unrounded, terms.decision.hold_s, terms.now_s)
    changed = _changed(trail, state, target, terms.now_s)
    next_state = replace(state, target=trail.target, unrounded=unrounded, wishes=wishes, changed=changed)
    facts = _unseen(absent, trail.target, min(lower, trail.target))
    return next_state, _recommendation(next_state, seen, trail.target, trail, terms, facts)


def _unseen(absent: Missing, uncapped: int | Missing, lower: int) -> Facts:
    saturation = Saturation(absent, absent, absent, "none", {})
    return Facts(absent, saturation, absent, uncapped, lower, (f"replicas: {absent.reason}",), ())


def _load_of(
    state: WorkloadState, seen: WorkloadObservation, counts: ReplicaCounts, terms: Terms
) -> tuple[Load, Members | None]:
    settings, decision = terms.settings, terms.decision
    pool, implausible = pool_within_reason(seen.replicas, settings, decision)
    members = None
    if seen.queue:
        demand = demand_of_queue(seen.queue)
    else:
        members = members_of(state.members, seen.replicas, _oldest_sample_s(pool, terms.now_s), terms.now_s)
        since_s = members.comparable_from_s
        demand = demand_of_pool(pool, state.in_system, settings, decision, terms.now_s, seen.gateway, since_s)
    load = Load(
        pool=pool,
        queue=seen.queue,
        gateway=seen.gateway,
        saturation=saturation_of(pool, seen.queue, settings, decision),
        demand=demand,
        capacity=capacity_of(settings),
        counts=counts,
        implausible=implausible,
        drain_s=lead_time_s(settings, decision),
    )
    return load, members


def _oldest_sample_s(pool: Pool, now_s: float) -> float | None:
    """Return when the oldest sample of what is in the replicas was taken; None where there is none."""
    running, waiting = pool.running.up, pool.waiting.up
    if isinstance(running, Known) and isinstance(waiting, Known):
        return now_s - max(running.age_s, waiting.age_s)
    return None


def _told_before(state: WorkloadState, seen: WorkloadObservation, counts: ReplicaCounts) -> int:
    """Return the target in force: our own, else the one published before this start, else what the scale target has."""
    if state.target is not None:
        return state.target
    return counts.spec if seen.published_target is None else seen.published_target


def _wish(trail: Trail, needs: Needs, load: Load, *, rollout: bool) -> int:
    """Return what the load asks for, with every reason that keeps it from falling."""
    largest, previous = needs.largest, trail.target
    if largest is not None and largest[1] > previous:
        trail.apply("reactive", largest[1], largest[0], always=True)
        return trail.target
    down = needs.down
    if isinstance(down, Missing) or (hold := _hold(down, load, rollout=rollout)):
        trail.apply("hold", previous, down.reason.value if isinstance(down, Missing) else str(hold), always=True)
        return previous
    name = largest[0] if largest is not None and largest[1] >= down else "silent_at_target"
    trail.apply("reactive", min(down, previous), name, always=True)
    return trail.target


def _hold(down: int, load: Load, *, rollout: bool) -> str | None:
    """Return why nothing may fall although every number is known, or None."""
    if rollout:
        return "rollout"
    if load.counts.pending and down >= max(load.counts.ready, 1):
        return "pending_is_no_supply"
    return None


def _clamp(trail: Trail, state: WorkloadState, wishes: clamps.History, bounds: tuple[int, int], terms: Terms) -> None:
    """Take the target through the clamps, in their order."""
    decision, previous = terms.decision, trail.start
    held = min(clamps.stabilised(wishes), max(previous, trail.target))
    trail.clamp("stabilisation", max(held, trail.target), lambda: f"max of {decision.hold_s:g} s")
    if trail.target < previous and terms.now_s < clamps.downs_wait_until_s(state.first_seen_s, decision):
        trail.apply("start", previous, "windows_filling")
    trail.clamp("bounds", clamps.bounded(trail.target, *bounds), lambda: f"{bounds[0]}..{bounds[1]}")
    limited = clamps.rate_limited(trail.target, previous, state.targets, decision.rate, terms.now_s)
    # A limit on the rate never lifts a target back over a bound: a cap that was lowered holds at once.
    trail.clamp("rate", clamps.bounded(limited, *bounds), lambda: f"per {decision.rate.period_s:g} s")


def _round(trail: Trail, counts: ReplicaCounts, upper: int, terms: Terms) -> None:
    """Round the target to what the HPA does not ignore: the last step, of which nothing is remembered."""
    if (hpa := terms.settings.hpa) is None or hpa.tolerance_up == hpa.tolerance_down == 0:
        return
    after, why = rounded(trail.target, counts, upper, hpa, terms.decision.hpa_tolerance)
    trail.clamp("hpa", after, lambda: why)


def _changed(trail: Trail, state: WorkloadState, before: int, now_s: float) -> Change | None:
    return state.changed if trail.target == before else Change(now_s, before, trail.target, trail.reason())


def _evidence_s(load: Load, now_s: float) -> float | None:
    """Return when the load was last known, as of the oldest sample that this tick believed; None when none was.

    At zero replicas, or where all are silent, what a gateway sees arrive is what is known of the load.
    """
    reading: Reading = load.queue.waiting if load.queue else load.pool.running.up
    if load.gateway is not None and not isinstance(reading, Known):
        reading = load.gateway.arrivals_rps
    return now_s - reading.age_s if isinstance(reading, Known) else None


def _newest(now: float | None, before: float | None) -> float | None:
    return before if now is None else now if before is None else max(now, before)


def _recommendation(
    state: WorkloadState,
    seen: WorkloadObservation,
    target: int | Missing,
    trail: Trail | None,
    terms: Terms,
    facts: Facts,
) -> Recommendation:
    settings, decision = terms.settings, terms.decision
    since = state.first_seen_s if state.last_evidence_s is None else state.last_evidence_s
    return Recommendation(
        workload=terms.workload,
        mode=settings.mode.value,
        target=target,
        told=Missing(Reason.OBSERVE_MODE) if settings.mode is _OBSERVE else target,
        active=isinstance(target, int) and target >= 1,
        lower=facts.lower,
        upper=settings.max_replicas,
        uncapped=facts.uncapped,
        counts=facts.counts,
        saturation=facts.saturation,
        demand=facts.demand,
        capacity=capacity_of(settings),
        lead_time_s=lead_time_s(settings, decision),
        evidence_age_s=max(0.0, terms.now_s - since),
        missing=facts.missing,
        notes=facts.notes,
        forecast=seen.forecast,
        reason=trail.reason() if trail else "nothing_known",
        changed=state.changed,
        trail=tuple(trail.steps) if trail else (),
    )
