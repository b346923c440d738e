"""The controller's tick over ports: what is published when, and how a start and a failing store go."""

from dataclasses import dataclass, field, replace

import pytest

from scaler.adapters.plan_store import MemoryPlanStore
from scaler.adapters.state_store import MemoryStateStore
from scaler.config.models import Policy, WorkloadSettings
from scaler.core.observation import Observation, ReplicaCounts, WorkloadObservation
from scaler.core.published import Answer, Heartbeat, PlanVersion, PublishedPlan, StoredPlan
from scaler.core.values import Missing, Reason, WorkloadId
from scaler.ports import DamagedError, Leadership, StoreError
from scaler.runtime.control import Controller, Ports
from scaler.runtime.leadership import SoleLeadership
from scaler.runtime.policy import FixedPolicy
from tests.core_builders import CHAT, T0, replica, replicas, seen, workload

DRAW = WorkloadId("demo", "draw")
BUSY = seen(replicas(4, running=32, waiting=40, completions_rps=5))
CALM = seen(replicas(4, running=27, completions_rps=4.2))
IDLE = seen(replicas(4, running=0, kv_usage=0, completions_rps=0))


@dataclass
class HandClock:
    """A clock that the test turns."""

    at_s: float = T0

    def now_s(self) -> float:
        """Return the time that the test set."""
        return self.at_s

    monotonic_s = now_s

    def from_wall(self, wall_s: float) -> float:
        """Return the same time."""
        return wall_s

    def wall_duration(self, duration_s: float) -> float:
        """Return the same duration."""
        return duration_s


@dataclass
class ScriptedObserver:
    """Sees what the test says."""

    sees: WorkloadObservation = CALM
    problems: tuple[str, ...] = ()

    async def observe(self, workloads: tuple[WorkloadSettings, ...], now_s: float) -> Observation:
        """Return the scripted observation of the one workload."""
        return Observation({CHAT: self.sees})


class BreakableStore(MemoryPlanStore):
    """A plan store whose writes or reads fail while the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.broken = False
        self.plans = 0
        self.beats = 0

    async def publish(self, plan: PublishedPlan, heartbeat: Heartbeat) -> None:
        """Publish, or fail."""
        self._check()
        self.plans += 1
        await super().publish(plan, heartbeat)

    async def beat(self, heartbeat: Heartbeat) -> None:
        """Beat, or fail."""
        self._check()
        self.beats += 1
        await super().beat(heartbeat)

    async def load(self) -> StoredPlan | None:
        """Load, or fail."""
        self._check()
        return await super().load()

    def _check(self) -> None:
        if self.broken:
            raise StoreError("the store is broken")


@dataclass
class Rig:
    """A controller with everything around it in the test's hands."""

    observer: ScriptedObserver = field(default_factory=ScriptedObserver)
    plans: BreakableStore = field(default_factory=BreakableStore)
    states: MemoryStateStore = field(default_factory=MemoryStateStore)
    leadership: Leadership = field(default_factory=SoleLeadership)
    clock: HandClock = field(default_factory=HandClock)

    def controller(self) -> Controller:
        """Start a controller on what is there."""
        policies = FixedPolicy(Policy(workloads=(workload(),)))
        return Controller(Ports(policies, self.observer, self.plans, self.states, self.leadership, self.clock))

    async def stored(self) -> StoredPlan:
        """Return what the scalers would read."""
        stored = await MemoryPlanStore.load(self.plans)
        assert stored is not None
        return stored


async def test_a_plan_is_written_when_answers_change_and_beaten_when_they_do_not() -> None:
    """Four minutes of calm write one plan and a heartbeat a minute; a surge writes the next one."""
    rig = Rig()
    controller = rig.controller()
    for _ in range(17):
        await controller.tick()
        rig.clock.at_s += 15
    assert (rig.plans.plans, rig.plans.beats) == (1, 4)
    rig.observer.sees = BUSY
    report = await controller.tick()
    assert report.published
    assert rig.plans.plans == 2
    assert (await rig.stored()).plan.version == PlanVersion(0, int(T0) + 1)


async def test_stopped_evidence_is_named_in_the_heartbeat() -> None:
    """An unchanged plan on input of hours ago must not look fresh."""
    rig = Rig()
    controller = rig.controller()
    await controller.tick()
    rig.observer.sees = seen([replica(running=Missing(Reason.SOURCE_DOWN))], counts=ReplicaCounts(4, 4))
    for _ in range(20):
        rig.clock.at_s += 15
        await controller.tick()
    assert (await rig.stored()).heartbeat.stopped == {CHAT: T0}


async def test_a_restart_in_a_surge_starts_from_the_published_target() -> None:
    """The new controller's plan is newer, holds the surge, and acts on more at once."""
    rig = Rig(observer=ScriptedObserver(BUSY))
    first = rig.controller()
    for _ in range(5):
        await first.tick()
        rig.clock.at_s += 15
    before = (await rig.stored()).plan
    peak = before.answers[CHAT].replicas
    assert peak is not None
    assert peak > 4
    first.checkpoint()

    rig.observer.sees = replace(IDLE, counts=ReplicaCounts(spec=peak, ready=4, pending=peak - 4))
    second = rig.controller()
    report = await second.tick()
    assert report.plan.recommendations[CHAT].target == peak
    after = (await rig.stored()).plan
    assert after.version > before.version
    assert after.answers[CHAT].replicas == peak

    rig.observer.sees = seen(replicas(peak, running=32, waiting=500, completions_rps=5))
    rig.clock.at_s += 15
    grown = (await second.tick()).plan.recommendations[CHAT].target
    assert isinstance(grown, int)
    assert grown > peak


async def test_a_store_that_cannot_be_read_at_the_start_stops_the_start_only() -> None:
    """Without what was published nothing is decided: a plan from an empty start could lower a target."""
    rig = Rig()
    answers = {CHAT: Answer(replicas=9, reason="surge", active=True, present=True)}
    version = PlanVersion(0, 7)
    await rig.plans.publish(PublishedPlan(version, answers), Heartbeat(version, T0, {}))
    rig.plans.broken = True
    controller = rig.controller()
    with pytest.raises(StoreError):
        await controller.tick()
    assert controller.ready == (False, "no tick yet")
    rig.plans.broken = False
    report = await controller.tick()
    assert report.plan.recommendations[CHAT].target == 9
    assert (await rig.stored()).plan.version == PlanVersion(0, 8)


async def test_a_plan_that_could_not_be_written_is_written_at_the_next_tick() -> None:
    """The problem is reported, and the change is not forgotten."""
    rig = Rig()
    controller = rig.controller()
    await controller.tick()
    rig.plans.broken, rig.observer.sees = True, BUSY
    report = await controller.tick()
    assert report.problems == ("plan_store: the store is broken",)
    assert not report.published
    rig.plans.broken = False
    assert (await controller.tick()).published


async def test_who_does_not_lead_decides_and_publishes_nothing() -> None:
    """A hot standby runs the same loop."""
    rig = Rig(leadership=SoleLeadership(leading=False))
    controller = rig.controller()
    report = await controller.tick()
    assert report.plan.recommendations[CHAT].target == 4
    assert controller.ready[0]
    assert await MemoryPlanStore.load(rig.plans) is None


async def test_a_new_epoch_starts_its_own_sequence() -> None:
    """After a change of leader the epoch orders the plans."""
    rig = Rig()
    await rig.controller().tick()
    rig.leadership = SoleLeadership(epoch=3)
    await rig.controller().tick()
    assert (await rig.stored()).plan.version == PlanVersion(3, 1)


@dataclass
class HandLeadership:
    """Leadership that the test gives and takes."""

    epoch: int = 1
    leading: bool = True


async def test_who_leads_again_starts_from_what_was_published_meanwhile() -> None:
    """The other controller published 9 in its epoch; ours, which would have 4, holds the 9 and is newer."""
    leadership = HandLeadership()
    rig = Rig(leadership=leadership)
    controller = rig.controller()
    assert (await controller.tick()).plan.recommendations[CHAT].target == 4
    leadership.leading = False
    rig.clock.at_s += 600
    await controller.tick()
    theirs = PlanVersion(2, 7)
    answer = Answer(replicas=9, reason="", active=True, present=True)
    await rig.plans.publish(PublishedPlan(theirs, {CHAT: answer}), Heartbeat(theirs, rig.clock.at_s, {}))

    leadership.epoch, leadership.leading = 3, True
    rig.clock.at_s += 15
    assert (await controller.tick()).plan.recommendations[CHAT].target == 9
    assert (await rig.stored()).plan.version == PlanVersion(3, 1)


async def test_a_plan_store_that_was_lost_is_filled_with_a_newer_plan() -> None:
    """Scalers that live on hold a plan of the lost store, and take nothing older."""
    rig = Rig()
    controller = rig.controller()
    for sees in (CALM, BUSY, CALM):
        rig.observer.sees = sees
        await controller.tick()
        rig.clock.at_s += 400
    lost = (await rig.stored()).plan.version
    rig.plans = BreakableStore()
    await rig.controller().tick()
    assert (await rig.stored()).plan.version > lost


async def test_a_plan_file_that_vanished_is_written_again() -> None:
    """The heartbeat finds nothing to vouch for; the next tick writes the whole plan."""

    class Forgetful(BreakableStore):
        async def beat(self, heartbeat: Heartbeat) -> None:
            raise StoreError("a heartbeat needs a plan, and none is stored")

    rig = Rig(plans=Forgetful())
    controller = rig.controller()
    await controller.tick()
    rig.clock.at_s += 60
    assert (await controller.tick()).problems
    rig.clock.at_s += 15
    assert (await controller.tick()).published


async def test_a_clock_that_is_set_back_does_not_stop_the_plan() -> None:
    """An earlier heartbeat counts for nothing, so the plan is published anew."""
    rig = Rig()
    controller = rig.controller()
    await controller.tick()
    rig.clock.at_s -= 3600
    assert (await controller.tick()).published


async def test_a_published_workload_that_is_not_seen_keeps_its_answer() -> None:
    """Neither the cluster view nor the metrics know it: the answer stays what it was."""
    rig = Rig()
    first = rig.controller()
    await first.tick()

    class Blind(ScriptedObserver):
        async def observe(self, workloads: tuple[WorkloadSettings, ...], now_s: float) -> Observation:
            return Observation({})

    rig.observer = Blind()
    report = await rig.controller().tick()
    assert report.plan.recommendations[CHAT].target == 4
    assert WorkloadId("demo", "chat") in (await rig.stored()).plan.answers


async def test_who_lost_the_lead_and_has_it_again_between_two_ticks_starts_anew() -> None:
    """A whole term of another controller fits between two ticks: its plan is in force, not what we had before it."""
    leadership = HandLeadership()
    rig = Rig(leadership=leadership)
    controller = rig.controller()
    await controller.tick()
    theirs = PlanVersion(2, 1)
    await rig.plans.publish(
        PublishedPlan(theirs, {CHAT: Answer(7, "", active=True, present=True)}), Heartbeat(theirs, rig.clock.at_s, {})
    )

    leadership.epoch = 3
    rig.clock.at_s += 15
    assert (await controller.tick()).plan.recommendations[CHAT].target == 7
    assert (await rig.stored()).plan.version.epoch == 3


async def test_a_plan_that_was_decided_before_a_change_of_leader_is_not_published() -> None:
    """The lead is lost and won back while the tick runs: what it decided started from another's plan."""
    leadership = HandLeadership()
    rig = Rig(leadership=leadership)

    class Interrupting(ScriptedObserver):
        async def observe(self, workloads: tuple[WorkloadSettings, ...], now_s: float) -> Observation:
            leadership.epoch += 2
            return await super().observe(workloads, now_s)

    rig.observer = Interrupting()
    report = await rig.controller().tick()
    assert not report.published
    assert rig.plans.plans == 0


async def test_a_version_that_may_have_been_written_is_not_used_again() -> None:
    """A write that failed may have arrived: the next plan is newer than it, with other content or not."""

    class Doubtful(BreakableStore):
        async def publish(self, plan: PublishedPlan, heartbeat: Heartbeat) -> None:
            await super().publish(plan, heartbeat)
            if self.plans == 1:
                raise StoreError("no answer")

    rig = Rig(plans=Doubtful())
    controller = rig.controller()
    assert not (await controller.tick()).published
    first = (await rig.stored()).plan.version
    rig.clock.at_s += 15
    assert (await controller.tick()).published
    assert (await rig.stored()).plan.version > first


async def test_nobody_publishes_in_the_epoch_of_a_later_leader() -> None:
    """A plan of a later epoch is in the store: an elected controller of an earlier one leaves it alone."""
    rig = Rig(leadership=HandLeadership(epoch=2))
    theirs = PlanVersion(3, 5)
    answer = Answer(7, "", active=True, present=True)
    await rig.plans.publish(PublishedPlan(theirs, {CHAT: answer}), Heartbeat(theirs, rig.clock.at_s, {}))
    rig.observer.sees = BUSY
    report = await rig.controller().tick()
    assert not report.published
    assert "epoch must be at least" in report.problems[0]
    assert (await rig.stored()).plan.version == theirs


async def test_a_plan_that_is_damaged_for_good_is_replaced() -> None:
    """Who begins to lead takes the scale target for what is in force, says what it found, and publishes anew."""
    rig = Rig()

    async def damaged() -> StoredPlan | None:
        raise DamagedError("a part of the plan is gone")

    rig.plans.load = damaged  # type: ignore[method-assign]  # as a store behaves whose content somebody deleted
    controller = rig.controller()
    report = await controller.tick()
    assert report.published
    assert report.problems == ("plan_store: a part of the plan is gone",)
    assert (await rig.stored()).plan.answers[CHAT].replicas == 4
    assert (await controller.tick()).problems == ()


async def test_a_restart_with_a_spoilt_manifest_keeps_the_workload_active() -> None:
    """Of who was in the plan and has no settings now it stays known that it has replicas, until it is gone."""
    rig, refused = Rig(), {DRAW}
    answers = {
        CHAT: Answer(4, "", active=True, present=True),
        DRAW: Answer(2, "", active=True, present=True),
        WorkloadId("demo", "gone"): Answer(2, "", active=True, present=True),
    }
    version = PlanVersion(0, 7)
    await rig.plans.publish(PublishedPlan(version, answers), Heartbeat(version, T0, {}))
    policies = FixedPolicy(Policy(workloads=(workload(),)))
    ports = Ports(
        policies, rig.observer, rig.plans, rig.states, rig.leadership, rig.clock, refused=lambda: tuple(refused)
    )
    controller = Controller(ports)
    held = Answer(None, "no_settings", active=True, present=True)
    for _ in range(2):
        await controller.tick()
        assert (await rig.stored()).plan.answers == {CHAT: Answer(4, "", active=True, present=True), DRAW: held}
    assert rig.plans.plans == 2  # the one of before, and one
    refused.clear()
    await controller.tick()
    assert set((await rig.stored()).plan.answers) == {CHAT}
    refused |= {WorkloadId("demo", "never-valid")}
    assert not (await controller.tick()).published


async def test_a_namespace_out_of_sight_keeps_what_was_published_of_it_active() -> None:
    """Nobody knows its manifests since the start: they have replicas, how many nobody says; others go as ever."""
    rig, hidden = Rig(), {"left"}
    left, gone = WorkloadId("left", "chat"), WorkloadId("demo", "gone")
    version, answer = PlanVersion(0, 7), Answer(4, "", active=True, present=True)
    published = PublishedPlan(version, {CHAT: answer, left: answer, gone: answer})
    await rig.plans.publish(published, Heartbeat(version, T0, {}))
    policies = FixedPolicy(Policy(workloads=(workload(),)))
    ports = Ports(policies, rig.observer, rig.plans, rig.states, rig.leadership, rig.clock, out_of_sight=lambda: hidden)
    controller = Controller(ports)
    for _ in range(2):
        await controller.tick()
        held = Answer(None, "no_settings", active=True, present=True)
        assert (await rig.stored()).plan.answers == {CHAT: answer, left: held}
    hidden.clear()
    await controller.tick()
    assert (await rig.stored()).plan.answers == {CHAT: answer}


async def test_a_cluster_that_shows_no_workload_makes_none_inactive() -> None:
    """An API server that has just started knows no ScaledObjects: what was published stays active, without number."""
    rig = Rig()
    version = PlanVersion(0, 1)
    answer = Answer(3, "", active=True, present=True)
    await rig.plans.publish(PublishedPlan(version, {CHAT: answer}), Heartbeat(version, rig.clock.at_s, {}))
    ports = Ports(FixedPolicy(Policy()), rig.observer, rig.plans, rig.states, rig.leadership, rig.clock)
    controller = Controller(ports)
    for _ in range(2):
        await controller.tick()
        rig.clock.at_s += 15
        assert (await rig.stored()).plan.answers == {CHAT: Answer(None, "no_settings", active=True, present=True)}
