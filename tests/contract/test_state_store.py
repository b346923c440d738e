"""What every StateStore does, whatever it keeps its checkpoint in."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scaler.adapters.state_store import FileStateStore, LoadOutcome, MemoryStateStore
from scaler.core.members import Members, members_of
from scaler.core.state import EngineState, WorkloadState, state_to_json
from scaler.core.values import WorkloadId
from scaler.ports import StateStore, StoreError
from tests.core_builders import replica

T0 = 1_700_000_000.0
CHAT = WorkloadId("demo", "chat")

_TIMES = st.floats(0, 4e9)
_COUNTS = st.integers(0, 10_000)
_STATES = st.builds(
    WorkloadState,
    first_seen_s=_TIMES,
    target=st.none() | _COUNTS,
    wishes=st.lists(st.tuples(_TIMES, _COUNTS), max_size=4).map(tuple),
    targets=st.lists(st.tuples(_TIMES, _COUNTS), max_size=4).map(tuple),
    in_system=st.lists(st.tuples(_TIMES, st.floats(0, 1e6), st.integers(0, 1000)), max_size=4).map(tuple),
    members=st.none()
    | st.builds(
        Members,
        since_s=_TIMES,
        sampled_s=st.none() | _TIMES,
        count=_COUNTS,
        fingerprint=st.integers(0, 2**46),
        cells=st.binary(max_size=128).map(bytes.hex),
    ),
    last_evidence_s=st.none() | _TIMES,
)
_NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,20}", fullmatch=True)
ENGINE_STATES = st.dictionaries(st.builds(WorkloadId, _NAMES, _NAMES), _STATES, max_size=5).map(EngineState)


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> StateStore:
    if request.param == "memory":
        return MemoryStateStore()
    return FileStateStore(tmp_path / "state" / "checkpoint.json")


def test_starts_empty(store: StateStore) -> None:
    """Without a checkpoint the state is the empty one."""
    assert store.load() == EngineState.empty()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(states=st.lists(ENGINE_STATES, min_size=1, max_size=3))
def test_gives_back_the_last_state(store: StateStore, states: list[EngineState]) -> None:
    """What was saved last is what is loaded, as often as it is asked for."""
    for state in states:
        store.save(state)
    assert store.load() == states[-1]
    assert store.load() == states[-1]


class TestFile:
    """What only a file can get wrong."""

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "checkpoint.json"

    def test_survives_the_process(self, path: Path) -> None:
        """Another store on the same file loads what the first one saved."""
        state = EngineState({CHAT: WorkloadState(first_seen_s=T0, target=3)})
        FileStateStore(path).save(state)
        assert FileStateStore(path).load_explained().state == state

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b"", "Expecting value"),
            (b'{"version": 1, "workloads": {"demo/ch', "Unterminated"),
            (b"\xff\xfe\x00", "codec"),
            (b'{"version": 99, "workloads": {}}', "version must be 1"),
            (b"[]", "version must be 1"),
            (b'{"version": 1}', "expected shape"),
            (b'{"version": 1, "workloads": {"demo": {"first_seen_s": 1}}}', "NAMESPACE/NAME"),
            (b'{"version": 1, "workloads": {"demo/chat": {"first_seen_s": 1, "new": 2}}}', "unknown fields"),
            (b'{"version": 1, "workloads": {"demo/chat": {}}}', "expected shape"),
            (b'{"version": 1, "workloads": {"demo/chat": {"first_seen_s": NaN}}}', "finite"),
            (b'{"version": 1, "workloads": {"demo/chat": {"first_seen_s": "soon"}}}', "first_seen_s"),
            (b'{"version": 1, "workloads": {"demo/chat": {"first_seen_s": 1, "target": "9"}}}', "target"),
            (b'{"version": 1, "workloads": {"demo/chat": {"first_seen_s": 1, "wishes": [[1]]}}}', ""),
            (b"[" * 100_000, ""),
        ],
    )
    def test_sets_aside_what_it_cannot_use(self, path: Path, content: bytes, reason: str) -> None:
        """A torn, foreign or newer checkpoint gives an empty start and a reason, and is kept for a person to see."""
        path.write_bytes(content)
        loaded = FileStateStore(path).load_explained()
        assert (loaded.state, loaded.outcome) == (EngineState.empty(), LoadOutcome.REJECTED)
        assert reason in loaded.detail
        assert path.with_name("checkpoint.json.rejected").read_bytes() == content
        assert FileStateStore(path).load_explained().outcome is LoadOutcome.NONE

    def test_says_what_it_found(self, path: Path) -> None:
        """A load is one event, a warning when the checkpoint could not be used."""
        path.write_bytes(b"{}")
        with structlog.testing.capture_logs() as events:
            FileStateStore(path).load()
            FileStateStore(path).load()
        assert [(e["event"], e["log_level"], e["outcome"]) for e in events] == [
            ("checkpoint", "warning", "rejected"),
            ("checkpoint", "info", "none"),
        ]

    def test_starts_empty_where_it_may_not_read(self, path: Path) -> None:
        """A checkpoint that the file system refuses is left where it is."""
        path.mkdir()
        assert FileStateStore(path).load_explained().outcome is LoadOutcome.UNREADABLE
        assert path.is_dir()

    def test_a_failed_save_keeps_the_old_checkpoint(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """When the disk refuses, the error is a StoreError, the old checkpoint holds and no draft is left."""
        store = FileStateStore(path)
        before = EngineState({CHAT: WorkloadState(first_seen_s=T0, target=3)})
        store.save(before)
        monkeypatch.setattr(os, "fsync", _no_space)
        with pytest.raises(StoreError, match="cannot be written"):
            store.save(EngineState.empty())
        assert store.load() == before
        assert os.listdir(path.parent) == ["checkpoint.json"]  # noqa: PTH208  # as short as it can be said

    def test_syncs_before_it_renames(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The content is on the disk before it takes the name, and the name before the save returns."""
        calls: list[str] = []
        monkeypatch.setattr(os, "fsync", _recording(calls, "fsync", os.fsync))
        monkeypatch.setattr(Path, "replace", _recording(calls, "replace", Path.replace))
        FileStateStore(path).save(EngineState.empty())
        assert calls == ["fsync", "replace", "fsync"]


def _no_space(_: int) -> None:
    raise OSError(28, "No space left on device")


def _recording(calls: list[str], name: str, function: Callable[..., object]) -> Callable[..., object]:
    def call(*args: object) -> object:
        calls.append(name)
        return function(*args)

    return call


def test_the_largest_state_fits_its_budget(tmp_path: Path) -> None:
    """One workload whose windows are full at 15-s ticks, with a hold of an hour, takes at most 8 KB."""
    tick_s, hold_s, now_s = 15.0, 3600.0, T0 + 0.123456
    window = [now_s - tick_s * i for i in reversed(range(int(hold_s / tick_s) + 1))]
    largest = WorkloadState(
        first_seen_s=now_s,
        target=10_000,
        wishes=tuple((at, 10_000 - i) for i, at in enumerate(window)),  # strictly falling: nothing can be dropped
        targets=tuple((at, 10_000 - i) for i, at in enumerate(window[-6:])),
        in_system=tuple((at, 123_456.789, 1000) for at in window[-6:]),
        members=members_of(None, [replica(f"chat-{i}") for i in range(10_000)], now_s, now_s),
        last_evidence_s=now_s,
    )
    path = tmp_path / "checkpoint.json"
    FileStateStore(path).save(EngineState({CHAT: largest}))
    assert json.loads(path.read_bytes()) == json.loads(json.dumps(state_to_json(EngineState({CHAT: largest}))))
    assert path.stat().st_size <= 8 * 1024
