"""Posts notices as Events about the ScaledObject, where a person looks first, and no more of them than can be read.

What repeats within ten minutes is one Event with a count. Beyond that, a bucket of tokens for each workload and one
for all bound what Headway writes; what is over is dropped and counted. Warnings come first. Nothing is tried twice: an
Event is not worth it.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import structlog

from scaler.adapters.kubernetes.api import ApiConnection, ApiError, path
from scaler.core.values import WorkloadId
from scaler.ports import Notice

_log = structlog.get_logger(__name__)

CONTROLLER: Final = "headway.dev/controller"
MAX_NOTE_CHARS: Final = 1000  # the API allows 1024
MAX_REMEMBERED: Final = 10_000  # series and buckets; the oldest are forgotten
NOT_FOUND: Final = 404


@dataclass(frozen=True, slots=True)
class Subject:
    """The object that an Event is about. `kubectl describe` shows only Events that carry the object's uid."""

    api_version: str = "keda.sh/v1alpha1"
    kind: str = "ScaledObject"
    uid: str = ""


@dataclass(frozen=True, slots=True)
class NoticeLimits:
    """How much may be posted: tokens that a bucket holds, and how fast they come back, of one workload and of all."""

    workload_burst: int = 10
    workload_per_s: float = 1 / 60
    burst: int = 50
    per_s: float = 1.0
    series_s: float = 600.0  # within it the same reason is counted and not posted anew
    budget_s: float = 10.0  # of the wall, for the Events of one call

    def __post_init__(self) -> None:
        for name in ("workload_burst", "workload_per_s", "burst", "per_s", "series_s", "budget_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be > 0, was {getattr(self, name)}")


class _Bucket:
    """Tokens that are used up and come back. A clock that is set back gives none."""

    __slots__ = ("_at_s", "_level")

    def __init__(self, level: float, at_s: float) -> None:
        self._level = level
        self._at_s = at_s

    def take(self, burst: int, per_s: float, now_s: float) -> bool:
        """Take a token; False when there is none."""
        self._level = min(burst, self._level + max(0.0, now_s - self._at_s) * per_s)
        self._at_s = now_s
        if self._level < 1:
            return False
        self._level -= 1
        return True


@dataclass(frozen=True, slots=True)
class _Series:
    """An Event that was posted, and how often the same has happened since."""

    event: str
    count: int
    last_s: float


class KubernetesNotices:
    """Implements `ports.Notices`. The caller sees to it that only the leader posts.

    `subject_of` says what a workload's Events are about; without it, its ScaledObject without a uid. `identity` names
    this controller.
    """

    def __init__(
        self,
        api: ApiConnection,
        identity: str,
        *,
        subject_of: Callable[[WorkloadId], Subject] = lambda _: Subject(),
        limits: NoticeLimits | None = None,
    ) -> None:
        self._api = api
        self._identity = identity[:128]
        self._subject_of = subject_of
        self._limits = limits or NoticeLimits()
        self._all: _Bucket | None = None
        self._buckets: OrderedDict[WorkloadId, _Bucket] = OrderedDict()
        self._series: OrderedDict[tuple[WorkloadId, str], _Series] = OrderedDict()
        self._problem = ""
        self._made = 0  # Events, so that two of one moment have two names
        self.posted = 0
        self.dropped = 0

    async def post(self, notices: Sequence[Notice], now_s: float) -> None:
        """Post them as Events as far as the limits go. Never raises."""
        if not notices:
            return
        allowed = [notice for notice in sorted(notices, key=lambda it: not it.warning) if self._may(notice, now_s)]
        posted = 0
        try:
            posted = await self._api.run(self._post, allowed, now_s)
        except Exception as error:  # noqa: BLE001 - an edge: no fault here is worth a tick
            self._tell(f"{type(error).__name__}: {error}")
        self.posted += posted
        self.dropped += len(notices) - posted

    def _may(self, notice: Notice, now_s: float) -> bool:
        limits, key = self._limits, notice.workload
        own = self._buckets.pop(key, None) or _Bucket(limits.workload_burst, now_s)
        _remember(self._buckets, key, own)
        if self._all is None:
            self._all = _Bucket(limits.burst, now_s)
        own_allows = own.take(limits.workload_burst, limits.workload_per_s, now_s)
        return own_allows and self._all.take(limits.burst, limits.per_s, now_s)

    def _post(self, notices: Sequence[Notice], now_s: float) -> int:
        """Post in a worker thread; return how many got through. After a failure the rest would fare no better."""
        clock, posted = self._api.clock, 0
        ends_s = clock.monotonic_s() + self._limits.budget_s
        for notice in notices:
            left_s = ends_s - clock.monotonic_s()
            if left_s <= 0:
                self._tell(f"not all posted in {self._limits.budget_s:g} s")
                return posted
            try:
                self._post_one(notice, now_s, left_s)
            except ApiError as error:
                self._tell(str(error))
                if error.uncertain or error.status == 429:
                    return posted
            else:
                posted += 1
                self._tell("")
        return posted

    def _post_one(self, notice: Notice, now_s: float, timeout_s: float) -> None:
        key = (notice.workload, notice.reason)
        known = self._series.pop(key, None)
        if known is not None and 0 <= now_s - known.last_s < self._limits.series_s:
            again = _Series(known.event, known.count + 1, now_s)
            if self._counted(notice.workload, again, timeout_s):
                _remember(self._series, key, again)
                return
        self._made += 1
        name = f"{notice.workload.name[:200]}.{int(now_s * 1e6):x}.{self._made:x}"
        self._api.create(self._collection(notice.workload), self._event(notice, name, now_s), timeout_s=timeout_s)
        _remember(self._series, key, _Series(name, 1, now_s))

    def _counted(self, workload: WorkloadId, series: _Series, timeout_s: float) -> bool:
        """Count into an Event; False when the server has forgotten it, as it does after an hour."""
        body = {"series": {"count": series.count, "lastObservedTime": _micro_time(series.last_s)}}
        try:
            self._api.patch(f"{self._collection(workload)}{path(series.event)}", body, timeout_s=timeout_s)
        except ApiError as error:
            if error.status == NOT_FOUND:
                return False
            raise
        return True

    def _event(self, notice: Notice, name: str, now_s: float) -> dict[str, Any]:
        workload, subject = notice.workload, self._subject_of(notice.workload)
        regarding = {
            "apiVersion": subject.api_version,
            "kind": subject.kind,
            "namespace": workload.namespace,
            "name": workload.name,
            **({"uid": subject.uid} if subject.uid else {}),
        }
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": workload.namespace},
            "eventTime": _micro_time(now_s),
            "reportingController": CONTROLLER,
            "reportingInstance": self._identity,
            "action": "Scaling",
            "reason": notice.reason[:128],
            "type": "Warning" if notice.warning else "Normal",
            "note": _one_line(notice.message),
            "regarding": regarding,
        }

    @staticmethod
    def _collection(workload: WorkloadId) -> str:
        return path("apis", "events.k8s.io", "v1", "namespaces", workload.namespace, "events")

    def _tell(self, problem: str) -> None:
        if problem and problem != self._problem:  # once per kind of failure, not once per Event
            _log.warning("notices_not_posted", error=problem)
        self._problem = problem


def _remember(kept: OrderedDict[Any, Any], key: object, value: object) -> None:
    kept[key] = value
    if len(kept) > MAX_REMEMBERED:
        kept.popitem(last=False)


def _one_line(message: str) -> str:
    """Return a message that fits into an Event and cannot pass for more than one line."""
    line = "".join(character if character.isprintable() else " " for character in message)
    return line if len(line) <= MAX_NOTE_CHARS else f"{line[:MAX_NOTE_CHARS]}..."


def _micro_time(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
