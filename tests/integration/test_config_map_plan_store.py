"""The plan store of a cluster on its bad days: what is written when, torn plans, lost answers, two who would lead."""

import asyncio
import base64
import hashlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import orjson
import pytest

from scaler.adapters.kubernetes.api import ApiConnection
from scaler.adapters.kubernetes.plan_maps import PlanStoreSettings
from scaler.adapters.kubernetes.plan_shards import MAX_SHARD_BYTES, pack
from scaler.adapters.kubernetes.plan_store import ConfigMapPlanStore
from scaler.core.published import Heartbeat, StoredPlan
from scaler.core.values import WorkloadId
from scaler.ports import DamagedError, StoreError
from tests.api_rig import config_map_store, connected
from tests.api_server_double import ApiServerDouble, Fault
from tests.cluster_view_rig import until as wait_until
from tests.scaler_rig import START_S, ManualClock, answer, stored

MAPS = "/api/v1/namespaces/headway/configmaps"
INDEX = f"{MAPS}/headway-plan"
WORKLOADS = [WorkloadId(f"team-{number % 5}", f"model-{number}") for number in range(200)]
LIMIT_S = 60.0


@pytest.fixture
def server() -> Iterator[ApiServerDouble]:
    with ApiServerDouble() as double:
        yield double


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def api(server: ApiServerDouble, clock: ManualClock) -> Iterator[ApiConnection]:
    with connected(server, clock) as connection:
        yield connection


@pytest.fixture
def store(api: ApiConnection) -> Iterator[ConfigMapPlanStore]:
    with config_map_store(api) as made:
        yield made


@pytest.fixture
def other(api: ApiConnection) -> Iterator[ConfigMapPlanStore]:
    """Of another controller."""
    with config_map_store(api, "controller-b") as made:
        yield made


@pytest.fixture
def reader(api: ApiConnection) -> Iterator[ConfigMapPlanStore]:
    with config_map_store(api, "scaler") as made:
        yield made


def plan(sequence: int, *, epoch: int = 1, replicas: int = 3, at_s: float = START_S, **changed: int) -> StoredPlan:
    answers = {key: answer(changed.get(key.name.replace("-", "_"), replicas)) for key in WORKLOADS}
    return stored(answers, version=(epoch, sequence), at_s=at_s)


def fail_index(server: ApiServerDouble, kind: Any, *, once: bool = False, **settings: Any) -> Fault:
    """Let writes of the index fail, and those of the shards, whose names begin with its name, not."""

    class OfIndex(Fault):
        def fits(self, verb: str, path: str) -> bool:
            return verb == "update" and path == INDEX and not (once and self.hit.is_set())

    fault = OfIndex(kind, **settings)
    server.faults.append(fault)
    return fault


async def publish(store: ConfigMapPlanStore, item: StoredPlan) -> None:
    await store.publish(item.plan, item.heartbeat)


def later(item: StoredPlan, seconds: float) -> Heartbeat:
    return replace(item.heartbeat, at_s=item.heartbeat.at_s + seconds)


async def until(store: ConfigMapPlanStore, wanted: Callable[[StoredPlan | None], bool], token: object = None) -> object:
    """Look until what is stored is as wanted; return the token."""
    limit = threading.Event()
    timer = threading.Timer(LIMIT_S, limit.set)
    timer.start()
    try:
        while not limit.is_set():
            seen, token = token, (found := await store.load_if_changed(token))[0]
            if token is not seen and wanted(found[1]):
                return token
    finally:
        timer.cancel()
    pytest.fail("it was never as wanted")


async def test_what_is_written_when(store: ConfigMapPlanStore, server: ApiServerDouble) -> None:
    """A first plan writes all, a heartbeat one object, a change of one workload its shard and the index."""
    first = plan(1)
    await publish(store, first)
    assert (server.count("create"), server.count("update")) == (9, 1)  # the claim creates what the index goes into
    server.forget()
    await store.beat(later(first, 60))
    assert dict(server.requests) == {("update", INDEX): 1}
    server.forget()
    await publish(store, plan(2, model_7=9))
    assert server.count() == server.count("update") == 2
    assert server.count("update", INDEX) == 2  # the names of the shards begin with that of the index
    assert server.requests["update", INDEX] == 1
    server.forget()
    await publish(store, plan(3, model_7=9))
    assert dict(server.requests) == {("update", INDEX): 1}


async def test_a_look_costs_nothing_while_nothing_changes(
    store: ConfigMapPlanStore, reader: ConfigMapPlanStore, server: ApiServerDouble
) -> None:
    """With a well watch, a hundred looks ask the server nothing, and a change costs a GET of each changed shard."""
    await publish(store, plan(1))
    token = await until(reader, lambda found: found is not None)
    await publish(store, plan(2))
    token = await until(reader, lambda found: found is not None and found.plan.version.sequence == 2, token)
    server.forget()
    for _ in range(100):
        assert (await reader.load_if_changed(token))[0] is token
    assert server.count() == 0
    await publish(store, plan(3, model_7=9))
    await until(reader, lambda found: found is not None and found.plan.version.sequence == 3, token)
    assert server.count("get") == 1
    assert server.count("list") == 0


async def watched(store: ConfigMapPlanStore, reader: ConfigMapPlanStore, server: ApiServerDouble) -> object:
    """Publish two plans, the second of which comes by the reader's watch; return the token."""
    await publish(store, plan(1))
    token = await until(reader, lambda found: found is not None)
    await asyncio.to_thread(wait_until, lambda: server.count("watch"))
    await publish(store, plan(2))
    return await until(reader, lambda found: found is not None and found.plan.version.sequence == 2, token)


async def test_a_watch_whose_time_is_over_costs_no_list(
    store: ConfigMapPlanStore, reader: ConfigMapPlanStore, server: ApiServerDouble
) -> None:
    """The next watch goes on from the last event or bookmark, and nothing that happened in between is lost."""
    token = await watched(store, reader, server)
    server.forget()
    stalled = server.fail("stall", verb="watch", times=1)
    server.end_watches()
    assert await asyncio.to_thread(stalled.hit.wait, LIMIT_S)
    await publish(store, plan(3, model_7=9))
    server.heal()
    await until(reader, lambda found: found is not None and found.plan.version.sequence == 3, token)
    assert (server.count("watch"), server.count("list")) == (1, 0)


async def test_a_watch_that_ends_without_a_word_is_followed_by_a_list(
    store: ConfigMapPlanStore, reader: ConfigMapPlanStore, server: ApiServerDouble
) -> None:
    """Whatever ends watches at once is not asked again and again, nor believed to be well."""
    token = await watched(store, reader, server)
    quiet = server.fail("stall", verb="watch", times=1)
    server.end_watches()
    assert await asyncio.to_thread(quiet.hit.wait, LIMIT_S)
    server.heal()
    server.forget()
    listed = server.fail("stall", verb="list", times=1)
    while not listed.hit.is_set():
        server.end_watches()
        await asyncio.to_thread(listed.hit.wait, 0.01)
    server.heal()
    await publish(store, plan(3, model_7=9))
    await until(reader, lambda found: found is not None and found.plan.version.sequence == 3, token)


async def test_a_watch_that_says_nothing_is_not_believed(
    store: ConfigMapPlanStore, reader: ConfigMapPlanStore, server: ApiServerDouble, clock: ManualClock
) -> None:
    """After 90 s of silence the server is asked, but not at every look."""
    await publish(store, plan(1))
    token = await until(reader, lambda found: found is not None)
    server.fail("hang", verb="watch")
    clock.advance(91)
    server.forget()
    for _ in range(20):
        token, _ = await reader.load_if_changed(token)
    assert server.count("list") == 1
    clock.advance(5)
    token, _ = await reader.load_if_changed(token)
    assert server.count("list") == 2


@pytest.mark.parametrize("verb", ["create", "update"])
@pytest.mark.parametrize("kind", ["lost", "cut"])
async def test_an_answer_that_is_lost(store: ConfigMapPlanStore, server: ApiServerDouble, verb: str, kind: str) -> None:
    """A write that happened and whose answer did not arrive is found to have happened."""
    if verb == "update":
        await publish(store, plan(1))
    server.fail(kind, verb=verb, times=1)
    await publish(store, plan(2, replicas=5))
    assert await store.load() == plan(2, replicas=5)


async def test_a_lost_answer_of_the_index(store: ConfigMapPlanStore, server: ApiServerDouble) -> None:
    """The index that is found to be ours already is not written again."""
    await publish(store, plan(1))
    server.forget()
    fail_index(server, "lost", once=True)
    await publish(store, plan(2))
    assert server.requests["update", INDEX] == 1
    assert await store.load() == plan(2)


async def test_a_writer_that_dies_half_way_changes_nothing(
    store: ConfigMapPlanStore, reader: ConfigMapPlanStore, server: ApiServerDouble
) -> None:
    """Shards of a plan whose index was never written are seen by no reader, and the next plan goes over them."""
    await publish(store, plan(1))
    fail_index(server, "status", status=403, reason="Forbidden")
    with pytest.raises(StoreError, match="403 Forbidden"):
        await publish(store, plan(2, replicas=5))
    server.heal()
    assert await reader.load() == plan(1)
    await publish(store, plan(3, replicas=7))
    assert await reader.load() == plan(3, replicas=7)


async def test_the_same_version_does_not_change_its_content(store: ConfigMapPlanStore) -> None:
    """Scalers that hold a version would never take up another content of it."""
    await publish(store, plan(1))
    await publish(store, plan(1))
    with pytest.raises(StoreError, match="must be newer than the stored plan"):
        await publish(store, plan(1, replicas=9))


async def test_who_was_deposed_stops(store: ConfigMapPlanStore, other: ConfigMapPlanStore) -> None:
    """From the first plan of a higher epoch on, the former leader can neither publish nor beat, and is told by whom."""
    await publish(store, plan(50))
    await publish(other, plan(1, epoch=2, replicas=5))
    with pytest.raises(StoreError, match=r"epoch=2, sequence=1\) by 'controller-b'"):
        await publish(store, plan(51, replicas=9))
    with pytest.raises(StoreError, match="controller-b"):
        await store.beat(later(plan(50), 60))
    assert await other.load() == plan(1, epoch=2, replicas=5)


async def test_who_was_deposed_while_writing_stops(
    store: ConfigMapPlanStore, other: ConfigMapPlanStore, server: ApiServerDouble
) -> None:
    """A plan whose shards were written before the newer leader's plan is refused at its index."""
    await publish(store, plan(1))
    fault = fail_index(server, "hang", once=True)
    stale = asyncio.create_task(publish(store, plan(2, replicas=9)))
    await asyncio.to_thread(fault.hit.wait, LIMIT_S)
    await publish(other, plan(1, epoch=2, replicas=5))
    fault.released.set()
    with pytest.raises(StoreError, match="controller-b"):
        await stale
    assert await other.load() == plan(1, epoch=2, replicas=5)


async def test_who_was_deposed_stops_before_there_is_a_newer_plan(
    store: ConfigMapPlanStore, other: ConfigMapPlanStore, server: ApiServerDouble
) -> None:
    """The newer leader's claim is enough: it has written some shards, and no index yet."""
    await publish(store, plan(1))
    server.fail("status", status=403, verb="update", path="headway-plan-5")
    with pytest.raises(StoreError, match="403"):
        await publish(other, plan(1, epoch=2, replicas=5))
    server.heal()
    with pytest.raises(StoreError, match=r"claimed for .*epoch=2.* by 'controller-b'"):
        await publish(store, plan(2, replicas=9))
    with pytest.raises(StoreError, match="controller-b"):
        await store.beat(later(plan(1), 60))
    assert await store.load() == plan(1)
    assert store.stored_epoch() == 2


@pytest.mark.parametrize("part", ["headway-plan-0", "headway-plan-7"])
async def test_a_write_that_was_long_under_way(
    store: ConfigMapPlanStore, other: ConfigMapPlanStore, server: ApiServerDouble, part: str
) -> None:
    """A former leader's shard that arrives after the newer leader's plan changes nothing of it."""
    await publish(store, plan(1))
    fault = server.fail("stall", verb="update", path=part, times=1)
    stale = asyncio.create_task(publish(store, plan(2, replicas=9)))
    await asyncio.to_thread(fault.hit.wait, LIMIT_S)
    await publish(other, plan(1, epoch=2, replicas=5))
    fault.released.set()
    with pytest.raises(StoreError, match="controller-b"):
        await stale
    assert await other.load() == plan(1, epoch=2, replicas=5)


async def test_who_reads_a_newer_leaders_shard_stops(
    store: ConfigMapPlanStore, other: ConfigMapPlanStore, server: ApiServerDouble
) -> None:
    """A former leader that had not read the shards before must not put its own beside what only its index names."""
    await publish(other, plan(1))
    fault = server.fail("stall", verb="get", path="headway-plan-0", times=1)
    stale = asyncio.create_task(publish(store, plan(2, replicas=9)))
    await asyncio.to_thread(fault.hit.wait, LIMIT_S)
    await publish(other, plan(1, epoch=2, replicas=5))
    fault.released.set()
    with pytest.raises(StoreError, match="somebody else leads"):
        await stale
    assert await other.load() == plan(1, epoch=2, replicas=5)


async def test_nobodys_half_plan_can_become_the_plan(
    store: ConfigMapPlanStore, other: ConfigMapPlanStore, server: ApiServerDouble
) -> None:
    """An index under way while its shards are written over by a newer leader, who then dies, must not arrive."""
    await publish(store, plan(1))
    fault = fail_index(server, "stall", once=True)
    stale = asyncio.create_task(publish(store, plan(2, replicas=9)))
    await asyncio.to_thread(fault.hit.wait, LIMIT_S)
    server.fail("status", status=403, verb="update", path="headway-plan-7")
    with pytest.raises(StoreError, match="403"):
        await publish(other, plan(1, epoch=2, replicas=5))
    fault.released.set()
    with pytest.raises(StoreError, match="controller-b"):
        await stale
    assert await other.load() == plan(1)


async def test_a_deleted_shard(store: ConfigMapPlanStore, reader: ConfigMapPlanStore, server: ApiServerDouble) -> None:
    """A plan of which a part is gone is no plan, and said to be damaged; the next one repairs it."""
    await publish(store, plan(1))
    server.remove(f"{INDEX}-3")
    with pytest.raises(DamagedError, match="headway-plan-3 does not exist"):
        await reader.load()
    await publish(store, plan(2, replicas=4))
    assert await reader.load() == plan(2, replicas=4)


async def test_a_deleted_index(store: ConfigMapPlanStore, reader: ConfigMapPlanStore, server: ApiServerDouble) -> None:
    """Without the index there has never been a plan: so a person starts anew; and the writer writes it again."""
    await publish(store, plan(1))
    server.remove(INDEX)
    assert await reader.load() is None
    with pytest.raises(StoreError, match="a heartbeat needs a plan"):
        await store.beat(later(plan(1), 60))
    await publish(store, plan(2))
    assert await reader.load() == plan(2)


def _spoil_index(document: Any) -> None:
    document["data"]["index"] = "{}"


def _spoil_schema(document: Any) -> None:
    document["data"]["index"] = document["data"]["index"].replace('"schema":1', '"schema":2')


def _spoil_heartbeat(document: Any) -> None:
    document["binaryData"]["heartbeat"] = base64.b64encode(b"no zlib").decode()


def _spoil_epoch(document: Any) -> None:
    described = orjson.loads(document["data"]["index"])
    document["data"]["index"] = orjson.dumps({**described, "epoch": 9}).decode()


@pytest.mark.parametrize("spoil", [_spoil_index, _spoil_schema, _spoil_heartbeat, _spoil_epoch])
async def test_an_index_that_is_none(
    store: ConfigMapPlanStore, server: ApiServerDouble, spoil: Callable[[Any], None]
) -> None:
    """What cannot be read is never an empty plan, and is not written over."""
    await publish(store, plan(1))
    document = orjson.loads(orjson.dumps(server.at(INDEX)))
    spoil(document)
    server.put(INDEX, document)
    with pytest.raises(StoreError, match="does not hold what it should"):
        await store.load()
    with pytest.raises(StoreError, match="does not hold what it should"):
        await publish(store, plan(2))


async def test_a_shard_that_was_changed_by_hand(
    store: ConfigMapPlanStore, reader: ConfigMapPlanStore, server: ApiServerDouble
) -> None:
    """Content that is not what its digest says is refused."""
    await publish(store, plan(1))
    document = orjson.loads(orjson.dumps(server.at(f"{INDEX}-0")))
    (digest,) = document["binaryData"]
    document["binaryData"][digest] = pack({}, 1)[0][1]
    server.put(f"{INDEX}-0", document)
    with pytest.raises(DamagedError, match="digest must be"):
        await reader.load()


@pytest.mark.parametrize("kind", ["refuse", "cut"])
async def test_a_server_that_cannot_be_asked(
    store: ConfigMapPlanStore, reader: ConfigMapPlanStore, server: ApiServerDouble, kind: str
) -> None:
    """No answer is no empty plan, neither for a load nor for a look; and when it is back, all is well."""
    await publish(store, plan(1))
    server.fail(kind)
    for _ in range(2):
        with pytest.raises(StoreError):
            await reader.load()
        with pytest.raises(StoreError):
            await reader.load_if_changed(None)
    server.heal()
    assert await reader.load() == plan(1)


async def test_gone_for_ten_minutes(
    store: ConfigMapPlanStore, reader: ConfigMapPlanStore, server: ApiServerDouble, clock: ManualClock
) -> None:
    """While the server is gone each look ends in an error; when it is back, the next plan is seen."""
    await publish(store, plan(1))
    await until(reader, lambda found: found is not None)
    server.leave()
    clock.advance(600)
    with pytest.raises(StoreError):
        await reader.load_if_changed(None)
    with pytest.raises(StoreError):
        await publish(store, plan(2))
    server.come_back()
    await publish(store, plan(3))
    clock.advance(6)
    await until(reader, lambda found: found is not None and found.plan.version.sequence == 3)


async def test_more_shards(api: ApiConnection, store: ConfigMapPlanStore, reader: ConfigMapPlanStore) -> None:
    """Their number may change from one plan to the next; readers take it from the index."""
    await publish(store, plan(1))
    with config_map_store(api, "controller-c", shards=3) as fewer:
        await publish(fewer, plan(2, replicas=4))
        assert await reader.load() == plan(2, replicas=4)
    await publish(store, plan(3, replicas=5))
    assert await reader.load() == plan(3, replicas=5)


async def test_a_plan_beyond_all_bounds(store: ConfigMapPlanStore, server: ApiServerDouble) -> None:
    """A shard that would not fit is an error that names value and bound, before anything is written."""
    noise = [hashlib.shake_256(str(number).encode()).hexdigest(400) for number in range(12_000)]
    huge = stored({WorkloadId("shop", f"w{number}"): answer(None, reason=text) for number, text in enumerate(noise)})
    with pytest.raises(StoreError, match=f"shard 0 must have at most {MAX_SHARD_BYTES} bytes"):
        await publish(store, huge)
    assert server.count() == 0


@pytest.mark.parametrize(("setting", "value"), [("shards", 0), ("shards", 65), ("budget_s", 0.0), ("fallback_s", -1.0)])
def test_settings(setting: str, value: Any) -> None:
    """Settings out of range are refused by name."""
    with pytest.raises(ValueError, match=setting):
        PlanStoreSettings("headway", "controller-a", **{setting: value})
