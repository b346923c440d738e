"""Writes plans into ConfigMaps, fenced: see `plan_store.py` for what that means."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from scaler.adapters.kubernetes.api import ApiConnection
from scaler.adapters.kubernetes.plan_maps import ATTEMPTS, Maps, Moved, PlanStoreSettings, index_of
from scaler.adapters.kubernetes.plan_shards import (
    Index,
    Shard,
    index_to_object,
    pack,
    shard_from_object,
    shard_to_object,
)
from scaler.core.published import Heartbeat, PublishedPlan
from scaler.ports import StoreError


class PlanWriter:
    """Writes plans. It remembers what it wrote, and reads only when that turns out to be wrong."""

    def __init__(self, api: ApiConnection, settings: PlanStoreSettings) -> None:
        self._maps = Maps(api, settings)
        self._settings = settings
        self._index: Index | None = None  # as last written or read
        self._shards: dict[int, Shard] = {}

    def publish(self, plan: PublishedPlan, heartbeat: Heartbeat) -> None:
        """Write the shards that changed, then the index; StoreError when it cannot or may not."""
        try:
            packed = pack(plan.answers, self._settings.shards)
        except ValueError as error:
            raise StoreError(f"the plan cannot be written: {error}") from error
        contents = dict(enumerate(packed))
        new = Index(plan.version, self._settings.writer, tuple(digest for digest, _ in packed), heartbeat)
        self._attempt(lambda: self._publish(new, contents))

    def beat(self, heartbeat: Heartbeat) -> None:
        """Write the index with another heartbeat; StoreError when it cannot or may not."""
        self._attempt(lambda: self._beat(heartbeat))

    def _attempt(self, write: Callable[[], None]) -> None:
        """Try a write; where something else wrote between, or it is not known what happened, look and try again."""
        self._maps.begin()
        moved: Moved | None = None
        for _ in range(ATTEMPTS):
            try:
                return write()
            except Moved as error:
                self._index, self._shards, moved = None, {}, error
            except BaseException:
                self._index, self._shards = None, {}
                raise
        raise StoreError(f"written over {ATTEMPTS} times: {moved}") from moved

    def _publish(self, new: Index, contents: Mapping[int, tuple[str, str]]) -> None:
        stored = self._stored()
        if stored is not None:
            if stored.same_plan(new) and stored.heartbeat == new.heartbeat:
                return  # an earlier try got through, and its answer did not
            self._may_follow(stored, new)
        for number, (digest, content) in contents.items():
            kept = stored.digests[number] if stored is not None and number < len(stored.digests) else ""
            self._put_shard(number, digest, content, kept, new.version.epoch)
        self._put_index(replace(new, revision="" if stored is None else stored.revision))

    def _beat(self, heartbeat: Heartbeat) -> None:
        stored = self._stored()
        if stored is None:
            raise StoreError(f"a heartbeat needs a plan, and ConfigMap {self._settings.name} does not exist")
        if stored.version != heartbeat.version:
            raise StoreError(f"the heartbeat must be of the stored plan, {_by(stored)}, was of {heartbeat.version}")
        if heartbeat.at_s >= stored.heartbeat.at_s and heartbeat != stored.heartbeat:
            self._put_index(replace(stored, heartbeat=heartbeat, writer=self._settings.writer))

    def _stored(self) -> Index | None:
        if self._index is None:
            self._index = index_of(self._maps.get(self._settings.name), self._settings.name)
        return self._index

    @staticmethod
    def _may_follow(stored: Index, new: Index) -> None:
        if stored.version >= new.version:
            raise StoreError(
                f"must be newer than the stored plan, {stored.version} by {stored.writer!r}, was {new.version}"
            )

    def _put_shard(self, number: int, digest: str, content: str, kept: str, epoch: int) -> None:
        """Put new content beside the content that the stored index names, if it is not there yet."""
        name, shard = self._settings.shard_name(number), self._shards.get(number)
        if shard is None:
            shard = self._read_shard(name)
        if shard.epoch > epoch:
            raise StoreError(
                f"ConfigMap {name} was written in epoch {shard.epoch}, ours is {epoch}: somebody else leads"
            )
        if digest not in shard.contents or shard.epoch < epoch:
            contents = {digest: content, **({kept: shard.contents[kept]} if kept in shard.contents else {})}
            body = shard_to_object(name, self._settings.namespace, replace(shard, epoch=epoch, contents=contents))
            shard = Shard(epoch, contents, self._maps.put(name, body))
        self._shards[number] = shard

    def _read_shard(self, name: str) -> Shard:
        found = self._maps.get(name)
        if found is None:
            return Shard(0, {})
        try:
            return shard_from_object(found)
        except ValueError:  # spoilt by hand: the next plan repairs it
            return Shard(0, {}, str(found["metadata"]["resourceVersion"]))

    def _put_index(self, index: Index) -> None:
        body = index_to_object(self._settings.name, self._settings.namespace, index)
        self._index = replace(index, revision=self._maps.put(self._settings.name, body))


def _by(index: Index) -> str:
    return f"{index.version} by {index.writer!r}"
