"""Following a plan store."""

import asyncio

import pytest

from scaler.adapters.keda.follow import PlanFollower
from scaler.adapters.keda.holder import PlanHolder, Refused
from scaler.adapters.plan_store import MemoryPlanStore
from scaler.core.published import StoredPlan
from scaler.ports import StoreError
from tests.scaler_rig import CHAT, ManualClock, answer, stored

PLAN = stored({CHAT: answer(3)})


class FaultyStore(MemoryPlanStore):
    """A store that raises what it is told to, and says when it was looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.fault: Exception | None = None
        self.looked = asyncio.Event()

    async def load_if_changed(self, seen: object) -> tuple[object, StoredPlan | None]:
        self.looked.set()
        if self.fault is not None:
            raise self.fault
        return await super().load_if_changed(seen)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store() -> FaultyStore:
    return FaultyStore()


@pytest.fixture
def holder(clock: ManualClock) -> PlanHolder:
    return PlanHolder(clock)


@pytest.fixture
def follower(store: FaultyStore, holder: PlanHolder) -> PlanFollower:
    return PlanFollower(store, holder, poll_s=0.001)


async def test_it_brings_what_is_published(store: FaultyStore, holder: PlanHolder, follower: PlanFollower) -> None:
    """First that there is no plan, then the plan, then the next one."""
    await follower.poll()
    assert holder.ready() == (True, "no_plan: no plan has been published yet")
    await store.publish(PLAN.plan, PLAN.heartbeat)
    await follower.poll()
    assert holder.replicas(CHAT) == 3
    following = stored({CHAT: answer(4)}, version=(1, 2))
    await store.publish(following.plan, following.heartbeat)
    await follower.poll()
    assert holder.replicas(CHAT) == 4


@pytest.mark.parametrize("fault", [StoreError("disk is gone"), RuntimeError("a fault of the store")])
async def test_an_unreadable_store_keeps_the_plan_until_its_ttl(
    store: FaultyStore, holder: PlanHolder, follower: PlanFollower, clock: ManualClock, fault: Exception
) -> None:
    """Errors are counted and change nothing of what is held, whose time still runs out."""
    await store.publish(PLAN.plan, PLAN.heartbeat)
    await follower.poll()
    store.fault = fault
    for _ in range(3):
        await follower.poll()
    assert holder.store_errors == 3
    assert holder.replicas(CHAT) == 3
    clock.advance(301)
    await follower.poll()
    refused = holder.replicas(CHAT)
    assert isinstance(refused, Refused)
    assert refused.reason.startswith("stale_plan")


async def test_a_vanished_plan_keeps_until_its_ttl(
    store: FaultyStore, holder: PlanHolder, follower: PlanFollower
) -> None:
    """An empty store after a full one is no reason to forget."""
    await store.publish(PLAN.plan, PLAN.heartbeat)
    await follower.poll()
    store._stored, store._token = None, object()
    await follower.poll()
    assert holder.replicas(CHAT) == 3


async def test_a_recovered_store_is_read_anew(store: FaultyStore, holder: PlanHolder, follower: PlanFollower) -> None:
    """After an error the reason goes back to what the store says, even when nothing was written meanwhile."""
    await follower.poll()
    store.fault = StoreError("disk is gone")
    await follower.poll()
    assert holder.ready()[1] == "no_plan: the plan store cannot be read: disk is gone"
    store.fault = None
    await follower.poll()
    assert holder.ready()[1] == "no_plan: no plan has been published yet"


async def test_an_older_plan_in_the_store_is_refused(
    store: FaultyStore, holder: PlanHolder, follower: PlanFollower
) -> None:
    """A deposed controller that overwrites the store does not reach KEDA."""
    await store.publish(PLAN.plan, PLAN.heartbeat)
    await follower.poll()
    older = stored({CHAT: answer(1)}, version=(0, 7))
    await store.publish(older.plan, older.heartbeat)
    await follower.poll()
    assert holder.replicas(CHAT) == 3
    assert holder.refused_plans == 1


async def test_running_survives_faults(store: FaultyStore, holder: PlanHolder, follower: PlanFollower) -> None:
    """The loop goes on after an error and picks up the plan when it can."""
    store.fault = RuntimeError("a fault of the store")
    running = asyncio.create_task(follower.run())
    try:
        await asyncio.wait_for(store.looked.wait(), 5)
        store.fault = None
        await store.publish(PLAN.plan, PLAN.heartbeat)
        await asyncio.wait_for(holder.wait_ready(), 5)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert holder.store_errors >= 1
