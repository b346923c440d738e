"""What can be wrong with files."""

# ruff: noqa: ASYNC240 - these files are small and nothing else waits for the loop

import json
from dataclasses import replace
from pathlib import Path

import pytest

from scaler.adapters.plan_store import FilePlanStore
from scaler.ports import StoreError
from tests.scaler_rig import CHAT, START_S, answer, stored

PLAN = stored({CHAT: answer(3)})
NEXT = stored({CHAT: answer(4)}, version=(1, 2))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "plan.json"


@pytest.fixture
async def store(path: Path) -> FilePlanStore:
    store = FilePlanStore(path)
    await store.publish(PLAN.plan, PLAN.heartbeat)
    return store


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"\xff\xfe",
        b'{"plan": {}}',
        b'{"plan": {"schema": 99}, "heartbeat": {}}',
        b"[" * 100_000,
    ],
)
async def test_a_corrupt_file_is_an_error(store: FilePlanStore, path: Path, content: bytes) -> None:
    """What is not a plan is never read as an empty one."""
    path.write_bytes(content)
    with pytest.raises(StoreError, match="does not hold what it should"):
        await store.load()


@pytest.mark.parametrize("length", range(1, 170, 12))
async def test_a_torn_file_is_an_error(store: FilePlanStore, path: Path, length: int) -> None:
    """A part of a plan is not a plan, wherever it was cut."""
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(StoreError):
        await store.load()


async def test_a_heartbeat_that_is_not_a_time_is_an_error(store: FilePlanStore, path: Path) -> None:
    """NaN compares false with every limit, so it must not come in."""
    await store.beat(PLAN.heartbeat)
    beat = path.with_name("plan.json.heartbeat")
    beat.write_text(beat.read_text().replace(str(START_S), "NaN"))
    with pytest.raises(StoreError, match="numbers must be finite, was NaN"):
        await store.load()


async def test_a_plan_that_vanished_is_an_error(store: FilePlanStore, path: Path) -> None:
    """There has been a plan, says its heartbeat: that is not the same as none yet."""
    await store.beat(PLAN.heartbeat)
    path.unlink()
    with pytest.raises(StoreError, match="is gone"):
        await store.load()


async def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    """A volume that is not mounted does not say that there is no plan."""
    store = FilePlanStore(tmp_path / "volume" / "plan.json")
    with pytest.raises(StoreError, match="does not exist or is no folder"):
        await store.load()
    with pytest.raises(StoreError, match="does not exist or is no folder"):
        await store.load_if_changed(None)


async def test_publishing_makes_the_folder(tmp_path: Path) -> None:
    """The first controller on a machine need not prepare anything."""
    store = FilePlanStore(tmp_path / "state" / "plan.json")
    await store.publish(PLAN.plan, PLAN.heartbeat)
    assert await store.load() == PLAN


async def test_an_error_is_met_again_after_an_unchanged_look(store: FilePlanStore, path: Path) -> None:
    """A reader that kept its old token is told of the corrupt file each time, not that nothing changed."""
    token, _ = await store.load_if_changed(None)
    path.write_text("{")
    for _ in range(2):
        with pytest.raises(StoreError):
            await store.load_if_changed(token)


async def test_a_write_that_fails_leaves_the_old_plan(
    store: FilePlanStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the disk is full the plan before still stands, and no draft is left behind."""

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(StoreError, match=r"cannot be written: .*No space left"):
            await store.publish(NEXT.plan, NEXT.heartbeat)
    assert await store.load() == PLAN
    assert [p.name for p in path.parent.iterdir()] == ["plan.json"]


async def test_an_unwritable_place_is_an_error(tmp_path: Path) -> None:
    """A folder that is a file cannot hold a plan."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        await FilePlanStore(tmp_path / "file" / "plan.json").publish(PLAN.plan, PLAN.heartbeat)


async def test_a_plan_put_back_by_hand_is_not_vouched_for(store: FilePlanStore, path: Path) -> None:
    """An old plan that is restored beside a newer heartbeat is as old as it was."""
    backup = path.read_bytes()
    await store.publish(NEXT.plan, NEXT.heartbeat)
    await store.beat(replace(NEXT.heartbeat, at_s=START_S + 60))
    path.write_bytes(backup)
    assert await store.load() == PLAN


async def test_the_files_are_plain_json(store: FilePlanStore, path: Path) -> None:
    """A person can read what the scalers answer."""
    document = json.loads(path.read_text())
    assert document["plan"]["answers"] == {"shop": {"chat": [3, "reactive", True, True]}}
