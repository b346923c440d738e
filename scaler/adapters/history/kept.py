"""What was backfilled, in a folder: one file for each answer, so that an answer is there as a whole or not at all.

The files are the progress too: what is in them need not be asked again. A file that cannot be read is removed, and what
was in it is asked again. Of too much, the oldest goes.
"""

import json
import re
import threading
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from sys import intern
from zipfile import BadZipFile

import numpy as np
import structlog

from forecasting.series import Grid, Values
from scaler.adapters.files import replace_file
from scaler.core.values import WorkloadId
from scaler.ports import StoreError

_log = structlog.get_logger(__name__)
_VERSION = 1
_DAMAGE = (ValueError, KeyError, TypeError, AttributeError, EOFError, BadZipFile, zlib.error)
_FILE = re.compile(r"(\d{1,12})-[0-9a-f]{24}\.npz")
_DRAFT = re.compile(r"\.\d{1,12}-[0-9a-f]{24}\.npz\.[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Past:
    """What was found of one workload; `identity` says as what it was asked for."""

    identity: str
    values: Values


@dataclass(frozen=True, slots=True)
class _Place:
    path: Path
    row: int


@dataclass(frozen=True, slots=True)
class _File:
    size: int
    rows: tuple[tuple[WorkloadId, str], ...]  # of whom, and as what it was asked


class KeptHistory:
    """A folder of pieces of the past, all of one step and length. Usable from several threads.

    Methods read and write files: a caller in an event loop uses a thread.
    """

    def __init__(self, folder: Path, max_bytes: int, step_s: int, piece_s: int) -> None:
        """Use `folder`, made where it is missing; `open` reads what is there."""
        if piece_s % step_s or step_s < 1:
            raise ValueError(f"piece_s must be a multiple of step_s ({step_s}), was {piece_s}")
        self._folder = folder
        self._max_bytes = max_bytes
        self.step_s = step_s
        self.piece_s = piece_s
        self._lock = threading.Lock()
        self._files: dict[Path, _File] = {}
        self._places: dict[tuple[WorkloadId, str], dict[int, _Place]] = {}
        self._identities: dict[WorkloadId, str] = {}

    def piece(self, begin_s: int) -> Grid:
        """Return the grid of the piece that begins at a multiple of `piece_s`."""
        return Grid(begin_s + self.step_s, self.step_s, self.piece_s // self.step_s)

    def open(self) -> None:
        """Read what is there; StoreError when the folder cannot be used. What was left half written is removed."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            paths = sorted(self._folder.iterdir())
            for path in paths:
                if _DRAFT.fullmatch(path.name):
                    path.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"history folder {self._folder} cannot be used: {error}") from error
        for path in paths:
            if _FILE.fullmatch(path.name):
                self._add(path)

    def has(self, key: WorkloadId, identity: str, begin_s: int) -> bool:
        """Return whether a piece was kept of a workload, asked as `identity`."""
        with self._lock:
            return begin_s in self._places.get((key, identity), ())

    def put(self, begin_s: int, found: Mapping[WorkloadId, Past]) -> bool:
        """Keep a piece of workloads, durably. False where the folder is full of newer ones; StoreError on failure."""
        keys = sorted(found, key=str)
        names = [[key.namespace, key.name, found[key].identity] for key in keys]
        header = {"version": _VERSION, "begin_s": begin_s, "step_s": self.step_s, "workloads": names}
        packed = BytesIO()
        np.savez_compressed(
            packed,
            header=np.frombuffer(json.dumps(header).encode(), np.uint8),
            values=np.stack([found[key].values for key in keys], dtype=np.float64, casting="safe"),
        )
        content = packed.getvalue()
        digest = sha256(json.dumps(names).encode()).hexdigest()[:24]
        path = self._folder / f"{begin_s}-{digest}.npz"
        if not self._make_room(len(content), begin_s):
            return False
        try:
            replace_file(path, content)
        except OSError as error:
            raise StoreError(f"history {path} cannot be written: {error}") from error
        self._index(path, len(content), begin_s, names)
        return True

    def fill(self, values: Mapping[WorkloadId, Values], grid: Grid) -> None:
        """Put kept values where `values`, on `grid`, have none; means where its step is a multiple of the kept one.

        A finer step gets none: what was within the kept one is not known.
        """
        times, rest = divmod(grid.step_s, self.step_s)
        if rest:
            return
        fine = Grid(grid.start_s - grid.step_s + self.step_s, self.step_s, grid.count * times)
        pieces = self._wanted(values, fine)
        kept: dict[WorkloadId, Values] = {}
        for path, (begin_s, rows) in pieces.items():
            table = self._values(path)
            if table is None:
                continue
            for key, row in rows.items():
                _lay(table[row], self.piece(begin_s), kept.setdefault(key, fine.unknown()), fine)
        for key, found in kept.items():
            coarse = _means(found.reshape(grid.count, times))
            np.copyto(values[key], coarse, where=np.isnan(values[key]))

    def identify(self, identities: Mapping[WorkloadId, str]) -> None:
        """Say as what each workload is read: what was asked as something else is another unit, or another object."""
        with self._lock:
            self._identities = dict(identities)

    def prune(self, before_s: float) -> None:
        """Remove pieces that ended before a time."""
        with self._lock:
            old = [path for path in self._files if _begin_of(path) + self.piece_s <= before_s]
        for path in old:
            self._remove(path)

    @property
    def size_bytes(self) -> int:
        """How large all files are together."""
        with self._lock:
            return sum(file.size for file in self._files.values())

    def _make_room(self, needed: int, begin_s: int) -> bool:
        """Remove older pieces until there is room; False where only newer ones, or as old ones, are left."""
        while self.size_bytes + needed > self._max_bytes:
            with self._lock:
                oldest = min(self._files, key=_begin_of, default=None)
            if oldest is None or _begin_of(oldest) >= begin_s:
                return False
            self._remove(oldest)
        return True

    def _wanted(self, keys: Iterable[WorkloadId], fine: Grid) -> dict[Path, tuple[int, dict[WorkloadId, int]]]:
        """Return the files that hold something of these workloads in a range, and in which rows."""
        wanted: dict[Path, tuple[int, dict[WorkloadId, int]]] = {}
        with self._lock:
            for key in keys:
                for begin_s, place in self._places.get((key, self._identities.get(key, "")), {}).items():
                    if begin_s < fine.last_s and begin_s + self.piece_s >= fine.start_s:
                        wanted.setdefault(place.path, (begin_s, {}))[1][key] = place.row
        return wanted

    def _values(self, path: Path) -> Values | None:
        stored = self._read(path)
        return None if stored is None else stored[1]

    def _add(self, path: Path) -> None:
        stored = self._read(path)
        if stored is not None:
            names, _, size = stored
            self._index(path, size, _begin_of(path), names)

    def _read(self, path: Path) -> tuple[list[list[str]], Values, int] | None:
        """Return of whom a file is, its values and its size; None when it cannot be read. A damaged one is removed."""
        try:
            content = path.read_bytes()
        except OSError as error:  # it may be gone, to make room
            _log.warning("history_unreadable", path=str(path), detail=str(error)[:300])
            return None
        try:
            return *_decoded(content, _begin_of(path), self.step_s, self.piece_s), len(content)
        except _DAMAGE as error:
            _log.warning("history_rejected", path=str(path), detail=f"{type(error).__name__}: {error}"[:300])
            self._remove(path)
            return None

    def _index(self, path: Path, size: int, begin_s: int, names: list[list[str]]) -> None:
        rows = tuple((WorkloadId(namespace, name), intern(identity)) for namespace, name, identity in names)
        with self._lock:
            self._files[path] = _File(size, rows)
            for row, key in enumerate(rows):
                self._places.setdefault(key, {})[begin_s] = _Place(path, row)

    def _remove(self, path: Path) -> None:
        begin_s = _begin_of(path)
        with self._lock:
            file = self._files.pop(path, None)
            for key in file.rows if file else ():
                places = self._places.get(key, {})
                if (place := places.get(begin_s)) is not None and place.path == path:
                    del places[begin_s]
                    if not places:
                        del self._places[key]
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            _log.warning("history_not_removed", path=str(path), detail=str(error)[:300])


def _begin_of(path: Path) -> int:
    return int(path.name.partition("-")[0])


def _decoded(content: bytes, begin_s: int, step_s: int, piece_s: int) -> tuple[list[list[str]], Values]:
    """Read a file's content; one of `_DAMAGE` unless it is a whole one, of this beginning, step and length."""
    with np.load(BytesIO(content), allow_pickle=False) as stored:
        header = json.loads(stored["header"].tobytes())
        values = stored["values"]
    if (header["version"], header["begin_s"], header["step_s"]) != (_VERSION, begin_s, step_s):
        raise ValueError(f"is of version {header['version']}, begin {header['begin_s']}, step {header['step_s']}")
    if begin_s % piece_s:
        raise ValueError(f"begin must be a multiple of {piece_s} s, was {begin_s}")
    names = header["workloads"]
    if values.dtype != np.float64 or values.shape != (len(names), piece_s // step_s):
        raise ValueError(f"holds {values.dtype} of {values.shape} for {len(names)} workloads")
    if not all(len(row) == 3 and all(isinstance(text, str) for text in row) for row in names):
        raise ValueError("names of workloads are not of the expected shape")
    return names, values


def _lay(source: Values, source_grid: Grid, target: Values, target_grid: Grid) -> None:
    """Copy the part of a series that lies within another's grid, of the same step."""
    first = (source_grid.start_s - target_grid.start_s) // target_grid.step_s
    begin, end = max(first, 0), min(first + source_grid.count, target_grid.count)
    if begin < end:
        target[begin:end] = source[begin - first : end - first]


def _means(table: Values) -> Values:
    """Return the mean of what is known in each row; NaN where nothing is."""
    known = ~np.isnan(table)
    count = known.sum(axis=1)
    total = np.where(known, table, 0.0).sum(axis=1)
    means: Values = np.divide(total, count, out=np.full(len(table), np.nan), where=count > 0)
    return means
