"""Plan stores: where a controller leaves the plan and scalers pick it up. A file on one machine, memory in tests.

A cluster's store is another adapter; all of them pass tests/contract/test_plan_store.py.
"""

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from scaler.adapters.files import replace_file
from scaler.core.published import (
    Heartbeat,
    PublishedPlan,
    StoredPlan,
    heartbeat_from_json,
    heartbeat_to_json,
    plan_from_json,
    plan_to_json,
)
from scaler.ports import StoreError

T = TypeVar("T")
Identity = tuple[int, int, int]  # inode, modification time in ns, size: a replaced file differs in one of them


def newest_vouching(plan: PublishedPlan, published_with: Heartbeat, later: Heartbeat | None) -> StoredPlan:
    """Pair a plan with the newest heartbeat that vouches for it.

    `later` vouches for nothing when it is of another version: it is left over from the plan before, or the plan has
    been put back by hand. What the plan was published with always holds.
    """
    if later is not None and later.version == plan.version and later.at_s >= published_with.at_s:
        return StoredPlan(plan, later)
    return StoredPlan(plan, published_with)


class MemoryPlanStore:
    """A plan store within one process."""

    def __init__(self) -> None:
        self._stored: StoredPlan | None = None
        self._token = object()

    async def publish(self, plan: PublishedPlan, heartbeat: Heartbeat) -> None:
        """Replace plan and heartbeat. ValueError when the heartbeat is of another version."""
        _check_pair(plan, heartbeat)
        self._stored, self._token = StoredPlan(plan, heartbeat), object()

    async def beat(self, heartbeat: Heartbeat) -> None:
        """Replace the heartbeat only; StoreError when there is no plan that it could vouch for."""
        if self._stored is None:
            raise StoreError("a heartbeat needs a plan, and none is stored")
        stored = newest_vouching(self._stored.plan, self._stored.heartbeat, heartbeat)
        self._stored, self._token = stored, object()

    async def load(self) -> StoredPlan | None:
        """Return what is stored; None when there has never been a plan."""
        return self._stored

    async def load_if_changed(self, seen: object) -> tuple[object, StoredPlan | None]:
        """Return a new token and what is stored, or `seen` and None when nothing has changed since."""
        if seen is self._token:
            return seen, None
        return self._token, self._stored


class FilePlanStore:
    """A plan store in two files: `path` holds the plan and its first heartbeat, `path`.heartbeat the latest heartbeat.

    Each file is replaced as a whole, so a reader sees the old one or the new one. The plan carries the heartbeat that
    it was published with, so one rename publishes both, and a reader never pairs a plan with a heartbeat of another.
    Files that cannot be read, or are not a plan, are a StoreError; never an empty plan.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._beat_path = path.with_name(f"{path.name}.heartbeat")
        self._writing = asyncio.Lock()

    async def publish(self, plan: PublishedPlan, heartbeat: Heartbeat) -> None:
        """Replace plan and heartbeat. StoreError when it cannot, ValueError when the heartbeat is of another version.

        The folder is made where it is missing.
        """
        _check_pair(plan, heartbeat)
        await self._write(self._write_plan, {"plan": plan_to_json(plan), "heartbeat": heartbeat_to_json(heartbeat)})

    async def beat(self, heartbeat: Heartbeat) -> None:
        """Replace the heartbeat only; StoreError when it cannot, or there is no plan that it could vouch for."""
        await self._write(self._write_beat, heartbeat_to_json(heartbeat))

    async def load(self) -> StoredPlan | None:
        """Return what is stored; None when there has never been a plan; StoreError when it cannot tell."""
        return (await asyncio.to_thread(self._load))[1]

    async def load_if_changed(self, seen: object) -> tuple[object, StoredPlan | None]:
        """Return a new token and what is stored, or `seen` and None when neither file was replaced since."""
        return await asyncio.to_thread(self._load_if_changed, seen)

    async def _write(self, write: Callable[[Any], None], document: Any) -> None:
        async with self._writing:  # the later of two writes must be the one that stays
            try:
                await asyncio.to_thread(write, document)
            except OSError as error:
                raise StoreError(f"{self._path} cannot be written: {error}") from error

    def _write_plan(self, document: Any) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        _replace(self._path, document)

    def _write_beat(self, document: Any) -> None:
        if not self._path.exists():
            raise StoreError(f"a heartbeat needs a plan, and {self._path} does not exist")
        _replace(self._beat_path, document)

    def _load_if_changed(self, seen: object) -> tuple[object, StoredPlan | None]:
        try:
            if seen is not None and seen == (_identity(self._path), _identity(self._beat_path)):
                return seen, None
        except OSError as error:
            raise StoreError(f"{self._path} cannot be read: {error}") from error
        return self._load()

    def _load(self) -> tuple[object, StoredPlan | None]:
        # The heartbeat is read first: a plan is written before its later heartbeats, so the plan read after it is of
        # the same or a newer version.
        beat_identity, beat = self._read(self._beat_path)
        identity, document = self._read(self._path)
        token = (identity, beat_identity)
        if identity is None:
            if beat_identity is not None:
                raise StoreError(f"{self._path} is gone: its heartbeat is still there")
            return token, None
        return token, _parse(self._path, document, self._beat_path, beat)

    def _read(self, path: Path) -> tuple[Identity | None, bytes | None]:
        """Return the identity and content of a file, None for both when there is none."""
        try:
            with path.open("rb") as file:
                return _identity_of(os.fstat(file.fileno())), file.read()
        except FileNotFoundError as error:
            if not path.parent.is_dir():  # an unmounted volume looks like this: it does not say that there is no plan
                raise StoreError(f"{path.parent} does not exist or is no folder") from error
            return None, None
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error}") from error


def _check_pair(plan: PublishedPlan, heartbeat: Heartbeat) -> None:
    if plan.version != heartbeat.version:
        raise ValueError(f"heartbeat version must be the plan's {plan.version}, was {heartbeat.version}")


def _identity(path: Path) -> Identity | None:
    try:
        return _identity_of(path.stat())
    except FileNotFoundError:
        return None


def _identity_of(status: os.stat_result) -> Identity:
    return status.st_ino, status.st_mtime_ns, status.st_size


def _parse(path: Path, document: bytes | None, beat_path: Path, beat: bytes | None) -> StoredPlan:
    both = _decode(path, document, lambda it: (plan_from_json(it["plan"]), heartbeat_from_json(it["heartbeat"])))
    plan, published_with = both
    later = None if beat is None else _decode(beat_path, beat, heartbeat_from_json)
    if published_with.version != plan.version:
        raise StoreError(f"{path} holds a heartbeat of another version")
    return newest_vouching(plan, published_with, later)


def _decode(path: Path, content: bytes | None, make: Callable[[Any], T]) -> T:
    try:
        return make(json.loads(content or b"", parse_constant=_refuse_constant))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StoreError(f"{path} does not hold what it should: {error}") from error


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"numbers must be finite, was {constant}")


def _replace(path: Path, document: Any) -> None:
    replace_file(path, json.dumps(document, separators=(",", ":"), allow_nan=False).encode())
