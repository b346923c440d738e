"""Observations and policies for tests of the core, with everything known and healthy unless a test says otherwise."""

from collections.abc import Iterable
from typing import Any

from scaler.config.models import DecisionSettings, Policy, WorkloadSettings
from scaler.core.engine import step
from scaler.core.observation import (
    GatewayReading,
    Observation,
    QueueReading,
    ReplicaCounts,
    ReplicaReading,
    WorkloadObservation,
)
from scaler.core.plan import Recommendation
from scaler.core.state import EngineState
from scaler.core.values import Known, Missing, Reading, WorkloadId

T0 = 1_700_000_000.0
TICK_S = 15.0
CHAT = WorkloadId("demo", "chat")


def reading(value: float | Reading) -> Reading:
    """A number is a known reading."""
    return Known(float(value)) if isinstance(value, int | float) else value


def replica(pod: str = "chat-0", **signals: float | Reading) -> ReplicaReading:
    """A healthy vLLM-like replica at half its load, without GPU metrics."""
    values: dict[str, float | Reading] = {
        "running": 16,
        "waiting": 0,
        "kv_usage": 0.3,
        "completions_rps": 2.5,
        "preemptions_rps": 0,
        "still_s": 0,
    }
    return ReplicaReading(pod=pod, **{name: reading(value) for name, value in (values | signals).items()})


def replicas(count: int, **signals: float | Reading) -> tuple[ReplicaReading, ...]:
    """Equal replicas."""
    return tuple(replica(f"chat-{i}", **signals) for i in range(count))


def queue(**signals: float | Reading) -> QueueReading:
    """A broker's queue that is being consumed at half its slots."""
    values: dict[str, float | Reading] = {
        "waiting": 0,
        "unacked": 5,
        "consumers": 10,
        "prefetch": 1,
        "arrivals_rps": 2,
        "completions_rps": 2,
    }
    return QueueReading(**{name: reading(value) for name, value in (values | signals).items()})


def gateway(arrivals_rps: float | Reading = 0, waiting: float | Reading = 0) -> GatewayReading:
    """A gateway that sees nothing arrive and holds nothing back."""
    return GatewayReading(reading(arrivals_rps), reading(waiting))


def seen(
    pods: Iterable[ReplicaReading] = (), *, counts: ReplicaCounts | Missing | None = None, **fields: Any
) -> WorkloadObservation:
    """What is seen of one workload; counts follow the replicas unless given."""
    pods = tuple(pods)
    return WorkloadObservation(counts or ReplicaCounts(spec=len(pods), ready=len(pods)), pods, **fields)


def workload(**settings: Any) -> WorkloadSettings:
    """A workload with 32 slots and 5 requests per second a replica."""
    defaults: dict[str, Any] = {
        "namespace": CHAT.namespace,
        "name": CHAT.name,
        "slots_per_replica": 32,
        "capacity_per_replica": 5.0,
        "lead_time_s": 120.0,
        "min_replicas": 1,
        "max_replicas": 100,
    }
    return WorkloadSettings(**(defaults | settings))


class Ticker:
    """Drives `step` over one workload, tick by tick, on times that the test names."""

    def __init__(
        self, settings: WorkloadSettings | None = None, decision: DecisionSettings | None = None, at_s: float = T0
    ) -> None:
        self.settings = settings or workload()
        self.decision = decision or DecisionSettings()
        self.state = EngineState.empty()
        self.now_s = at_s - TICK_S

    @property
    def policy(self) -> Policy:
        """The policy as it is now; a test may replace `settings` between ticks."""
        return Policy(decision=self.decision, workloads=(self.settings,))

    def tick(self, observation: WorkloadObservation, *, times: int = 1, every_s: float = TICK_S) -> Recommendation:
        """Advance the time and decide, `times` times over; return the last recommendation."""
        for _ in range(times):
            self.now_s += every_s
            result = step(self.state, Observation({self.id: observation}), self.policy, self.now_s)
            self.state = result.state
        return result.plan.recommendations[self.id]

    @property
    def id(self) -> WorkloadId:
        """The workload."""
        return WorkloadId(self.settings.namespace, self.settings.name)

    def settled(self, observation: WorkloadObservation) -> Recommendation:
        """Tick until the waits after a start are over."""
        return self.tick(observation, times=30)
