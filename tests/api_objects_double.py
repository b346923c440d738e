"""The state behind the double of an API server: objects by collection, their versions, the history that watches read.

It keeps the rules that a client may run into: versions that must match, names that are taken, objects that are too
large or not of the shape that the real server accepts, and history that ends somewhere.
"""

import base64
import copy
import json
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

MAX_CONFIG_MAP_BYTES = 1 << 20
CREATED = "2026-01-01T00:00:00Z"
MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


class Refusal(Exception):  # noqa: N818 - it is an answer
    """An answer other than success."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason, self.message = status, reason, message

    def document(self) -> Json:
        return {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.status,
        }  # fmt: skip


@dataclass(frozen=True)
class Place:
    """What a path names: a collection, perhaps one namespace of it, one object, a subresource."""

    prefix: str  # /api/v1, /apis/apps/v1
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def collection(self) -> str:
        return f"{self.prefix}/{self.plural}"

    @classmethod
    def of(cls, path: str) -> "Place":
        parts = path.strip("/").split("/")
        if len(parts) < 3 or parts[0] not in {"api", "apis"}:
            raise Refusal(404, "NotFound", "the server could not find the requested resource")
        head = 2 if parts[0] == "api" else 3
        prefix, rest = "/" + "/".join(parts[:head]), parts[head:]
        namespace = ""
        if len(rest) > 2 and rest[0] == "namespaces":
            namespace, rest = rest[1], rest[2:]
        if not rest or len(rest) > 3:
            raise Refusal(404, "NotFound", "the server could not find the requested resource")
        plural, name, subresource = (*rest, "", "")[:3]
        return cls(prefix, plural, namespace, name, subresource)


@dataclass(frozen=True)
class Change:
    """One change in the history. `before` is what was there, None if nothing."""

    version: int
    collection: str
    kind: str
    before: Json | None
    after: Json


def selected(item: Mapping[str, Any] | None, selector: str) -> bool:
    """Whether an object's labels match a selector of equalities, inequalities and existence."""
    if item is None:
        return False
    labels = item["metadata"].get("labels") or {}
    return all(_matches(labels, term.strip()) for term in selector.split(",") if term.strip())


def _matches(labels: Mapping[str, str], term: str) -> bool:
    if "!=" in term:
        key, value = term.split("!=", 1)
        return labels.get(key.strip()) != value.strip()
    if "=" in term:
        key, value = re.split("==?", term, maxsplit=1)
        return labels.get(key.strip()) == value.strip()
    return (term[1:] not in labels) if term.startswith("!") else term in labels


class Objects:
    """All objects. Each is replaced as a whole and never changed in place, so that a snapshot is a list."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.version = 1000
        self.history: list[Change] = []
        self.oldest = 1000  # the version from which a watch can still be served
        self._items: dict[str, dict[tuple[str, str], Json]] = {}
        self._snapshots: dict[str, tuple[int, list[Json]]] = {}
        self._uids = 0

    # Reading.

    def get(self, place: Place) -> Json:
        with self.changed:
            found = self._items.get(place.collection, {}).get((place.namespace, place.name))
        if found is None:
            raise Refusal(404, "NotFound", f'{place.plural} "{place.name}" not found')
        return found

    def list(self, place: Place, selector: str = "", field: str = "") -> tuple[int, list[Json]]:
        with self.changed:
            items = self._items.get(place.collection, {})
            keys = sorted(key for key in items if not place.namespace or key[0] == place.namespace)
            name = field.removeprefix("metadata.name=") if field else ""
            found = [items[key] for key in keys if (not name or key[1] == name) and selected(items[key], selector)]
            return self.version, found

    def page(self, place: Place, selector: str, field: str, limit: int, token: str) -> Json:
        """One page of a list as it was at its first page. A token from before a compaction is 410 Expired."""
        with self.changed:
            if token:
                key, start = token.rsplit(".", 1)
                if key not in self._snapshots:
                    raise Refusal(
                        410, "Expired", "The provided continue parameter is too old to display a consistent list"
                    )
                version, items = self._snapshots[key]
            else:
                version, items = self.list(place, selector, field)
                key, start = f"t{len(self._snapshots)}x{version}", "0"
            first = int(start)
            last = len(items) if not limit else min(len(items), first + limit)
            metadata: Json = {"resourceVersion": str(version)}
            if last < len(items):
                self._snapshots[key] = (version, items)
                metadata |= {"continue": f"{key}.{last}", "remainingItemCount": len(items) - last}
            return {"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items[first:last]}

    # Writing.

    def create(self, place: Place, body: Json) -> Json:
        metadata = body.setdefault("metadata", {})
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = f"{metadata['generateName']}{self._uids:05x}"
        name = metadata.get("name") or place.name
        if not re.fullmatch(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", name):
            raise Refusal(422, "Invalid", f'metadata.name: Invalid value: "{name}"')
        if metadata.get("namespace", place.namespace) != place.namespace:
            raise Refusal(400, "BadRequest", "the namespace of the object does not match the request")
        place = Place(place.prefix, place.plural, place.namespace, name)
        with self.changed:
            if (place.namespace, name) in self._items.get(place.collection, {}):
                raise Refusal(409, "AlreadyExists", f'{place.plural} "{name}" already exists')
            check(place, body, None)
            return self._put(place, body, None)

    def replace(self, place: Place, body: Json) -> Json:
        with self.changed:
            before = self._to_replace(place, body.get("metadata") or {})
            if before is None:
                return self.create(place, body)
            check(place, body, before)
            return self._put(place, body, before)

    def _to_replace(self, place: Place, metadata: Json) -> Json | None:
        """What a PUT is over, if it is what the PUT demands; None for one that creates, as it may Leases.

        A PUT that creates may name any version; only a uid demands that there is something.
        """
        if (place.namespace, place.name) not in self._items.get(place.collection, {}) and place.plural == "leases":
            before, there = None, {}
        else:
            before = self.get(place)
            there = before["metadata"]
        expected, uid = metadata.get("resourceVersion"), metadata.get("uid")
        if uid is not None and uid != there.get("uid"):
            raise Refusal(409, "Conflict", f"Precondition failed: UID in precondition: {uid}")
        if before is not None and expected is None and place.plural == "leases":
            raise Refusal(422, "Invalid", "metadata.resourceVersion: must be specified for an update")
        if before is not None and expected not in {None, there["resourceVersion"]}:
            raise Refusal(
                409,
                "Conflict",
                f'Operation cannot be fulfilled on {place.plural} "{place.name}": the object has been modified',
            )
        return before

    def merge(self, place: Place, patch: Json) -> Json:
        with self.changed:
            return self.replace(place, _merged(self.get(place), patch))

    def delete(self, place: Place) -> Json:
        with self.changed:
            before = self.get(place)
            self.version += 1
            del self._items[place.collection][(place.namespace, place.name)]
            last = {**before, "metadata": {**before["metadata"], "resourceVersion": str(self.version)}}
            self._record(Change(self.version, place.collection, "DELETED", before, last))
            return last

    def forget_pages(self) -> None:
        """Forget what continue tokens refer to."""
        with self.changed:
            self._snapshots.clear()

    def compact(self) -> None:
        """Forget history and continue tokens, as etcd does every five minutes."""
        self.forget_pages()
        with self.changed:
            self.version += 1
            self.oldest = self.version

    def _put(self, place: Place, body: Json, before: Json | None) -> Json:
        metadata = {**(body.get("metadata") or {}), "name": place.name}
        if place.namespace:
            metadata["namespace"] = place.namespace
        if before is None:
            self._uids += 1
            metadata |= {"uid": metadata.get("uid") or f"uid-{self._uids}"}
            metadata.setdefault("creationTimestamp", CREATED)
        else:
            kept = before["metadata"]
            metadata |= {"uid": kept["uid"], "creationTimestamp": kept["creationTimestamp"]}
            metadata["resourceVersion"] = kept["resourceVersion"]
            if {**body, "metadata": metadata} == before:
                return before  # nothing changes, and the server writes nothing
        self.version += 1
        after = copy.deepcopy({**body, "metadata": {**metadata, "resourceVersion": str(self.version)}})
        self._items.setdefault(place.collection, {})[(place.namespace, place.name)] = after
        self._record(Change(self.version, place.collection, "ADDED" if before is None else "MODIFIED", before, after))
        return after

    def _record(self, change: Change) -> None:
        self.history.append(change)
        self.changed.notify_all()


def _merged(target: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged


def check(place: Place, body: Json, before: Json | None) -> None:
    """Refuse what the real server's validation refuses, of the kinds that Headway writes."""
    if place.plural == "configmaps":
        _check_config_map(body)
    elif place.plural == "leases":
        _check_lease(body.get("spec") or {})
    elif place.collection == "/apis/events.k8s.io/v1/events":
        _check_event(place, body, before)


def _invalid(message: str) -> Refusal:
    return Refusal(422, "Invalid", message)


def _check_config_map(body: Json) -> None:
    data, binary = body.get("data") or {}, body.get("binaryData") or {}
    size = sum(len(value.encode()) for value in data.values())
    size += sum(len(base64.b64decode(value, validate=True)) for value in binary.values())
    if size > MAX_CONFIG_MAP_BYTES:
        raise _invalid(f"[]: Too long: may not be more than {MAX_CONFIG_MAP_BYTES} bytes")
    for key in (*data, *binary):
        if not re.fullmatch(r"[-._a-zA-Z0-9]{1,253}", key):
            raise _invalid(f'data: Invalid value: "{key}"')
    if data.keys() & binary.keys():
        raise _invalid("data: Invalid value: duplicate of key present in binaryData")


def _check_lease(spec: Json) -> None:
    if "leaseDurationSeconds" in spec and not spec["leaseDurationSeconds"] > 0:
        raise _invalid("spec.leaseDurationSeconds: must be greater than 0")
    if not spec.get("leaseTransitions", 0) >= 0:
        raise _invalid("spec.leaseTransitions: must be greater than or equal to 0")
    for key in ("acquireTime", "renewTime"):
        if spec.get(key) is not None and not MICRO_TIME.fullmatch(spec[key]):
            raise Refusal(400, "BadRequest", f"{key}: parsing time {json.dumps(spec[key])}")


def _check_event(place: Place, body: Json, before: Json | None) -> None:
    changed = () if before is None else [key for key in body if body[key] != before.get(key)]
    if set(changed) - {"metadata", "series"}:
        raise _invalid(f"{changed}: field is immutable")
    if not MICRO_TIME.fullmatch(str(body.get("eventTime"))):
        raise _invalid("eventTime: Required value")
    for key, most in (("reportingController", 253), ("reportingInstance", 128), ("action", 128), ("reason", 128)):
        if not 0 < len(body.get(key) or "") <= most:
            raise _invalid(f"{key}: must be of 1 to {most} characters")
    if len(body.get("note", "")) > 1024:
        raise _invalid("note: can have at most 1024 characters")
    if body.get("type") not in {"Normal", "Warning"}:
        raise _invalid("type: Invalid value")
    if (body.get("regarding") or {}).get("namespace") != place.namespace:
        raise _invalid("regarding.namespace: does not match event.namespace")
    _check_series(body.get("series"))


def _check_series(series: Json | None) -> None:
    if series is not None and not (series["count"] >= 2 and MICRO_TIME.fullmatch(series["lastObservedTime"])):
        raise _invalid("series: must have a count of at least 2 and a lastObservedTime")
