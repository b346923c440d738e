"""What the decision needs of the world, as protocols. Adapters implement them; the runtime and the demo use them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from forecasting.series import Grid
from scaler.config.models import Policy, WorkloadSettings
from scaler.core.history import HistoryBatch, HistorySignal
from scaler.core.observation import Observation, ReplicaCounts
from scaler.core.published import Heartbeat, PublishedPlan, StoredPlan
from scaler.core.state import EngineState
from scaler.core.values import Reason, WorkloadId


class SourceError(Exception):
    """A metrics source could not answer. The reason travels into every reading that depended on it."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class StoreError(Exception):
    """A plan or state store could not be read or written; the previous content still holds."""


class DamagedError(StoreError):
    """What is stored can be reached and not be put together, now or later; publishing anew repairs it."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample of one series, as a source returned it: nothing is filtered yet, the value may be NaN."""

    name: str
    labels: Mapping[str, str]
    value: float
    at_s: float  # when it was scraped, Unix seconds


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """Which series to fetch: exact metric names, in the namespaces given (empty: those the source is limited to)."""

    names: tuple[str, ...]
    namespaces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SampleBatch:
    """The answer of a source. `partial` holds its own warnings that something is missing from it; empty if complete."""

    samples: tuple[Sample, ...]
    partial: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class VectorBatch:
    """An instant vector: rows of labels and value. The values are as of `at_s`, when they were evaluated."""

    rows: Sequence[tuple[Mapping[str, str], float]]
    at_s: float
    partial: tuple[str, ...] = ()


class Clock(Protocol):
    """The only way to ask for the time. Seconds may run faster than the wall's (a rehearsal); waiting follows."""

    def now_s(self) -> float:
        """Return Unix time in seconds."""
        ...

    def monotonic_s(self) -> float:
        """Return seconds from some fixed point; never goes back."""
        ...

    def from_wall(self, wall_s: float) -> float:
        """Return this clock's time for a wall-clock Unix time (a time stamp that somebody else made)."""
        ...

    def wall_duration(self, duration_s: float) -> float:
        """Return how long `duration_s` of this clock lasts on the wall."""
        ...


class MetricsSource(Protocol):
    """Current samples of named series: Prometheus, direct scraping, or a recorded file."""

    async def fetch(self, request: SampleRequest, now_s: float) -> SampleBatch:
        """Return the newest sample of each series; SourceError when it cannot. Never raises anything else."""
        ...

    async def close(self) -> None:
        """Give back connections."""
        ...


class QuerySource(Protocol):
    """A server that evaluates PromQL. The text is Headway's own or the platform's; none of it comes from a tenant."""

    async def vector(self, query: str, now_s: float) -> VectorBatch:
        """Return the instant vector of an expression; SourceError when it cannot. Never raises anything else."""
        ...


@dataclass(frozen=True, slots=True)
class PodRecord:
    """What Headway keeps of a pod. Times are Unix seconds; None where it has not happened (yet)."""

    namespace: str
    name: str
    uid: str
    owner: str  # uid of the controlling object; empty where there is none
    template: str  # what tells versions of the pod template apart (pod-template-hash, controller-revision-hash)
    phase: str
    ready: bool
    gated: bool  # has scheduling gates
    unschedulable: bool
    terminating: bool
    node: str
    ip: str
    ports: tuple[int, ...]  # the container ports that the pod lists
    created_s: float
    scheduled_s: float | None
    ready_s: float | None  # when Ready last became true


@dataclass(frozen=True, slots=True)
class WorkloadView:
    """A workload's replicas as the cluster knows them. `pods` are the live, ready ones."""

    counts: ReplicaCounts
    pods: tuple[str, ...]
    rollout: bool = False
    members: tuple[PodRecord, ...] = ()  # all its pods, where the view knows more than their names


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """The cluster view. `at_s` is when it was last known to be current, not when it was asked."""

    at_s: float
    workloads: Mapping[WorkloadId, WorkloadView]


class ClusterView(Protocol):
    """Which replicas exist, and in which state."""

    async def snapshot(self) -> ClusterSnapshot:
        """Return the newest view; SourceError when there is none."""
        ...


class Observer(Protocol):
    """Gathers one tick's observation. Every failure becomes a Missing with a reason; it raises nothing."""

    async def observe(self, workloads: tuple[WorkloadSettings, ...], now_s: float) -> Observation:
        """Return what is seen of the workloads."""
        ...

    @property
    def problems(self) -> tuple[str, ...]:
        """One short line for each thing that kept the last observation from being whole; no secrets."""
        ...


class PolicySource(Protocol):
    """What steers the decision right now: fixed by a file, or followed from the ScaledObjects in the cluster."""

    def current(self) -> Policy:
        """Return the policy of this tick. Never raises: what cannot be read stays as it last was."""
        ...


@dataclass(frozen=True, slots=True)
class Notice:
    """Something about a workload that a person should see where they look first: its Events."""

    workload: WorkloadId
    reason: str  # CamelCase, stable: people filter by it
    message: str
    warning: bool = False


class Notices(Protocol):
    """Where notices go. Limited in rate: what is too much is dropped and counted."""

    async def post(self, notices: Sequence[Notice], now_s: float) -> None:
        """Post them. Never raises: a notice is not worth a tick."""
        ...


class PlanStore(Protocol):
    """Where a controller leaves the plan for the scalers."""

    async def publish(self, plan: PublishedPlan, heartbeat: Heartbeat) -> None:
        """Replace plan and heartbeat, atomically for a reader; StoreError when it cannot."""
        ...

    async def beat(self, heartbeat: Heartbeat) -> None:
        """Replace the heartbeat only; StoreError when it cannot."""
        ...

    async def load(self) -> StoredPlan | None:
        """Return what is stored; None when there has never been a plan; StoreError when it cannot tell."""
        ...

    async def load_if_changed(self, seen: object) -> tuple[object, StoredPlan | None]:
        """Like `load`, but cheap while nothing changed.

        `seen` is the token of the previous call (None at first). Returns a new token and what is stored, or the same
        token (`is seen`) and None when nothing has changed.
        """
        ...


class HistoryStore(Protocol):
    """Where the past is. The caller asks for as many workloads as it has memory for: 8 bytes for each point."""

    async def read(self, signal: HistorySignal, workloads: Sequence[WorkloadId], grid: Grid) -> HistoryBatch:
        """Return the past of workloads. Never raises: what cannot be read is missing, and is in `problems`."""
        ...


class StateStore(Protocol):
    """The controller's own checkpoint. Loading it, or starting empty, are the only ways to start."""

    def load(self) -> EngineState:
        """Return the checkpointed state, or the empty one when there is none or it cannot be used."""
        ...

    def save(self, state: EngineState) -> None:
        """Replace the checkpoint atomically; StoreError when it cannot."""
        ...


class Leadership(Protocol):
    """Whether this controller may publish, and in which epoch."""

    @property
    def epoch(self) -> int:
        """The Lease's transition count."""
        ...

    @property
    def leading(self) -> bool:
        """Return whether this controller may publish."""
        ...
