"""The plan as it lies in ConfigMaps: an index, and shards that are named in it by the digest of what they hold.

The index alone says what the plan is: its version, who wrote it, the digest of each shard, and the latest heartbeat. It
also bears a claim: the highest epoch that ever began to write. A shard keeps what the index names beside what the next
index will name, so one write of the index changes the whole plan at once, and a writer that dies half-way has changed
nothing for any reader.

A workload's shard follows from its namespace and name, not from its namespace alone: one namespace may hold most of the
workloads, and no tenant can fill a shard that others share by it. A ConfigMap holds 1 MiB, so half of that is what one
shard of a plan may have; 10,000 workloads need about 15 KB in each of 8 shards.
"""

import hashlib
import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from scaler.core.published import (
    Answer,
    Heartbeat,
    PlanVersion,
    PublishedPlan,
    heartbeat_from_json,
    heartbeat_to_json,
    plan_from_json,
    plan_to_json,
)
from scaler.core.values import WorkloadId

INDEX_SCHEMA: Final = 1
MAX_SHARDS: Final = 64
MAX_SHARD_BYTES: Final = 512 << 10
_MAX_UNPACKED_BYTES: Final = 64 << 20
_INDEX_KEY: Final = "index"
_HEARTBEAT_KEY: Final = "heartbeat"
_VERSION_KEY: Final = "version"
_CLAIMED_KEY: Final = "headway.dev/claimed-for"
_CLAIMANT_KEY: Final = "headway.dev/claimed-by"
NEVER: Final = PlanVersion(-1, 0)

Answers = Mapping[WorkloadId, Answer]


@dataclass(frozen=True, slots=True)
class Index:
    """What the plan is."""

    version: PlanVersion
    writer: str
    digests: tuple[str, ...]
    heartbeat: Heartbeat

    def same_plan(self, other: "Index") -> bool:
        """Whether both name the same content under the same version, by whomever and whenever."""
        return (self.version, self.digests) == (other.version, other.digests)


@dataclass(frozen=True, slots=True)
class Head:
    """The index's ConfigMap: the index, None before the first plan, and who claimed to be the one that writes it.

    `revision` is the ConfigMap's resourceVersion, empty where there is none; a write demands that it is still that.
    """

    index: Index | None = None
    claimed: PlanVersion = NEVER
    claimant: str = ""
    revision: str = ""


@dataclass(frozen=True, slots=True)
class Shard:
    """One shard's ConfigMap: contents by digest, in base64, and the version for which it was written last."""

    version: PlanVersion = NEVER
    contents: Mapping[str, str] = field(default_factory=dict)
    revision: str = ""


def pack(answers: Answers, count: int) -> list[tuple[str, str]]:
    """Return digest and content of each of `count` shards. ValueError when one would be too large."""
    parts: list[dict[WorkloadId, Answer]] = [{} for _ in range(count)]
    for key, answer in answers.items():
        parts[zlib.crc32(f"{key.namespace}/{key.name}".encode()) % count][key] = answer
    return [_packed(number, part) for number, part in enumerate(parts)]


def _packed(number: int, part: Answers) -> tuple[str, str]:
    raw = orjson.dumps(plan_to_json(PublishedPlan(NEVER, part))["answers"])
    content = zlib.compress(raw)
    if len(content) > MAX_SHARD_BYTES:
        raise ValueError(
            f"shard {number} must have at most {MAX_SHARD_BYTES} bytes, was {len(content)}: use more shards"
        )
    return _digest(raw), b64encode(content).decode()


def unpack(content: str, digest: str) -> Answers:
    """Return the answers of a shard. ValueError when it is not what its digest says."""
    raw = _unzip(content)
    if _digest(raw) != digest:
        raise ValueError(f"its digest must be {digest}, was {_digest(raw)}")
    return plan_from_json({"schema": 1, "epoch": 0, "sequence": 0, "answers": orjson.loads(raw)}).answers


def head_to_object(name: str, namespace: str, head: Head) -> dict[str, Any]:
    """Return the head as a ConfigMap. The index is for people too, the heartbeat may be long and is packed."""
    made = _head(name, namespace, head.revision)
    made["metadata"]["annotations"] = {_CLAIMED_KEY: _version_text(head.claimed), _CLAIMANT_KEY: head.claimant}
    return made if head.index is None else {**made, **_index_to_data(head.index)}


def _index_to_data(index: Index) -> dict[str, Any]:
    described = {
        "schema": INDEX_SCHEMA,
        "epoch": index.version.epoch,
        "sequence": index.version.sequence,
        "writer": index.writer,
        "shards": index.digests,
    }
    beat = orjson.dumps(heartbeat_to_json(index.heartbeat))
    return {
        "data": {_INDEX_KEY: orjson.dumps(described).decode()},
        "binaryData": {_HEARTBEAT_KEY: b64encode(zlib.compress(beat)).decode()},
    }


def head_from_object(found: Mapping[str, Any]) -> Head:
    """Read what `head_to_object` made. ValueError when it is not of this shape."""
    try:
        metadata = found["metadata"]
        claim = metadata["annotations"]
        claimed, claimant, revision = (
            _version(claim[_CLAIMED_KEY]),
            str(claim[_CLAIMANT_KEY]),
            metadata["resourceVersion"],
        )
        index = _index_from_data(found) if found.get("data") or found.get("binaryData") else None
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"it is not of the expected shape: {error!r}") from error
    if index is not None and index.version.epoch > claimed.epoch:
        raise ValueError(f"its version must be at most that claimed, {claimed}, was {index.version}")
    return Head(index, claimed, claimant, str(revision))


def _index_from_data(found: Mapping[str, Any]) -> Index:
    described = orjson.loads(found["data"][_INDEX_KEY])
    if described["schema"] != INDEX_SCHEMA:
        raise ValueError(f"schema must be {INDEX_SCHEMA}, was {described['schema']!r}")
    version = PlanVersion(int(described["epoch"]), int(described["sequence"]))
    digests = tuple(str(digest) for digest in described["shards"])
    if not 1 <= len(digests) <= MAX_SHARDS:
        raise ValueError(f"shards must be 1 to {MAX_SHARDS}, were {len(digests)}")
    beat = heartbeat_from_json(orjson.loads(_unzip(found["binaryData"][_HEARTBEAT_KEY])))
    if beat.version != version:
        raise ValueError(f"its heartbeat must be of {version}, was of {beat.version}")
    return Index(version, str(described["writer"]), digests, beat)


def shard_to_object(name: str, namespace: str, shard: Shard) -> dict[str, Any]:
    """Return a shard as a ConfigMap."""
    head = _head(name, namespace, shard.revision)
    return {**head, "data": {_VERSION_KEY: _version_text(shard.version)}, "binaryData": dict(shard.contents)}


def shard_from_object(found: Mapping[str, Any]) -> Shard:
    """Read what `shard_to_object` made. ValueError when it is not of this shape."""
    try:
        version, revision = _version(found["data"][_VERSION_KEY]), str(found["metadata"]["resourceVersion"])
        return Shard(version, dict(found.get("binaryData") or {}), revision)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"it is not of the expected shape: {error!r}") from error


def _head(name: str, namespace: str, revision: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": namespace,
        "labels": {"app.kubernetes.io/managed-by": "headway", "app.kubernetes.io/component": "plan"},
    }
    if revision:
        metadata["resourceVersion"] = revision
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def _version_text(version: PlanVersion) -> str:
    return f"{version.epoch}.{version.sequence}"


def _version(text: str) -> PlanVersion:
    epoch, _, sequence = text.partition(".")
    return PlanVersion(int(epoch), int(sequence))


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()[:32]


def _unzip(content: str) -> bytes:
    unzip = zlib.decompressobj()
    try:
        raw = unzip.decompress(b64decode(content, validate=True), _MAX_UNPACKED_BYTES)
    except zlib.error as error:
        raise ValueError(f"it cannot be unpacked: {error}") from error
    if not unzip.eof:
        raise ValueError("it is cut off or too large")
    return raw
