"""Leadership by a Kubernetes Lease: of several controllers one leads, and each change of the leader raises the epoch.

The rules are client-go's. A holder renews; who sees no renewal for the Lease's duration, by its own clock from the
moment it saw the last one, takes over and raises `leaseTransitions`, which is the epoch. No time that another machine
wrote is ever compared with ours. A holder leads until `renew_deadline_s` after it *began* the last renewal that
succeeded, and that is judged whenever it is asked: a call that hangs keeps nobody leading. The deadline is shorter than
the duration, so the one has stopped before another begins, as long as their clocks run at the same pace; where a
process was frozen in between, the plan store's fencing stops it.

The library's own election is not used: it judges its deadline by the wall clock and only between calls, its calls have
no time-outs, it never writes `leaseTransitions`, it cannot release, and an error of the network ends its thread.
"""

import random
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, Final
from uuid import uuid4

import structlog

from scaler.adapters.kubernetes.api import ApiConnection, ApiError, path
from scaler.ports import StoreError

_log = structlog.get_logger(__name__)

JITTER_FACTOR: Final = 1.2  # a retry waits up to this much longer, so that candidates do not stay in step
NOT_FOUND: Final = 404
CONFLICT: Final = 409
MAX_DURATION_S: Final = 3600.0  # of another's Lease; a longer one is taken for a mistake


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """The Lease, and client-go's three durations: seconds of the clock."""

    namespace: str
    name: str = "headway-controller"
    duration_s: float = 15.0  # a lease that was not renewed for this long may be taken
    renew_deadline_s: float = 10.0  # a holder that could not renew for this long leads no more
    retry_period_s: float = 2.0

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self) if field.name.endswith("_s")):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be > 0, was {getattr(self, name)}")
        if not self.renew_deadline_s < self.duration_s:
            raise ValueError(
                f"renew_deadline_s must be < duration_s ({self.duration_s:g}), was {self.renew_deadline_s:g}"
            )
        if not self.retry_period_s * JITTER_FACTOR < self.renew_deadline_s:
            limit_s = self.renew_deadline_s / JITTER_FACTOR
            raise ValueError(
                f"retry_period_s must be < renew_deadline_s / 1.2 ({limit_s:g}), was {self.retry_period_s:g}"
            )


def identity_of(host: str) -> str:
    """Return a holder's name that no other process has had: a container that starts again in its pod is another."""
    return f"{host}_{uuid4()}"


@dataclass(frozen=True, slots=True)
class _Term:
    """That we hold the Lease: in which epoch, and until when we lead unless we renew (monotonic seconds)."""

    epoch: int
    until_s: float


@dataclass(frozen=True, slots=True)
class _Record:
    """A Lease as it was last seen, and when we first saw it so (monotonic seconds)."""

    uid: str
    revision: str
    holder: str
    transitions: int
    duration_s: float
    acquired: str
    seen_s: float


class LeaseLeadership:
    """Implements `ports.Leadership`. `attempt` is one try to acquire or renew; `start` repeats it in a thread.

    `stored_epoch` tells the epoch of the plan that is stored: an acquisition goes above it, so that a Lease that was
    deleted, and counts from zero again, does not make a leader whose plans everybody refuses. While it cannot tell
    (StoreError), no Lease is acquired.
    """

    def __init__(
        self,
        api: ApiConnection,
        settings: LeaseSettings,
        identity: str,
        *,
        stored_epoch: Callable[[], int] = lambda: 0,
    ) -> None:
        self._api = api
        self._clock = api.clock
        self._settings = settings
        self._identity = identity
        self._stored_epoch = stored_epoch
        self._collection = path("apis", "coordination.k8s.io", "v1", "namespaces", settings.namespace, "leases")
        self._object = f"{self._collection}{path(settings.name)}"
        self._term: _Term | None = None  # replaced as a whole: other threads ask
        self._epoch = 0
        self._record: _Record | None = None
        self._doubt = True  # whether the Lease is as recorded: a write may have happened, ours or another's
        self._attempting = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._problem = ""

    @property
    def epoch(self) -> int:
        """The epoch in which this controller leads or last led; 0 before it first did."""
        return self._epoch

    @property
    def leading(self) -> bool:
        """Whether this controller may publish, at this moment."""
        term = self._term
        return term is not None and self._clock.monotonic_s() < term.until_s

    @property
    def holder(self) -> str:
        """Who was last seen to hold the Lease; empty for nobody. For people."""
        record = self._record
        return "" if record is None else record.holder

    def start(self) -> None:
        """Take part in the election until `stop`. The thread is its own, so that a long tick does not cost the lead."""
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = 10.0) -> None:
        """Stop leading, end the thread, and release the Lease so that another may have it at once. Blocks."""
        self._stop.set()
        self._term = None
        if self._thread is not None:
            self._thread.join(timeout_s)
        with self._attempting:
            self._term = None  # an attempt that was under way may have succeeded
            self._release()

    def attempt(self) -> None:
        """Try once to acquire or renew. Never raises: what failed leaves things to the deadline."""
        with self._attempting:
            try:
                self._try_twice()
            except (ApiError, StoreError, ValueError) as error:
                self._doubt = True
                self._tell(str(error))
            else:
                self._tell("")

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.attempt()
            except Exception as error:  # noqa: BLE001 - the loop's edge: an election that ended for good would go unnoticed
                self._tell(f"{type(error).__name__}: {error}")
            wait_s = self._settings.retry_period_s * random.uniform(1.0, JITTER_FACTOR)  # noqa: S311 - spreads load
            self._stop.wait(self._clock.wall_duration(wait_s))

    def _try_twice(self) -> None:
        """Try, and where somebody else has written or deleted the Lease, look at once who holds it."""
        try:
            self._try()
        except ApiError as error:
            if error.status not in {CONFLICT, NOT_FOUND}:
                raise
            self._doubt = True
            self._try()

    def _try(self) -> None:
        record = self._record
        if self._doubt or record is None or record.holder != self._identity:
            record = self._look()
        if record is None:
            self._write(None, self._next_epoch(0))
        elif record.holder == self._identity:
            self._write(record, record.transitions)
        else:
            self._term = None
            if self._may_take(record):
                self._write(record, self._next_epoch(record.transitions))

    def _may_take(self, record: _Record) -> bool:
        return not record.holder or self._clock.monotonic_s() - record.seen_s >= record.duration_s

    def _next_epoch(self, transitions: int) -> int:
        return max(transitions, self._epoch, self._stored_epoch()) + 1

    def _look(self) -> _Record | None:
        """Read the Lease. What has not changed since the last look keeps the time at which it was first seen."""
        try:
            found = self._api.get(self._object, timeout_s=self._timeout_s)
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise
            self._record = self._term = None
            return None
        record, self._doubt = self._read(found), False
        if self._record is None or self._record.revision != record.revision:
            self._record = record
        return self._record

    def _write(self, record: _Record | None, epoch: int) -> None:
        """Acquire, where `epoch` is a new one, or renew. The time counts from before the call."""
        if self._stop.is_set():
            return
        began_s, now = self._clock.monotonic_s(), self._now()
        renewal = record is not None and record.holder == self._identity
        spec = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(1, round(self._settings.duration_s)),
            "acquireTime": record.acquired if record is not None and renewal and record.acquired else now,
            "renewTime": now,
            "leaseTransitions": epoch,
        }
        written = self._put(spec, record)
        self._record, self._doubt = self._read(written), False
        if not self._stop.is_set():
            if not renewal:
                _log.info("lease_acquired", identity=self._identity, epoch=epoch)
            # The epoch first: who sees that we lead must not see the epoch before.
            self._epoch, self._term = epoch, _Term(epoch, began_s + self._settings.renew_deadline_s)

    def _release(self) -> None:
        """Give the Lease back, as client-go does: nobody holds it, for a second."""
        record, now = self._record, self._now()
        if record is None or record.holder != self._identity:
            return
        spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": now, "acquireTime": now}
        with suppress(ApiError):  # then it runs out by itself
            self._put({**spec, "leaseTransitions": record.transitions}, record)
            _log.info("lease_released", identity=self._identity)

    def _put(self, spec: dict[str, Any], over: _Record | None) -> dict[str, Any]:
        """Replace the very Lease that was seen, or create one.

        Naming the uid is what demands that it still exists: a PUT of a Lease that was deleted creates it otherwise,
        whatever version it names, and a former leader would hold it in an epoch of long ago.
        """
        metadata = {"name": self._settings.name, "namespace": self._settings.namespace}
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
        if over is None:
            return self._api.create(self._collection, body, timeout_s=self._timeout_s)
        metadata |= {"uid": over.uid, "resourceVersion": over.revision}
        return self._api.replace(self._object, body, timeout_s=self._timeout_s)

    def _read(self, found: dict[str, Any]) -> _Record:
        """Read a Lease; a field that is not there is as in a Lease that nobody has held. ValueError for nonsense."""
        try:
            spec, metadata = dict(found.get("spec") or {}), found["metadata"]
            uid, revision = str(metadata["uid"]), str(metadata["resourceVersion"])
            duration_s = float(spec.get("leaseDurationSeconds") or self._settings.duration_s)
            transitions = int(spec.get("leaseTransitions") or 0)
        except (TypeError, KeyError) as error:
            raise ValueError(f"Lease {self._settings.name} is not of the expected shape: {error!r}") from error
        return _Record(
            uid=uid,
            revision=revision,
            holder=str(spec.get("holderIdentity") or ""),
            transitions=max(0, transitions),
            duration_s=duration_s if 0 < duration_s <= MAX_DURATION_S else self._settings.duration_s,
            acquired=str(spec.get("acquireTime") or ""),
            seen_s=self._clock.monotonic_s(),
        )

    @property
    def _timeout_s(self) -> float:
        """No call is waited for longer than half of the deadline, so that there is time for a second one."""
        return self._clock.wall_duration(self._settings.renew_deadline_s / 2)

    def _now(self) -> str:
        return datetime.fromtimestamp(self._clock.now_s(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def _tell(self, problem: str) -> None:
        if problem and problem != self._problem:  # once per kind of failure, not once per try
            _log.warning("lease_attempt_failed", error=problem, leading=self.leading)
        self._problem = problem
