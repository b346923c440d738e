"""What may be answered from a plan, and when not."""

import asyncio
from dataclasses import replace

import pytest

from scaler.adapters.keda import holder as module
from scaler.adapters.keda.holder import Activation, PlanHolder, Refused
from scaler.core.published import PlanVersion
from scaler.core.values import WorkloadId
from tests.scaler_rig import CHAT, START_S, ManualClock, answer, stored

OTHER = WorkloadId("lab", "chat")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def holder(clock: ManualClock) -> PlanHolder:
    return PlanHolder(clock)


def refusal(holder: PlanHolder, workload: WorkloadId = CHAT) -> str:
    """Return why there is no number."""
    refused = holder.replicas(workload)
    assert isinstance(refused, Refused)
    return refused.reason


def test_no_plan_yet_is_not_an_unreadable_store(holder: PlanHolder) -> None:
    """A person learns which of the two it is, and only the first makes a scaler ready."""
    holder.unreadable("permission denied")
    assert refusal(holder) == "no_plan: the plan store cannot be read: permission denied"
    assert holder.ready() == (False, "no_plan: the plan store cannot be read: permission denied")
    holder.nothing_stored()
    assert refusal(holder) == "no_plan: no plan has been published yet"
    assert holder.ready()[0]
    assert holder.heartbeat_age_s() is None


@pytest.mark.parametrize("version", [(1, 4), (0, 99)])
def test_an_older_plan_is_refused(holder: PlanHolder, version: tuple[int, int]) -> None:
    """A deposed controller's plan changes nothing, however fresh it says it is."""
    assert holder.accept(stored({CHAT: answer(8)}, version=(1, 5)))
    assert not holder.accept(stored({CHAT: answer(1)}, version=version, at_s=START_S + 60))
    assert holder.replicas(CHAT) == 8
    assert holder.version == PlanVersion(1, 5)
    assert holder.refused_plans == 1


@pytest.mark.parametrize("version", [(1, 6), (2, 0)])
def test_a_newer_plan_is_accepted(holder: PlanHolder, version: tuple[int, int]) -> None:
    """A new epoch counts more than any sequence of the old one."""
    holder.accept(stored({CHAT: answer(8)}, version=(1, 5)))
    assert holder.accept(stored({CHAT: answer(1)}, version=version))
    assert holder.replicas(CHAT) == 1


def test_a_pair_that_does_not_fit_is_refused(holder: PlanHolder) -> None:
    """A plan that another plan's heartbeat vouches for is not trusted; the plan before keeps."""
    holder.accept(stored({CHAT: answer(8)}))
    newer = stored({CHAT: answer(1)}, version=(1, 2))
    assert not holder.accept(replace(newer, heartbeat=replace(newer.heartbeat, version=PlanVersion(1, 3))))
    assert holder.replicas(CHAT) == 8


def test_a_stale_heartbeat(holder: PlanHolder, clock: ManualClock) -> None:
    """A plan is answered from for its TTL after the last heartbeat, and not a second longer."""
    holder.accept(stored({CHAT: answer(8)}))
    clock.advance(300)
    assert holder.replicas(CHAT) == 8
    clock.advance(1)
    assert refusal(holder) == "stale_plan: last heartbeat must be <= 300 s old, was 301 s"
    assert holder.ready()[0]


def test_a_heartbeat_brings_a_stale_plan_back(holder: PlanHolder, clock: ManualClock) -> None:
    """An unchanged plan is as good as its last heartbeat."""
    plan = stored({CHAT: answer(8)})
    holder.accept(plan)
    clock.advance(1000)
    holder.accept(replace(plan, heartbeat=replace(plan.heartbeat, at_s=START_S + 990)))
    assert holder.replicas(CHAT) == 8
    assert holder.heartbeat_age_s() == 10


def test_the_age_is_the_heartbeats_own_when_loaded(holder: PlanHolder) -> None:
    """A scaler that starts beside an old plan does not take it for a fresh one."""
    holder.accept(stored({CHAT: answer(8)}, at_s=START_S - 3600))
    assert refusal(holder).startswith("stale_plan")


def test_loading_the_same_heartbeat_again_does_not_refresh(holder: PlanHolder, clock: ManualClock) -> None:
    """A file that was touched is no sign of a living controller, even when the wall clock was set back meanwhile."""
    plan = stored({CHAT: answer(8)})
    holder.accept(plan)
    clock.advance(299)
    clock.step(-299)
    holder.accept(plan)
    clock.advance(2)
    assert refusal(holder).startswith("stale_plan")


@pytest.mark.parametrize("step_s", [-86_400, 86_400])
def test_setting_the_wall_clock_changes_nothing(holder: PlanHolder, clock: ManualClock, step_s: float) -> None:
    """From loading on the age is monotonic."""
    holder.accept(stored({CHAT: answer(8)}))
    clock.step(step_s)
    assert holder.replicas(CHAT) == 8
    clock.advance(301)
    assert refusal(holder).startswith("stale_plan")


def test_a_heartbeat_from_the_future_is_not_fresh(holder: PlanHolder) -> None:
    """A clock that is an hour ahead says nothing about age."""
    holder.accept(stored({CHAT: answer(8)}, at_s=START_S + 3600))
    assert refusal(holder).startswith("stale_plan")


def test_stopped_evidence(holder: PlanHolder, clock: ManualClock) -> None:
    """A fresh plan made of old input is not fresh; the other workloads are not touched."""
    plan = stored({CHAT: answer(8), OTHER: answer(2)}, stopped={CHAT: START_S - 800})
    holder.accept(plan)
    assert holder.replicas(CHAT) == 8
    clock.advance(101)
    assert refusal(holder) == "stopped_evidence: evidence must be <= 900 s old, was 901 s"
    assert holder.replicas(OTHER) == 2
    holder.accept(replace(plan, heartbeat=replace(plan.heartbeat, at_s=START_S + 101, stopped={})))
    assert holder.replicas(CHAT) == 8


def test_evidence_is_measured_by_the_controllers_own_times(holder: PlanHolder, clock: ManualClock) -> None:
    """A controller whose clock differs does not make evidence look older than it is."""
    clock.step(100)
    holder.accept(stored({CHAT: answer(8)}, stopped={CHAT: START_S - 700}))
    assert holder.replicas(CHAT) == 8


def test_not_known_is_never_a_number(holder: PlanHolder) -> None:
    """A workload whose value is not known is refused with the decision's reason."""
    holder.accept(stored({CHAT: answer(None, reason="source_down")}))
    assert refusal(holder) == "source_down"


def test_a_known_zero_is_zero(holder: PlanHolder) -> None:
    """Zero replicas is an answer like any other when it was decided."""
    holder.accept(stored({CHAT: answer(0, active=False)}))
    assert holder.replicas(CHAT) == 0


def test_one_name_in_two_namespaces(holder: PlanHolder) -> None:
    """Namespace and name together are a workload."""
    holder.accept(stored({CHAT: answer(8), OTHER: answer(2)}))
    assert (holder.replicas(CHAT), holder.replicas(OTHER)) == (8, 2)
    assert refusal(holder, WorkloadId("else", "chat")) == "unknown_workload: else/chat is not in the plan"


@pytest.mark.parametrize(
    ("active", "present", "fresh", "unknown"),
    [(True, True, True, True), (True, False, True, True), (False, True, False, True), (False, False, False, False)],
)
def test_activity_keeps_what_is(
    holder: PlanHolder, clock: ManualClock, active: bool, present: bool, fresh: bool, unknown: bool
) -> None:
    """Known: what was decided. Unknown: replicas stay, else the last published activation counts."""
    holder.accept(stored({CHAT: answer(1, active=active, present=present)}))
    assert holder.active(CHAT) is fresh
    clock.advance(301)
    assert holder.active(CHAT) is unknown


def test_activity_without_a_value_keeps_what_is(holder: PlanHolder) -> None:
    """A workload that nothing is known about keeps the replicas that it has."""
    holder.accept(
        stored({CHAT: answer(None, active=False, present=True), OTHER: answer(None, active=False, present=False)})
    )
    assert holder.active(CHAT)
    assert not holder.active(OTHER)


def test_never_heard_of_is_inactive(holder: PlanHolder) -> None:
    """A restart with workloads at zero wakes none."""
    assert not holder.active(CHAT)
    holder.accept(stored({}))
    assert not holder.active(CHAT)
    assert not holder.knows(CHAT)


def test_a_workload_that_left_the_plan_keeps_its_activity(holder: PlanHolder) -> None:
    """It is refused a value, but not put to sleep, and its metadata has been valid once; a new answer replaces it."""
    holder.accept(stored({CHAT: answer(4), OTHER: answer(1)}))
    holder.accept(stored({OTHER: answer(1)}, version=(1, 2)))
    assert refusal(holder).startswith("unknown_workload")
    assert holder.active(CHAT)
    assert holder.knows(CHAT)
    holder.accept(stored({CHAT: answer(0, active=False, present=False)}, version=(1, 3)))
    assert not holder.active(CHAT)


def test_departed_workloads_are_bounded(holder: PlanHolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream of short-lived workloads does not fill the memory; the latest to leave are remembered."""
    monkeypatch.setattr(module, "MAX_DEPARTED", 3)
    names = [WorkloadId("n", f"w{i}") for i in range(10)]
    for sequence, name in enumerate(names):
        holder.accept(stored({name: answer(1)}, version=(1, sequence)))
    assert [name for name in names if holder.knows(name)] == names[-4:]


async def test_a_watch_is_woken_by_activation_only(holder: PlanHolder) -> None:
    """A change of replicas wakes no stream; a change of activation wakes those of that workload."""
    holder.accept(stored({CHAT: answer(1, active=False), OTHER: answer(1, active=False)}))
    with holder.watch(CHAT) as watch, holder.watch(OTHER) as other:
        holder.accept(stored({CHAT: answer(5, active=False), OTHER: answer(1, active=False)}, version=(1, 2)))
        assert not await watch.wait(0)
        holder.accept(stored({CHAT: answer(5, active=True), OTHER: answer(1, active=False)}, version=(1, 3)))
        assert await watch.wait(5)
        assert not await other.wait(0)
        assert holder.activation(CHAT) == Activation(wanted=True, present=True)
        holder.wake_all()
        assert await other.wait(5)
    assert not list(holder._watchers.workloads)


async def test_waiting_until_ready(holder: PlanHolder) -> None:
    """A scaler becomes ready once, by its first look at the store."""
    waiting = asyncio.create_task(holder.wait_ready())
    holder.unreadable("no such folder")
    await asyncio.sleep(0)
    assert not waiting.done()
    holder.accept(stored({CHAT: answer(1)}))
    await asyncio.wait_for(waiting, 5)
    holder.unreadable("no such folder")
    assert holder.ready() == (True, "holds plan 1.1")


@pytest.mark.parametrize(("ttl_s", "evidence_ttl_s"), [(0, 900), (300, 0), (float("nan"), 900)])
def test_limits_must_be_positive(clock: ManualClock, ttl_s: float, evidence_ttl_s: float) -> None:
    """A limit that nothing can meet, or everything, is refused."""
    with pytest.raises(ValueError, match="must be > 0"):
        PlanHolder(clock, ttl_s=ttl_s, evidence_ttl_s=evidence_ttl_s)
