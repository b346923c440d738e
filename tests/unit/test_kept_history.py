"""What was backfilled, on disk: whole or not at all, bounded, and never read as something else."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecasting.series import Grid, Values
from scaler.adapters.history.kept import KeptHistory, Past
from scaler.core.values import WorkloadId
from scaler.ports import StoreError

CHAT, DRAW = WorkloadId("demo", "chat"), WorkloadId("demo", "draw")
STEP_S, PIECE_S = 300, 1200
BEGIN_S = 1_771_200_000
MANY = 2**20


def opened(folder: Path, max_bytes: int = MANY, **identities: str) -> KeptHistory:
    kept = KeptHistory(folder, max_bytes, STEP_S, PIECE_S)
    kept.open()
    kept.identify({WorkloadId("demo", name): identity for name, identity in identities.items()} or {CHAT: "i"})
    return kept


def past(*values: float, identity: str = "i") -> Past:
    return Past(identity, np.array(values, dtype=np.float64))


def read(kept: KeptHistory, grid: Grid, key: WorkloadId = CHAT) -> list[float | None]:
    values = {key: grid.unknown()}
    kept.fill(values, grid)
    return [None if np.isnan(value) else float(value) for value in values[key]]


def test_what_was_kept_is_there_after_a_restart(tmp_path: Path) -> None:
    """A piece is known and read back by another process; a point without a value stays without."""
    opened(tmp_path).put(BEGIN_S, {CHAT: past(1, float("nan"), 3, 4), DRAW: past(5, 6, 7, 8)})
    kept = opened(tmp_path)
    assert kept.has(CHAT, "i", BEGIN_S)
    assert not kept.has(CHAT, "i", BEGIN_S + PIECE_S)
    assert read(kept, kept.piece(BEGIN_S)) == [1, None, 3, 4]
    assert read(kept, Grid.between(BEGIN_S - 600, BEGIN_S + 900, STEP_S)) == [None, None, 1, None, 3]
    assert read(kept, Grid.between(BEGIN_S, BEGIN_S + PIECE_S, 600)) == [1, 3.5]


def test_a_finer_step_is_not_made_up(tmp_path: Path) -> None:
    """Five minutes do not tell what each of them was, nor do they fit a step of seven."""
    kept = opened(tmp_path)
    kept.put(BEGIN_S, {CHAT: past(1, 2, 3, 4)})
    assert set(read(kept, Grid.between(BEGIN_S, BEGIN_S + PIECE_S, 60))) == {None}
    assert set(read(kept, Grid.between(BEGIN_S, BEGIN_S + PIECE_S, 420))) == {None}


def test_values_that_are_there_stay(tmp_path: Path) -> None:
    """Only what is missing is filled in."""
    kept = opened(tmp_path)
    kept.put(BEGIN_S, {CHAT: past(1, 2, 3, 4)})
    values: dict[WorkloadId, Values] = {CHAT: np.array([9.0, np.nan, 0.0, np.nan])}
    kept.fill(values, kept.piece(BEGIN_S))
    assert values[CHAT].tolist() == [9, 2, 0, 4]


def test_another_identity_is_another_past(tmp_path: Path) -> None:
    """Requests are not read as tokens, in whichever order the files are found."""
    kept = opened(tmp_path)
    kept.put(BEGIN_S, {CHAT: past(1, 1, 1, 1, identity="requests")})
    kept.put(BEGIN_S, {CHAT: past(900, 900, 900, 900, identity="tokens")})
    for identity, expected in (("requests", 1), ("tokens", 900), ("other", None)):
        again = opened(tmp_path, chat=identity)
        assert read(again, again.piece(BEGIN_S)) == [expected] * 4
        assert again.has(CHAT, identity, BEGIN_S) is (expected is not None)


def test_the_oldest_goes_where_there_is_no_room(tmp_path: Path) -> None:
    """The folder stays within its bound; what is older than all that is kept is refused."""
    one = opened(tmp_path / "one")
    one.put(BEGIN_S, {CHAT: past(1, 2, 3, 4)})
    kept = opened(tmp_path / "two", max_bytes=one.size_bytes * 5 // 2)
    assert kept.put(BEGIN_S, {CHAT: past(1, 2, 3, 4)})
    assert kept.put(BEGIN_S + PIECE_S, {CHAT: past(1, 2, 3, 4)})
    assert kept.put(BEGIN_S + 2 * PIECE_S, {CHAT: past(1, 2, 3, 4)})
    assert [kept.has(CHAT, "i", BEGIN_S + i * PIECE_S) for i in range(3)] == [False, True, True]
    assert not kept.put(BEGIN_S, {CHAT: past(1, 2, 3, 4)})
    assert sum(path.stat().st_size for path in (tmp_path / "two").iterdir()) == kept.size_bytes
    assert len(list((tmp_path / "two").iterdir())) == 2


def test_what_is_too_old_is_removed(tmp_path: Path) -> None:
    """A piece that ended before the look-back is gone; one that reaches into it stays."""
    kept = opened(tmp_path)
    for i in range(2):
        kept.put(BEGIN_S + i * PIECE_S, {CHAT: past(1, 2, 3, 4)})
    kept.prune(BEGIN_S + PIECE_S)
    assert [kept.has(CHAT, "i", BEGIN_S + i * PIECE_S) for i in range(2)] == [False, True]
    assert len(list(tmp_path.iterdir())) == 1


def test_workloads_that_come_and_go_leave_nothing_behind(tmp_path: Path) -> None:
    """Of who has no piece any more nothing is remembered, also where one piece was kept in two files."""
    kept = opened(tmp_path)
    kept.put(BEGIN_S, {CHAT: past(1, 2, 3, 4), DRAW: past(1, 2, 3, 4)})
    kept.put(BEGIN_S, {CHAT: past(1, 2, 3, 5)})
    for number in range(5):
        kept.put(BEGIN_S, {WorkloadId("demo", f"job-{number}"): past(1, 2, 3, 4)})
    kept.prune(BEGIN_S + PIECE_S)
    assert list(tmp_path.iterdir()) == []
    assert not kept._places
    assert not kept._files


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 no archive", b"\x93NUMPY"], ids=["empty", "cut", "other"])
def test_a_damaged_file_is_removed_and_asked_again(tmp_path: Path, damage: bytes) -> None:
    """It stops neither the start nor a reading, before and after the start."""
    kept = opened(tmp_path)
    kept.put(BEGIN_S, {CHAT: past(1, 2, 3, 4)})
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    path.write_bytes(damage)
    assert read(kept, kept.piece(BEGIN_S)) == [None] * 4
    assert not kept.has(CHAT, "i", BEGIN_S)
    path.write_bytes(damage or whole[: len(whole) // 2])
    assert not opened(tmp_path).has(CHAT, "i", BEGIN_S)
    assert list(tmp_path.iterdir()) == []


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    """A folder may hold something else; only drafts of this store are cleared away."""
    (tmp_path / "notes.txt").write_text("mine")
    draft = tmp_path / f".{BEGIN_S}-{'0' * 24}.npz.{'a' * 32}"
    draft.write_bytes(b"half")
    opened(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_folder_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    """A file in its place is an error with its name."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file"):
        opened(tmp_path / "file")


_WRITER = """
import sys
from itertools import count
from pathlib import Path
import numpy as np
from scaler.adapters.history.kept import KeptHistory, Past
from scaler.core.values import WorkloadId
kept = KeptHistory(Path(sys.argv[1]), 2**30, 300, 1200)
kept.open()
for i in count():
    kept.put(1200 * i, {WorkloadId("demo", f"w{j}"): Past("i", np.full(4, i)) for j in range(200)})
    print(i, flush=True)
"""


def test_a_kill_in_the_middle_leaves_whole_pieces(tmp_path: Path) -> None:
    """Whatever was said to be kept before SIGKILL is there; nothing is there in part."""
    with subprocess.Popen([sys.executable, "-c", _WRITER, str(tmp_path)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        told = [int(writer.stdout.readline()) for _ in range(8)]
        writer.kill()
    key = WorkloadId("demo", "w7")
    kept = opened(tmp_path, w7="i")
    for i in told:
        assert read(kept, kept.piece(1200 * i), key) == [i] * 4
    assert all(path.name.endswith(".npz") and not path.name.startswith(".") for path in tmp_path.iterdir())


@given(
    start=st.integers(0, 10**6),
    step_s=st.integers(1, 10**5),
    count=st.integers(1, 500),
    points=st.integers(1, 600),
)
def test_chunks_are_the_grid(start: int, step_s: int, count: int, points: int) -> None:
    """No point is left out or doubled, and no chunk is too long."""
    grid = Grid(start * step_s, step_s, count)
    chunks = list(grid.chunks(points))
    times = [chunk.start_s + i * step_s for chunk in chunks for i in range(chunk.count)]
    assert times == [grid.start_s + i * step_s for i in range(count)]
    assert max(chunk.count for chunk in chunks) <= points


@given(start_s=st.floats(0, 2e9), length_s=st.floats(0, 1e6), step_s=st.integers(1, 86_400))
def test_a_grid_between_has_only_whole_steps(start_s: float, length_s: float, step_s: int) -> None:
    """Each point's step lies between the two times, and there is no room for another."""
    end_s = start_s + length_s
    try:
        grid = Grid.between(start_s, end_s, step_s)
    except ValueError:
        assert length_s < 2 * step_s
        return
    assert grid.start_s - step_s >= start_s > grid.start_s - 2 * step_s
    assert grid.last_s <= end_s < grid.last_s + step_s
