"""Reads plans from ConfigMaps, cheaply while nothing changes: see `plan_store.py` for what that costs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from scaler.adapters.kubernetes.api import ApiConnection, ApiError
from scaler.adapters.kubernetes.plan_maps import ATTEMPTS, Maps, PlanStoreSettings, head_of, revision_of
from scaler.adapters.kubernetes.plan_shards import Answers, Index, unpack
from scaler.adapters.kubernetes.plan_watch import ObjectWatch
from scaler.core.published import Answer, PlanVersion, PublishedPlan, StoredPlan
from scaler.core.values import WorkloadId
from scaler.ports import DamagedError, StoreError


@dataclass(frozen=True, slots=True)
class _Told:
    """What was last returned: the token that stands for it, the index's revision (empty: none), how new it was."""

    token: object
    revision: str
    newest: tuple[PlanVersion, float] | None
    writes: int  # of our own that had begun or ended before it was read


class PlanReader:
    """Puts plans together. It keeps the answers of each shard by digest, so that only what changed is fetched."""

    def __init__(self, api: ApiConnection, settings: PlanStoreSettings) -> None:
        self._maps = Maps(api, settings)
        self._settings = settings
        self.watch = ObjectWatch(api, self._maps.collection, settings.name)
        self._answers: dict[str, Answers] = {}  # by digest, of the plan last put together
        self._told = _Told(object(), "", None, -1)
        self._writes = 0
        self._asked_s = -inf
        self._problem: StoreError | None = None  # that the last asking ended with

    def wrote(self) -> None:
        """Let the next look be one at the server: we know better than the watch, which is always a little late."""
        self._writes += 1

    def unchanged(self, seen: object) -> bool:
        """Whether the watch is well and shows what `seen` stands for."""
        told, sight = self._told, self.watch.sight
        current = sight is not None and told.revision == revision_of(sight.found)
        return current and told.token is seen and told.writes == self._writes

    def epoch(self) -> int:
        """Return the highest epoch that has written here, 0 where none has."""
        self._maps.begin()
        return max(0, head_of(self._maps.get(self._settings.name), self._settings.name).claimed.epoch)

    def load(self) -> StoredPlan | None:
        """Ask the server, whatever the watch shows."""
        self._maps.begin()
        return self._assemble(self._maps.get(self._settings.name))[1]

    def load_if_changed(self, seen: object) -> tuple[object, StoredPlan | None]:
        """Believe the watch if it is well, and ask the server if not."""
        self.watch.start()
        told, writes, sight = self._told, self._writes, self.watch.sight
        try:
            believed = sight is not None and told.writes == writes and not _older(sight.found, told)
            if not believed and self._asked_lately() and told.writes == writes and seen is told.token:
                return seen, None
            self._maps.begin()
            found = sight.found if believed and sight is not None else self._ask()
            if seen is told.token and told.revision == revision_of(found):
                self._told, self._problem = replace(told, writes=writes), None
                return seen, None
            found, stored = self._assemble(found)
        except StoreError as error:
            self._problem = error
            raise
        newest = None if stored is None else (stored.plan.version, stored.heartbeat.at_s)
        self._told, self._problem = _Told(object(), revision_of(found), newest, writes), None
        return self._told.token, stored

    def _asked_lately(self) -> bool:
        """Whether the server was asked a moment ago. A StoreError that this ended with holds until the next asking."""
        lately = self._maps.api.clock.monotonic_s() - self._asked_s < self._settings.fallback_s
        if lately and self._problem is not None:
            raise self._problem
        return lately

    def _ask(self) -> Mapping[str, Any] | None:
        self._asked_s = self._maps.api.clock.monotonic_s()
        try:
            return self.watch.look(self._maps.left_s())[0]
        except ApiError as error:
            raise StoreError(f"ConfigMap {self._settings.name} cannot be read: {error}") from error

    def _assemble(self, found: Mapping[str, Any] | None) -> tuple[Mapping[str, Any] | None, StoredPlan | None]:
        """Put together what an index names; where a shard has moved on, the index has too.

        DamagedError where it has not: what it names is gone, and only another plan brings it back.
        """
        missing, moved = "", False
        for _ in range(ATTEMPTS):
            index = head_of(found, self._settings.name).index
            if index is None:
                return found, None
            missing, parts = self._collect(index)
            if parts is not None:
                self._answers = parts
                answers: dict[WorkloadId, Answer] = {}
                for part in parts.values():
                    answers.update(part)
                return found, StoredPlan(PublishedPlan(index.version, answers), index.heartbeat)
            again = self._maps.get(self._settings.name)
            moved, found = revision_of(again) != revision_of(found), again
        raise (StoreError if moved else DamagedError)(f"the plan cannot be put together: {missing}")

    def _collect(self, index: Index) -> tuple[str, dict[str, Answers] | None]:
        """Return the answers of all shards by digest, or what is missing."""
        parts: dict[str, Answers] = {}
        for number, digest in enumerate(index.digests):
            part = self._answers.get(digest)
            if part is None:
                name = self._settings.shard_name(number)
                shard = self._maps.get(name)
                content = None if shard is None else (shard.get("binaryData") or {}).get(digest)
                if content is None:
                    return f"ConfigMap {name} {'does not exist' if shard is None else f'holds no {digest}'}", None
                try:
                    part = unpack(content, digest)
                except (ValueError, TypeError) as error:
                    return f"ConfigMap {name} does not hold what it should: {error}", None
            parts[digest] = part
        return "", parts


def _older(found: Mapping[str, Any] | None, told: _Told) -> bool:
    """Whether what a watch shows is older than what was told already, which came from the server itself."""
    if found is None or told.newest is None:
        return False
    index = head_of(found, "of the plan").index
    return index is not None and (index.version, index.heartbeat.at_s) < told.newest
