"""What every plan store does, whatever it stores in."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from scaler.adapters.plan_store import FilePlanStore, MemoryPlanStore
from scaler.core.published import Heartbeat, PlanVersion
from scaler.core.values import WorkloadId
from scaler.ports import PlanStore, StoreError
from tests.api_rig import config_map_store, connected
from tests.api_server_double import ApiServerDouble
from tests.scaler_rig import CHAT, START_S, answer, stored

OTHER = WorkloadId("lab", "chat")
FIRST = stored({CHAT: answer(3), OTHER: answer(None, active=False, present=False, reason="silent")})
SECOND = stored({CHAT: answer(5)}, version=(1, 2), at_s=START_S + 15)


@pytest.fixture(params=["memory", "file", "config_map"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PlanStore]:
    kinds: dict[str, Callable[[], AbstractContextManager[PlanStore]]] = {
        "memory": lambda: nullcontext(MemoryPlanStore()),
        "file": lambda: nullcontext(FilePlanStore(tmp_path / "plan.json")),
        "config_map": _config_maps,
    }
    with kinds[request.param]() as made:
        yield made


@contextmanager
def _config_maps() -> Iterator[PlanStore]:
    with ApiServerDouble() as server, connected(server) as api, config_map_store(api) as made:
        yield made


async def test_nothing_stored(store: PlanStore) -> None:
    """Before the first publication there is no plan, which is not an error."""
    assert await store.load() is None


async def test_what_is_published_is_loaded(store: PlanStore) -> None:
    """Plan and heartbeat come back as they were, unknown values as unknown."""
    first = replace(FIRST, heartbeat=replace(FIRST.heartbeat, stopped={OTHER: START_S - 400}))
    await store.publish(first.plan, first.heartbeat)
    assert await store.load() == first


async def test_a_beat_refreshes(store: PlanStore) -> None:
    """A later heartbeat replaces the first one and leaves the plan."""
    await store.publish(FIRST.plan, FIRST.heartbeat)
    beat = replace(FIRST.heartbeat, at_s=START_S + 60, stopped={CHAT: START_S - 100})
    await store.beat(beat)
    assert await store.load() == replace(FIRST, heartbeat=beat)


async def test_a_beat_of_another_version_vouches_for_nothing(store: PlanStore) -> None:
    """A heartbeat of another plan does not make the stored one look fresh."""
    await store.publish(FIRST.plan, FIRST.heartbeat)
    with suppress(StoreError):  # a store may refuse it
        await store.beat(Heartbeat(PlanVersion(1, 9), START_S + 600, {}))
    assert await store.load() == FIRST


async def test_the_beat_of_the_plan_before_is_left_behind(store: PlanStore) -> None:
    """A new plan is not paired with the heartbeat of the old one."""
    await store.publish(FIRST.plan, FIRST.heartbeat)
    await store.beat(replace(FIRST.heartbeat, at_s=START_S + 600))
    await store.publish(SECOND.plan, SECOND.heartbeat)
    assert await store.load() == SECOND


async def test_an_older_beat_does_not_age_the_plan(store: PlanStore) -> None:
    """Of two heartbeats of one plan the later counts."""
    await store.publish(SECOND.plan, SECOND.heartbeat)
    await store.beat(replace(SECOND.heartbeat, at_s=START_S - 600))
    assert await store.load() == SECOND


async def test_a_beat_needs_a_plan(store: PlanStore) -> None:
    """There is nothing to vouch for before the first publication."""
    with pytest.raises(StoreError, match="a heartbeat needs a plan"):
        await store.beat(FIRST.heartbeat)
    assert await store.load() is None


async def test_a_pair_that_does_not_fit_is_refused(store: PlanStore) -> None:
    """A plan is not published with the heartbeat of another."""
    with pytest.raises(ValueError, match="heartbeat version must be the plan's"):
        await store.publish(FIRST.plan, SECOND.heartbeat)
    assert await store.load() is None


async def test_unchanged_is_told_by_identity(store: PlanStore) -> None:
    """A second look returns the very token of the first, whether or not there is a plan."""
    token, nothing = await store.load_if_changed(None)
    assert token is not None
    assert nothing is None
    assert (await store.load_if_changed(token))[0] is token
    await store.publish(FIRST.plan, FIRST.heartbeat)
    token, loaded = await store.load_if_changed(token)
    assert loaded == FIRST
    again, nothing = await store.load_if_changed(token)
    assert again is token
    assert nothing is None


async def test_publications_and_beats_are_changes(store: PlanStore) -> None:
    """Each write is seen by the next look."""
    await store.publish(FIRST.plan, FIRST.heartbeat)
    token, _ = await store.load_if_changed(None)
    await store.beat(replace(FIRST.heartbeat, at_s=START_S + 60))
    beaten, loaded = await store.load_if_changed(token)
    assert beaten is not token
    assert loaded is not None
    assert loaded.heartbeat.at_s == START_S + 60
    await store.publish(SECOND.plan, SECOND.heartbeat)
    published, loaded = await store.load_if_changed(beaten)
    assert published is not beaten
    assert loaded == SECOND


async def test_readers_beside_a_writer(store: PlanStore) -> None:
    """A reader never sees a part of a plan, nor a plan with the heartbeat of another, nor a step back."""
    done = asyncio.Event()

    async def write() -> None:
        for sequence in range(1, 40):
            item = stored({WorkloadId("n", f"w{i}"): answer(sequence) for i in range(50)}, version=(1, sequence))
            await store.publish(item.plan, item.heartbeat)
            await store.beat(replace(item.heartbeat, at_s=START_S + sequence))
        done.set()

    async def read() -> None:
        newest = PlanVersion(0, 0)
        while not done.is_set():
            await asyncio.sleep(0)
            loaded = await store.load()
            if loaded is None:
                continue
            assert loaded.heartbeat.version == loaded.plan.version >= newest
            assert {a.replicas for a in loaded.plan.answers.values()} == {loaded.plan.version.sequence}
            newest = loaded.plan.version

    await asyncio.gather(write(), read(), read())
    last = await store.load()
    assert last is not None
    assert last.plan.version == PlanVersion(1, 39)
