"""Follows one kind of Kubernetes object: a list, then a watch from where the list ended, for as long as it is wanted.

The list is the truth and the watch an economy. So whatever a watch does that is not plainly right (it has expired, it
says nothing for too long, it runs late, it sends what is no event) ends in another list; a fault of the network does
not, as long as it is short: the watch goes on from the last resourceVersion. A watch that is accepted and says nothing
is no evidence: a view ages until a list, an event or a bookmark was heard.

API servers send a bookmark every minute, but only once they know that time has passed for a kind: something of it has
changed, or etcd has told its progress (which kubeadm has it do every 5 s, and etcd by itself every 10 minutes). So a
kind of which nothing changes may say nothing though all is well. That is no fault: it is listed again, every 90 s.
"""

import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeVar

import structlog

from scaler.adapters.kubernetes.api import ApiConnection, ApiError, Watch
from scaler.adapters.kubernetes.keeping import Sink
from scaler.adapters.kubernetes.lag import Lag
from scaler.adapters.kubernetes.lists import PAGE_OBJECTS, Visit, list_all
from scaler.adapters.kubernetes.objects import Key, Object, key_of, part, text, time_of
from scaler.adapters.kubernetes.watch_events import BOOKMARK, GONE, WatchError, read_event
from scaler.ports import Clock

_log = structlog.get_logger(__name__)

T = TypeVar("T")
SILENCE: Final = "Timeout"  # nothing came, over a connection that was there
LIST_AFTER: Final = frozenset({"TooLarge"})  # such an event can never be read over this watch
REFUSED: Final = frozenset({401, 403, 404, 405})  # what tries seldom change, but of a server that has just started
_WELL: Final = {"problem": "", "refused": False, "unknown": False, "forbidden": 0}


@dataclass(frozen=True, slots=True)
class Pace:
    """How much and how often. Each wait is drawn between its half and its whole, so that replicas spread."""

    page_objects: int = PAGE_OBJECTS
    backoff_s: float = 1.0  # after the first failure; twice as long after each further one
    backoff_max_s: float = 30.0
    refused_max_s: float = 60.0  # the same after 403 and the like
    watch_s: float = 300.0  # the server is asked to end a watch after this long
    silence_s: float = 90.0  # after a watch that says nothing for longer (bookmarks come every 60 s) comes a list
    relist_after_s: float = 120.0  # without evidence for longer, nothing but a list is believed


@dataclass(frozen=True, slots=True)
class Progress:
    """What a follower has done so far. `problem` is empty while all is well."""

    synced: bool = False  # a list has been taken over at least once
    refused: bool = False  # the last try ended in a refusal: no right to it, or no such kind
    unknown: bool = False  # the API server knows no such kind: there is none of it
    forbidden: int = 0  # how often there was no right to it since it was last listed, or a watch accepted
    problem: str = ""
    lists: int = 0
    watches: int = 0
    events: int = 0
    bookmarks: int = 0
    odd: int = 0  # objects and lines that could not be read
    lag_s: float = 0.0  # how late the newest event came, where that can be told


class Stopped(Exception):  # noqa: N818  # no error: it ends the thread's work wherever that is
    """The follower was stopped in the middle of a list."""


class Follower(Generic[T]):
    """Keeps a sink current with one kind, in a thread of its own.

    What `read` returns None for is skipped: as odd, or, where the follower is `selective`, as nothing to do with it.
    """

    def __init__(
        self,
        name: str,
        path: str,
        read: Callable[[Object], T | None],
        sink: Sink[T],
        api: ApiConnection,
        *,
        namespace: str = "",
        labels: str = "",
        selective: bool = False,
        pace: Pace | None = None,
        chance: random.Random | None = None,
    ) -> None:
        """Follow what is listed at `path`, which is of one namespace or (empty) of all; nothing happens before `start`.

        `name` is for people. `labels` is a label selector that the server applies.
        """
        self.name = name
        self.namespace = namespace
        self._query: Mapping[str, str] = {"labelSelector": labels} if labels else {}
        self.progress = Progress()
        self._path = path
        self._read = read
        self._selective = selective
        self._sink = sink
        self._api = api
        self._clock: Clock = api.clock
        self._pace = pace or Pace()
        self._chance = chance or random.Random()  # noqa: S311  # spreads load, guards nothing
        self._version = ""  # of the last list or event; empty: a list is needed
        self._heard_s: float | None = None  # monotonic; the view is what it was in the cluster at this moment
        self._lag = Lag()
        self._failures = 0
        self._failed_with = 0  # the last failure's status
        self._logged = ""  # the last problem, until something is heard again
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._watch: Watch | None = None
        self._thread = threading.Thread(target=self._run, name=f"follow-{name}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, at once where it watches; a call that hangs ends with its time-out, or as its connection is closed."""
        self._stop.set()
        with self._lock:
            watch = self._watch
        if watch is not None:
            watch.cut()

    def join(self, timeout_s: float) -> bool:
        """Wait for the thread's end; return whether it has ended."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def age_s(self) -> float | None:
        """Seconds since the sink was last known to show the cluster as it is; None before the first list."""
        heard_s = self._heard_s
        return None if heard_s is None else max(0.0, self._clock.monotonic_s() - heard_s)

    @property
    def silence(self) -> str:
        """One line about a kind of which nothing was heard for longer than a list should be away; else empty."""
        age_s = self.age_s or 0.0
        return f"nothing was heard for {age_s:.0f} s" if age_s > self._pace.relist_after_s else ""

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._once()
            except Stopped:
                return
            except ApiError as error:
                self._failed(str(error), status=error.status, reason=error.reason)
            except WatchError as error:
                self._failed(str(error), status=GONE)
            except Exception as error:  # noqa: BLE001  # the loop's edge: a fault of one object must not blind the view
                self._failed(f"unexpected {type(error).__name__}: {error}", status=GONE)

    def _once(self) -> None:
        """List if that is needed, and watch until the watch ends."""
        age_s = self.age_s
        if not self._version or age_s is None or age_s > self._pace.relist_after_s:
            self._list()
        if self._follow():
            return
        raise ApiError(0, "Silent", f"WATCH {self._path}: ended without a word")

    def _list(self) -> None:
        begun_s = 0.0
        found: dict[Key, T] = {}

        def begin() -> Visit:
            nonlocal begun_s
            begun_s = self._clock.monotonic_s()
            found.clear()
            return visit

        def visit(it: dict[str, Any]) -> None:
            if self._stop.is_set():
                raise Stopped
            key, value = key_of(it), self._read_safely(it)
            if key is not None and value is not None:
                found[key] = value
            else:
                self._skipped(key)

        version = list_all(self._api, self._path, begin, query=self._query, size=self._pace.page_objects)
        self._sink.replace(found, self.namespace)
        self._version, self._heard_s = version, begun_s  # the list shows the moment of its first page
        self._lag.caught_up()
        self._tell(synced=True, lists=self.progress.lists + 1, lag_s=0.0, **_WELL)

    def _follow(self) -> bool:
        """Watch until the watch ends; return whether it said anything, or was silent for so long that a list must."""
        watch, heard = self._open(), False
        self._tell(watches=self.progress.watches + 1)
        try:
            for line in watch:
                self._take(line)
                heard, self._failures = True, 0
                if (self.age_s or 0.0) > self._pace.relist_after_s:
                    raise WatchError(f"WATCH {self._path}: events come {self.progress.lag_s:.0f} s late")
                if self._stop.is_set():
                    break
        except ApiError as error:
            if error.reason != SILENCE:
                raise
            self._version, heard = "", True  # the silence itself was the wait
        finally:
            watch.cut()
            with self._lock:
                self._watch = None
        if self._stop.is_set():
            raise Stopped
        return heard

    def _open(self) -> Watch:
        seconds = self._spread(self._pace.watch_s)
        query = {
            **self._query,
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": max(1, round(seconds)),
        }
        watch = self._api.watch(self._path, query, silence_s=self._pace.silence_s, accepted=self._well)
        with self._lock:
            self._watch = watch
        if self._stop.is_set():  # `stop` may have looked for a watch before there was one
            raise Stopped
        return watch

    def _take(self, line: bytes) -> None:
        """Take one event over into the sink."""
        kind, it = read_event(self._path, line)
        if kind == BOOKMARK:
            self._tell(bookmarks=self.progress.bookmarks + 1)
        else:
            self._apply(kind, it)
        self._version = text(part(it, "metadata"), "resourceVersion") or self._version
        self._heard_s = self._clock.monotonic_s() - self.progress.lag_s
        if self._logged:
            _log.info("watch_well_again", kind=self.name)
            self._logged = ""
        self._well()

    def _well(self) -> None:
        """Drop what was wrong: the server has accepted the watch. Whether it also says something, the age tells."""
        if self.progress.problem:
            self._tell(**_WELL)

    def _apply(self, kind: str, it: Object) -> None:
        if kind == "ADDED":
            self._lag.created(time_of(part(it, "metadata"), "creationTimestamp"), self._clock)
        self._tell(events=self.progress.events + 1, lag_s=self._lag.late_s)
        key = key_of(it)
        value = None if key is None or kind == "DELETED" else self._read_safely(it)
        if kind != "DELETED" and value is None:
            self._skipped(key)
        if key is not None and value is not None:
            self._sink.put(key, value)
        elif key is not None:
            self._sink.remove(key)  # of one that cannot be read any more nothing is known

    def _skipped(self, key: Key | None) -> None:
        if key is None or not self._selective:
            self._tell(odd=self.progress.odd + 1)

    def _read_safely(self, it: Object) -> T | None:
        try:
            return self._read(it)
        except Exception as error:  # noqa: BLE001  # a tenant's object must not end the view of all others
            _log.warning("object_unreadable", kind=self.name, error=type(error).__name__)
            return None

    def _failed(self, problem: str, *, status: int, reason: str = "") -> None:
        """Note a failure and wait before the next try."""
        refused = status in REFUSED
        if status == GONE or reason in LIST_AFTER:
            self._version = ""
        if (status == GONE or refused) and self._failed_with != status:
            self._failures = 0  # the server answers again: what was waited for before is over
        self._failed_with = status
        if problem != self._logged:
            _log.warning("watch_failed", kind=self.name, error=problem)
            self._logged = problem
        forbidden = self.progress.forbidden + (status == 403)
        self._tell(problem=problem, refused=refused, unknown=status == 404, forbidden=forbidden)
        most_s = self._pace.refused_max_s if refused else self._pace.backoff_max_s
        backoff_s = min(self._pace.backoff_s * 2.0 ** min(self._failures, 16), most_s)
        self._failures += 1
        self._stop.wait(self._clock.wall_duration(self._spread(backoff_s)))

    def _spread(self, seconds: float) -> float:
        return seconds * self._chance.uniform(0.5, 1.0)

    def _tell(self, **changes: Any) -> None:
        self.progress = replace(self.progress, **changes)
