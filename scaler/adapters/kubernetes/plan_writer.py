"""Writes plans into ConfigMaps, fenced: see `plan_store.py` for what that means."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from scaler.adapters.kubernetes.api import ApiConnection
from scaler.adapters.kubernetes.plan_maps import ATTEMPTS, Maps, Moved, PlanStoreSettings, head_of
from scaler.adapters.kubernetes.plan_shards import (
    Head,
    Index,
    Shard,
    head_to_object,
    pack,
    shard_from_object,
    shard_to_object,
)
from scaler.core.published import Heartbeat, PlanVersion, PublishedPlan
from scaler.ports import StoreError


class PlanWriter:
    """Writes plans. It remembers what it wrote, and reads only at first and when that turns out to be wrong.

    A head that was read, and not written by us just before, is claimed before a shard is touched. That changes its
    revision, so an index that somebody else, or we in an earlier try, may still have under way can never arrive after
    the shards that it names have been written over.
    """

    def __init__(self, api: ApiConnection, settings: PlanStoreSettings) -> None:
        self._maps = Maps(api, settings)
        self._settings = settings
        self._head: Head | None = None  # as we last wrote it
        self._shards: dict[int, Shard] = {}  # as we last wrote or read them under our claim

    def publish(self, plan: PublishedPlan, heartbeat: Heartbeat) -> None:
        """Write the shards that changed, then the index; StoreError when it cannot or may not."""
        try:
            packed = pack(plan.answers, self._settings.shards)
        except ValueError as error:
            raise StoreError(f"the plan cannot be written: {error}") from error
        new = Index(plan.version, self._settings.writer, tuple(digest for digest, _ in packed), heartbeat)
        self._attempt(lambda: self._publish(new, dict(packed)))

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
                self._head, self._shards, moved = None, {}, error
            except BaseException:
                self._head, self._shards = None, {}
                raise
        raise StoreError(f"written over {ATTEMPTS} times: {moved}") from moved

    def _publish(self, new: Index, contents: Mapping[str, str]) -> None:
        head = self._head or self._read_head()
        if head.index is not None and head.index.same_plan(new) and head.index.heartbeat == new.heartbeat:
            return  # an earlier try got through, and its answer did not
        _may_write(head, new.version)
        if self._head is None:
            head = self._put_head(replace(head, claimed=new.version, claimant=new.writer))
        named = () if head.index is None else head.index.digests
        for number, digest in enumerate(new.digests):
            self._put_shard(number, digest, contents[digest], named[number] if number < len(named) else "", new.version)
        self._put_head(replace(head, claimed=new.version, claimant=new.writer, index=new))

    def _beat(self, heartbeat: Heartbeat) -> None:
        head = self._head or self._read_head()
        if head.index is None:
            raise StoreError(f"a heartbeat needs a plan, and ConfigMap {self._settings.name} holds none")
        if head.claimed.epoch > heartbeat.version.epoch or head.index.version != heartbeat.version:
            raise StoreError(f"the heartbeat must be of the stored plan, {_by(head)}, was of {heartbeat.version}")
        if heartbeat.at_s >= head.index.heartbeat.at_s and heartbeat != head.index.heartbeat:
            written = self._put_head(replace(head, index=replace(head.index, heartbeat=heartbeat)))
            self._head = written if self._head is not None else None  # the shards are ours only by a claim

    def _read_head(self) -> Head:
        return head_of(self._maps.get(self._settings.name), self._settings.name)

    def _put_head(self, head: Head) -> Head:
        body = head_to_object(self._settings.name, self._settings.namespace, head)
        self._head = replace(head, revision=self._maps.put(self._settings.name, body))
        return self._head

    def _put_shard(self, number: int, digest: str, content: str, named: str, version: PlanVersion) -> None:
        """Put new content beside what the stored index names; what that names already needs no writing.

        A former leader that writes after us keeps what its index named, which ours names too where we wrote nothing;
        and where we did, its epoch is too low.
        """
        name, shard = self._settings.shard_name(number), self._shards.get(number)
        if shard is None:
            shard = self._read_shard(name)
        if shard.version.epoch > version.epoch:
            raise StoreError(f"ConfigMap {name} was written in {shard.version}, ours is {version}: somebody else leads")
        if digest != named or digest not in shard.contents:
            kept = {named: shard.contents[named]} if named in shard.contents else {}
            shard = replace(shard, version=version, contents={**kept, digest: content})
            body = shard_to_object(name, self._settings.namespace, shard)
            shard = replace(shard, revision=self._maps.put(name, body))
        self._shards[number] = shard

    def _read_shard(self, name: str) -> Shard:
        found = self._maps.get(name)
        if found is None:
            return Shard()
        try:
            return shard_from_object(found)
        except ValueError:  # spoilt by hand: the next plan repairs it
            return Shard(revision=str(found["metadata"]["resourceVersion"]))


def _may_write(head: Head, version: PlanVersion) -> None:
    if head.claimed.epoch > version.epoch or (head.index is not None and head.index.version >= version):
        raise StoreError(f"must be newer than the stored plan, {_by(head)}, was {version}")


def _by(head: Head) -> str:
    index, claim = head.index, f"claimed for {head.claimed} by {head.claimant!r}"
    return claim if index is None else f"{index.version} by {index.writer!r}, {claim}"
