"""The controller's tick: observe, decide, publish, checkpoint. The numbers are made in `scaler.core.engine.step` alone.

Nothing here decides: a tick that fails leaves the published plan as it is, and the scalers answer from it until its
heartbeat is too old.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from scaler.core.engine import StepResult, step
from scaler.core.observation import Observation, WorkloadObservation
from scaler.core.plan import Plan
from scaler.core.published import Answer, Heartbeat, PlanVersion, PublishedPlan, answers_of, stopped_evidence
from scaler.core.state import EngineState, resumed
from scaler.core.values import Missing, Reason, WorkloadId
from scaler.ports import Clock, DamagedError, Leadership, Observer, PlanStore, PolicySource, StateStore, StoreError

NO_SETTINGS: Final = "no_settings"


@dataclass(frozen=True, slots=True)
class Ports:
    """What a controller is connected to."""

    policies: PolicySource
    observer: Observer
    plans: PlanStore
    states: StateStore
    leadership: Leadership
    clock: Clock
    refused: Callable[[], Collection[WorkloadId]] = tuple  # workloads that exist and whose manifests cannot be used
    out_of_sight: Callable[[], Collection[str]] = tuple  # namespaces whose manifests cannot be read


@dataclass(frozen=True, slots=True)
class TickReport:
    """What one tick did, for logs, metrics and `/plan`."""

    plan: Plan
    version: PlanVersion | None  # of what was last published, or tried; None before the first publication
    leading: bool
    published: bool  # the answers had changed, and were written
    took_s: float  # on the wall
    problems: tuple[str, ...] = ()  # what could not be seen or written, one line each


class Controller:
    """Runs ticks over the ports. One tick at a time: the caller sees to that (see `ticks.py`)."""

    def __init__(self, ports: Ports, *, heartbeat_s: float = 60.0) -> None:
        self._ports = ports
        self._heartbeat_s = heartbeat_s
        self._state: EngineState | None = None  # None until loaded
        self._baseline: dict[WorkloadId, int] = {}  # what was published before this start
        self._before: Mapping[WorkloadId, Answer] = {}  # what was published last, by whomever
        self._version: PlanVersion | None = None
        self._answers: dict[WorkloadId, Answer] | None = None  # as published by this controller
        self._beat_due_s = 0.0
        self._damage = ""  # what was wrong with the plan that was published before
        self._led: int | None = None  # the epoch that the last tick led in
        self.last: TickReport | None = None

    @property
    def ready(self) -> tuple[bool, str]:
        """Whether a first plan has been made. Leading is no condition: a standby is ready too."""
        return (True, "plan made") if self.last else (False, "no tick yet")

    async def tick(self) -> TickReport:
        """Run one tick and return its report. StoreError while what was published before cannot be read."""
        clock = self._ports.clock
        began_s = clock.monotonic_s()
        led = _epoch_led(self._ports.leadership)
        state = await self._state_to_start_from(begins_to_lead=led is not None and led != self._led)
        policy, now_s = self._ports.policies.current(), clock.now_s()
        observation = self._with_baseline(await self._ports.observer.observe(policy.workloads, now_s))
        # In a thread, so that probes and `/plan` are answered while ten thousand workloads are decided about.
        result: StepResult = await asyncio.to_thread(step, state, observation, policy, now_s)
        # Only now is the start over: a tick that failed before leaves it to the next one.
        self._state, self._baseline, self._led = result.state, {}, led
        problems = [*([self._damage] if self._damage else []), *self._ports.observer.problems]
        self._damage = ""
        published = await self._publish(result.plan, policy.decision.stale_after_s, problems)
        report = TickReport(
            plan=result.plan,
            version=self._version,
            leading=self._ports.leadership.leading,
            published=published,
            took_s=clock.wall_duration(clock.monotonic_s() - began_s),
            problems=tuple(problems),
        )
        self.last = report
        return report

    def checkpoint(self) -> None:
        """Save the state; StoreError when it cannot be saved. Does nothing before the first tick."""
        if self._state is not None:
            self._ports.states.save(self._state)

    async def _state_to_start_from(self, *, begins_to_lead: bool) -> EngineState:
        """Return the state of the last tick; at a start, and on beginning to lead, a state to start with.

        Whoever led before may have published other targets than ours: they are what is in force.
        """
        if self._state is not None and not begins_to_lead:
            return self._state
        await self._read_published()
        state = self._ports.states.load() if self._state is None else self._state
        return resumed(state, self._ports.clock.now_s())

    async def _read_published(self) -> None:
        """Take the published plan as what is in force, and its version as the one to be newer than.

        One that is damaged for good must not keep every leader to come from publishing another: then the scale targets
        are what is in force, and the store's fencing sees to the version.
        """
        try:
            stored = await self._ports.plans.load()
        except DamagedError as error:
            stored, self._damage = None, f"plan_store: {error}"
        self._answers = None
        if stored is not None:
            self._version, self._before = stored.plan.version, stored.plan.answers
            answers = stored.plan.answers.items()
            self._baseline = {key: answer.replicas for key, answer in answers if answer.replicas is not None}

    def _with_baseline(self, observation: Observation) -> Observation:
        """Add what was published before this start to each workload that has no target of its own yet."""
        if not self._baseline:
            return observation
        workloads = dict(observation.workloads)
        for key, target in self._baseline.items():
            seen = workloads.get(key, WorkloadObservation(counts=Missing(Reason.NOT_OBSERVED)))
            workloads[key] = replace(seen, published_target=target)
        return Observation(workloads)

    async def _publish(self, plan: Plan, stale_after_s: float, problems: list[str]) -> bool:
        """Write the plan if its answers changed, else a heartbeat that is due; return whether the plan was written."""
        if self._led is None or _epoch_led(self._ports.leadership) != self._led:
            return False  # not ours to publish, or no longer: what was decided started from another's plan
        answers = self._without_settings(plan) | answers_of(plan)
        stopped = stopped_evidence(plan, stale_after_s)
        if plan.at_s < self._beat_due_s - self._heartbeat_s:
            self._answers = None  # the clock was set back: no later heartbeat would count until it has caught up
        try:
            if answers != self._answers:
                await self._write(plan, answers, stopped)
                return True
            if plan.at_s >= self._beat_due_s and self._version is not None:
                await self._ports.plans.beat(Heartbeat(self._version, plan.at_s, stopped))
                self._beat_due_s = plan.at_s + self._heartbeat_s
        except StoreError as error:
            self._answers = None  # whatever the store still holds, the whole plan is written as soon as it takes it
            problems.append(f"plan_store: {error}")
        return False

    def _without_settings(self, plan: Plan) -> dict[WorkloadId, Answer]:
        """Return answers for workloads that were published and whose manifests cannot be used or seen since then.

        No number is known for them; that they have replicas is. A scaler that starts now must not call them inactive.
        So it is with all of them where there is no workload any more: an API server that has just started knows no
        ScaledObjects either, and of one that is gone nobody asks.
        """
        refused, hidden = self._ports.refused(), self._ports.out_of_sight()
        held = {
            key: was
            for key, was in self._before.items()
            if not plan.recommendations or key in refused or key.namespace in hidden
        }
        return {key: replace(was, replicas=None, reason=NO_SETTINGS) for key, was in held.items()}

    async def _write(self, plan: Plan, answers: dict[WorkloadId, Answer], stopped: dict[WorkloadId, float]) -> None:
        version = _next_version(self._version, self._led or 0, plan.at_s)
        # Used up whatever comes of it: a write that failed may have arrived, and one version must never name two plans.
        self._version = version
        beat = Heartbeat(version, plan.at_s, stopped)
        await self._ports.plans.publish(PublishedPlan(version, answers), beat)
        self._answers = self._before = answers
        self._beat_due_s = plan.at_s + self._heartbeat_s


def _epoch_led(leadership: Leadership) -> int | None:
    """Return the epoch in which this controller leads. Leading again in a later one is a new beginning."""
    return leadership.epoch if leadership.leading else None


def _next_version(current: PlanVersion | None, epoch: int, now_s: float) -> PlanVersion:
    """Return a version above the current one: scalers accept no older plan.

    Where there is no current one, the store may have been lost while scalers live on. Sequences then start from the
    time, which is above what any store counted up to with a plan every few seconds. StoreError where a later leader has
    published: who is not elected (epoch 0) goes on in whatever epoch there is, but nobody publishes in another's.
    """
    if current is None:
        return PlanVersion(epoch, int(now_s))
    if current.epoch < epoch:
        return PlanVersion(epoch, 1)
    if current.epoch > epoch > 0:
        raise StoreError(f"epoch must be at least that of the published plan ({current.epoch}), was {epoch}")
    return PlanVersion(current.epoch, current.sequence + 1)
