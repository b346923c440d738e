"""Keeps a local copy of the plan's index current, so that looking once a second costs the API server nothing.

One list and one watch of one ConfigMap, in a thread. A watch whose time is over is followed by one from where it ended,
not by a list. While it is well, which a heartbeat or a bookmark each minute shows, a look is a look into memory. A
watch that has said nothing for too long is not believed, whatever it is: then each look asks the server, at most once
in a few seconds.
"""

import random
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson
import structlog

from scaler.adapters.kubernetes.api import ApiConnection, ApiError, Watch

_log = structlog.get_logger(__name__)

WATCH_S: Final = 300  # the server is asked to end a watch after this long, less up to a fifth
SILENCE_S: Final = 90.0  # a well watch is heard of every 60 s
BACKOFF_S: Final = (1.0, 2.0, 5.0, 10.0)  # after the first, second, ... failure


@dataclass(frozen=True, slots=True)
class Sight:
    """What was last seen: the object or None, and when (monotonic seconds)."""

    found: Mapping[str, Any] | None
    seen_s: float


class ObjectWatch:
    """Watches one object by name."""

    def __init__(self, api: ApiConnection, collection: str, name: str) -> None:
        self._api = api
        self._collection = collection
        self._query = {"fieldSelector": f"metadata.name={name}"}
        self._sight: Sight | None = None
        self._version = ""  # of the last list, event or bookmark; empty: a list is needed
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._watch: Watch | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin, if it has not begun."""
        with self._lock:
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._run, name="watch-plan", daemon=True)
                self._thread.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """End, and wait for the thread's end."""
        self._stop.set()
        with self._lock:
            watch, thread = self._watch, self._thread
        if watch is not None:
            watch.cut()
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout_s)

    @property
    def sight(self) -> Sight | None:
        """What the watch shows; None while it cannot be believed."""
        sight = self._sight
        if sight is None or self._api.clock.monotonic_s() - sight.seen_s > SILENCE_S:
            return None
        return sight

    def look(self, timeout_s: float) -> tuple[Mapping[str, Any] | None, str]:
        """Ask the server: the object, or None where there is none; and the version from which to watch."""
        listed = self._api.get(self._collection, self._query, timeout_s=timeout_s)
        items, version = listed.get("items") or [], str((listed.get("metadata") or {}).get("resourceVersion") or "")
        return (items[0] if items else None), version

    def _run(self) -> None:
        failures = 0
        while not self._stop.is_set():
            try:
                self._follow()
                failures = 0
            except Exception as error:  # noqa: BLE001 - the loop's edge: a watch that ended for good would go unnoticed
                self._sight = None  # every look asks the server, until a list has told where to go on from
                self._version = ""
                _log.info("plan_watch_failed", error=str(error))
                wait_s = BACKOFF_S[min(failures, len(BACKOFF_S) - 1)]
                failures += 1
                self._stop.wait(random.uniform(wait_s / 2, wait_s))  # noqa: S311 - spreads load, guards nothing

    def _follow(self) -> None:
        """List if that is needed, and watch until the watch ends; ApiError where it ends without a word."""
        if not self._version:
            found, self._version = self.look(self._api.settings.total_timeout_s)
            self._see(found)
        seconds = round(random.uniform(0.8, 1.0) * WATCH_S)  # noqa: S311 - as above
        query = {"resourceVersion": self._version, "allowWatchBookmarks": "true", "timeoutSeconds": seconds}
        watch = self._api.watch(self._collection, {**self._query, **query}, silence_s=SILENCE_S)
        with self._lock:
            self._watch = watch
        if self._stop.is_set():  # `stop` may have come before there was a watch to cut
            watch.cut()
        heard = False
        for line in watch:
            self._take(line)
            heard = True
        if not heard and not self._stop.is_set():
            raise ApiError(0, "Silent", f"WATCH {self._collection}: ended without a word")

    def _take(self, line: bytes) -> None:
        try:
            event = orjson.loads(line)
            kind, item = str(event["type"]), dict(event["object"])
        except (ValueError, TypeError, KeyError) as error:
            raise ApiError(0, "Unreadable", f"WATCH {self._collection}: sent what is no event: {error}") from error
        if kind == "ERROR":
            raise ApiError(0, "Expired", f"WATCH {self._collection}: ended with {item.get('code')}")
        self._version = str((item.get("metadata") or {}).get("resourceVersion") or "")
        sight = self._sight
        if kind == "BOOKMARK":
            if sight is not None:
                self._sight = Sight(sight.found, self._api.clock.monotonic_s())
            return
        self._see(None if kind == "DELETED" else item)

    def _see(self, found: Mapping[str, Any] | None) -> None:
        self._sight = Sight(found, self._api.clock.monotonic_s())
