"""Reads the scale subresource of targets that are not watched, at a bounded rate.

Any resource may be a target (a LeaderWorkerSet, a Rollout, a custom one) unless it is configured which. There is no
watching all scales at once, so each costs one GET now and then: at 10 a second 1,800 targets are read once within three
minutes, the age that a reading may have. Beyond that number readings run out and their workloads are absent from the
view with that reason; the API server is never asked for more. Targets whose pods have just changed are read first.
"""

import threading
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

import structlog

from scaler.adapters.kubernetes.api import ApiConnection, ApiError, path
from scaler.adapters.kubernetes.objects import items, text
from scaler.adapters.kubernetes.targets import Scale, TargetRef, read_scale

_log = structlog.get_logger(__name__)

REFRESH_S: Final = 15.0  # the HPA's own period: more often there is nothing to see
MAX_GROUP_VERSIONS: Final = 1000
_IDLE_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class ScalePace:
    """How often scales are asked for. Seconds are the clock's."""

    per_second: float = 10.0
    refresh_s: float = REFRESH_S
    max_age_s: float = 180.0  # an older reading is none
    forget_s: float = 300.0  # what the API server knew of kinds: new ones may have been installed since

    def __post_init__(self) -> None:
        for name in ("per_second", "refresh_s", "max_age_s", "forget_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be > 0, was {getattr(self, name)}")


@dataclass(frozen=True, slots=True)
class ScaleReading:
    """A target's scale, or why there is none."""

    scale: Scale | None
    problem: str = ""


@dataclass(slots=True)
class _Held:
    scale: Scale | None = None
    problem: str = "its scale has not been read yet"
    read_s: float | None = None  # monotonic: when `scale` was read
    tried_s: float | None = None
    urgent: bool = False


class ScaleReader:
    """Keeps the scales of the wanted targets, in a thread of its own."""

    def __init__(
        self, api: ApiConnection, pace: ScalePace | None = None, *, kinds: Collection[str] | None = None
    ) -> None:
        """Read scales of these kinds (`rollouts.argoproj.io`) and of no others; None: of any."""
        self._api = api
        self._clock = api.clock
        self._pace = pace or ScalePace()
        self._plurals = _Plurals(api, self._pace.forget_s, kinds)
        self._lock = threading.Lock()
        self._held: dict[TargetRef, _Held] = {}
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="read-scales", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; a call that hangs ends with its time-out, or as its connection is closed."""
        self._stop.set()
        self._wake.set()

    def join(self, timeout_s: float) -> bool:
        """Wait for the thread's end; return whether it has ended."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def want(self, targets: Collection[TargetRef]) -> None:
        """Say whose scales are wanted from now on, and no others."""
        with self._lock:
            self._held = {target: self._held.get(target) or _Held() for target in targets}
        self._wake.set()

    def hurry(self, targets: Iterable[TargetRef]) -> None:
        """Read these next, where they are wanted: something has happened to their pods."""
        with self._lock:
            for target in targets:
                if held := self._held.get(target):
                    held.urgent = True
        self._wake.set()

    def get(self, target: TargetRef) -> ScaleReading:
        """Return a target's scale as it was read last, as long as that is not too old."""
        with self._lock:
            held = self._held.get(target) or _Held()
            if held.scale is None or held.read_s is None:
                return ScaleReading(None, held.problem)
            if self._clock.monotonic_s() - held.read_s > self._pace.max_age_s:
                return ScaleReading(None, held.problem or "its scale was read too long ago")
            return ScaleReading(held.scale)

    def _run(self) -> None:
        while not self._stop.is_set():
            target = self._next()
            if target is None:
                self._wake.wait(self._clock.wall_duration(_IDLE_S))
                self._wake.clear()
                continue
            self._read(target)
            self._stop.wait(self._clock.wall_duration(1.0 / self._pace.per_second))

    def _next(self) -> TargetRef | None:
        """Return the target that is due and has waited longest; one that is urgent or was never read goes first."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            due = [
                (held.tried_s is not None and not held.urgent, held.tried_s or 0.0, target)
                for target, held in self._held.items()
                if held.tried_s is None or held.urgent or now_s - held.tried_s >= self._pace.refresh_s
            ]
        return min(due)[2] if due else None

    def _read(self, target: TargetRef) -> None:
        now_s = self._clock.monotonic_s()
        scale, problem, lasting = None, "", False
        try:
            scale = read_scale(self._api.get(self._plurals.scale_path(target)))
            problem = "" if scale else "its scale has no selector that can be read"
            lasting = scale is None
        except _NoSuchKindError as error:
            problem, lasting = str(error), True
        except ApiError as error:
            problem, lasting = str(error), error.status in {403, 404}
        except ValueError as error:  # a name that is none: it came from a tenant's manifest
            problem, lasting = str(error), True
        except Exception as error:  # noqa: BLE001  # the loop's edge: one target must not end the reading of others
            problem = f"unexpected {type(error).__name__}"
        with self._lock:
            held = self._held.get(target)
            if held is None:
                return
            if problem and problem != held.problem:
                _log.warning("scale_unreadable", target=str(target), error=problem)
            held.tried_s, held.urgent, held.problem = now_s, False, problem
            if scale is not None or lasting:  # a fault on the way leaves what was read last, until it is too old
                held.scale, held.read_s = scale, now_s


class _NoSuchKindError(Exception):
    """The API server knows no such kind, or one that cannot or may not be scaled."""


class _Plurals:
    """What kinds are called in paths, from API discovery; kept for a while. Used by one thread."""

    def __init__(self, api: ApiConnection, forget_s: float, kinds: Collection[str] | None) -> None:
        self._api = api
        self._forget_s = forget_s
        self._kinds_wanted = kinds
        self._known: dict[str, tuple[float, dict[str, tuple[str, bool]]]] = {}

    def scale_path(self, target: TargetRef) -> str:
        """Return the path of a target's scale."""
        found = self._kinds(target).get(target.kind)
        if found is None:
            raise _NoSuchKindError(f"the API server knows no kind {target.kind} in {target.group_version}")
        plural, scalable = found
        if not scalable:
            raise _NoSuchKindError(f"kind {target.kind} has no scale subresource")
        kind = f"{plural}.{target.group}" if target.group else plural
        if self._kinds_wanted is not None and kind not in self._kinds_wanted:  # there is no right to it either
            raise _NoSuchKindError(f"its kind must be among cluster.kubernetes.otherTargets, was {kind}")
        return path(*_root(target), "namespaces", target.namespace, plural, target.name, "scale")

    def _kinds(self, target: TargetRef) -> dict[str, tuple[str, bool]]:
        now_s = self._api.clock.monotonic_s()
        kept = self._known.get(target.group_version)
        if kept is not None and now_s - kept[0] < self._forget_s:
            return kept[1]
        try:
            document = self._api.get(path(*_root(target)))
        except ApiError as error:
            if error.status != 404:
                raise
            document = {}
        kinds = _kinds_of(items(document, "resources"))
        if len(self._known) >= MAX_GROUP_VERSIONS:  # tenants name them
            self._known.clear()
        self._known[target.group_version] = (now_s, kinds)
        return kinds


def _root(target: TargetRef) -> tuple[str, ...]:
    return ("apis", target.group, target.version) if target.group else ("api", target.version)


def _kinds_of(resources: list[object]) -> dict[str, tuple[str, bool]]:
    """Return, by kind, the plural and whether there is a scale subresource."""
    names = {text(resource, "name") for resource in resources}
    return {
        text(resource, "kind"): (plural, f"{plural}/scale" in names)
        for resource in resources
        if (plural := text(resource, "name")) and "/" not in plural
    }
