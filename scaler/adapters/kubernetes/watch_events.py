"""Reads what a watch sends: one event a line, or the end of the watch in its own words."""

from typing import Final

import orjson

from scaler.adapters.kubernetes.api import ApiError
from scaler.adapters.kubernetes.objects import Object, part, text

GONE: Final = 410
BOOKMARK: Final = "BOOKMARK"  # nothing but a version up to which everything was sent
KINDS: Final = frozenset({BOOKMARK, "ADDED", "MODIFIED", "DELETED"})


class WatchError(Exception):
    """The watch itself said, or showed, that it cannot be gone on with; a list must follow."""


def read_event(path: str, line: bytes) -> tuple[str, Object]:
    """Return an event's kind, one of KINDS, and its object. ApiError for an ERROR event, WatchError for no event."""
    try:
        event = orjson.loads(line)
    except ValueError as error:
        raise WatchError(f"WATCH {path}: sent what is no JSON: {error}") from None
    kind, it = text(event, "type"), part(event, "object")
    if kind == "ERROR":
        raise _refusal(path, it)
    if kind not in KINDS:
        raise WatchError(f"WATCH {path}: sent an event of an unknown type")
    return kind, it


def _refusal(path: str, status: Object) -> ApiError:
    """Return the error that an ERROR event stands for."""
    code, reason = status.get("code"), text(status, "reason")
    if code == GONE or reason in {"Expired", "Gone"}:
        return ApiError(GONE, "Expired", f"WATCH {path}: its resourceVersion has expired")
    number = code if isinstance(code, int) and not isinstance(code, bool) else 500
    return ApiError(number, reason[:64], f"WATCH {path}: ended with {number} {reason[:64]}")
