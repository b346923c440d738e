"""Reads fields out of raw Kubernetes objects, whose every part may be missing, odd or absurd.

Nothing here raises for what an object holds. Typed objects of the client library are not used: a list of 3,600 of them
takes 12 s (kubernetes-client/python#1921), and Headway watches 100,000.
"""

from collections.abc import Mapping
from datetime import datetime
from sys import intern
from typing import Any, Final

Object = Mapping[str, Any]
Key = tuple[str, str]  # namespace (empty where the kind has none) and name

MAX_LABELS: Final = 100
_LATEST_S: Final = 32_503_680_000.0  # the year 3000: a later time is no time
_EMPTY: Final[Object] = {}


def part(value: Any, key: str) -> Object:
    """Return a mapping within a mapping; an empty one where there is none."""
    inner = value.get(key) if isinstance(value, dict) else None
    return inner if isinstance(inner, dict) else _EMPTY


def items(value: Any, key: str) -> list[Any]:
    """Return a list within a mapping; an empty one where there is none."""
    inner = value.get(key) if isinstance(value, dict) else None
    return inner if isinstance(inner, list) else []


def text(value: Any, key: str) -> str:
    """Return a text within a mapping; the empty one where there is none."""
    inner = value.get(key) if isinstance(value, dict) else None
    return inner if isinstance(inner, str) else ""


def count(value: Any, key: str, default: int | None = None) -> int | None:
    """Return a whole number >= 0 within a mapping, `default` where none is given, None where it is something else."""
    inner = value.get(key) if isinstance(value, dict) else None
    if inner is None:
        return default
    return inner if isinstance(inner, int) and not isinstance(inner, bool) and inner >= 0 else None


def key_of(it: Any) -> Key | None:
    """Return the namespace and name of an object; None where it has no name."""
    metadata = part(it, "metadata")
    name = text(metadata, "name")
    return (intern(text(metadata, "namespace")), name) if name else None


def time_of(value: Any, key: str) -> float | None:
    """Return an RFC 3339 time as Unix seconds; None where there is none, or none that can be."""
    inner = value.get(key) if isinstance(value, dict) else None
    if not isinstance(inner, str) or len(inner) > 40:
        return None
    try:
        moment = datetime.fromisoformat(inner)
        at_s = moment.timestamp() if moment.tzinfo else 0.0
    except (ValueError, OverflowError, OSError):
        return None
    return at_s if 0 < at_s < _LATEST_S else None


def labels_of(it: Any) -> tuple[tuple[str, str], ...] | None:
    """Return an object's labels in order; None where there are too many to keep."""
    labels = part(part(it, "metadata"), "labels")
    if len(labels) > MAX_LABELS:
        return None
    return tuple(sorted((intern(key), intern(value)) for key, value in labels.items() if isinstance(value, str)))


def condition(it: Any, kind: str) -> Object:
    """Return a condition of an object's status; an empty one where it has not got it."""
    for one in items(part(it, "status"), "conditions"):
        if isinstance(one, dict) and one.get("type") == kind:
            return one
    return _EMPTY
