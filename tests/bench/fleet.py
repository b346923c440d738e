"""A fleet made up for measuring: as many workloads as Headway is built for, whose load moves from tick to tick.

Nothing is drawn at random: a workload's load follows from its number and the tick's, so two runs do the same work.
"""

from collections.abc import Mapping
from math import sin
from typing import Final

from external_scaler_proto import externalscaler_pb2 as pb
from scaler.adapters.keda.wire import METRIC_NAME
from scaler.config.models import DecisionSettings, Policy, WorkloadSettings
from scaler.core.observation import Observation, ReplicaCounts, ReplicaReading, WorkloadObservation
from scaler.core.values import Known, WorkloadId

NAMESPACES: Final = 100
SLOTS: Final = 32
CAPACITY_RPS: Final = 5.0
DEFAULTS: Final = DecisionSettings()

# What a ScaledObject's trigger carries, and KEDA sends along with every call.
METADATA: Final[Mapping[str, str]] = {
    "scalerAddress": "headway-scaler.headway:6000",
    "engine": "vllm",
    "slo": "1s",
    "objective": "0.99",
    "slotsPerReplica": str(SLOTS),
    "capacityPerReplica": f"{CAPACITY_RPS:g}",
    "leadTime": "4m",
    "mode": "auto",
}


def workload_ids(count: int) -> list[WorkloadId]:
    """Return the names of the workloads, spread over the namespaces."""
    return [WorkloadId(f"team-{number % NAMESPACES:03}", f"model-{number:05}") for number in range(count)]


def policy(count: int, decision: DecisionSettings = DEFAULTS) -> Policy:
    """Return the policy for so many workloads."""
    return Policy(decision=decision, workloads=tuple(_settings(key) for key in workload_ids(count)))


def _settings(key: WorkloadId) -> WorkloadSettings:
    return WorkloadSettings(
        namespace=key.namespace,
        name=key.name,
        slots_per_replica=SLOTS,
        capacity_per_replica=CAPACITY_RPS,
        lead_time_s=240.0,
        max_replicas=64,
    )


def value_request(key: WorkloadId) -> bytes:
    """Return KEDA's question for the value of a workload, ready to be sent."""
    return pb.GetMetricsRequest(scaledObjectRef=_reference(key), metricName=METRIC_NAME).SerializeToString()


def reference_request(key: WorkloadId) -> bytes:
    """Return KEDA's question for the spec or the activity of a workload, ready to be sent."""
    return _reference(key).SerializeToString()


def _reference(key: WorkloadId) -> pb.ScaledObjectRef:
    return pb.ScaledObjectRef(namespace=key.namespace, name=key.name, scalerMetadata=METADATA)


class Fleet:
    """The observations of all workloads, tick after tick. `moving` of them (a share) change their load each tick."""

    def __init__(self, count: int, replicas: int, *, moving: float = 0.15) -> None:
        self._ids = workload_ids(count)
        self._replicas = replicas
        self._every = max(1, round(1 / moving))
        self._tick = 0
        self._seen = {key: self._look(number) for number, key in enumerate(self._ids)}

    def advance(self) -> Observation:
        """Return the observation of the next tick."""
        self._tick += 1
        for number in range(self._tick % self._every, len(self._ids), self._every):
            self._seen[self._ids[number]] = self._look(number)
        return Observation(dict(self._seen))

    def _look(self, number: int) -> WorkloadObservation:
        level = 0.75 + 0.45 * sin(number * 0.7 + self._tick * 0.37)  # of the slots that are used at target
        count = self._replicas
        pods = tuple(_replica(f"{self._ids[number].name}-{pod}", level) for pod in range(count))
        return WorkloadObservation(ReplicaCounts(spec=count, ready=count), pods)


def _replica(pod: str, level: float) -> ReplicaReading:
    """Return a healthy replica. Every reading is an object of its own, as they are when they come from samples."""
    return ReplicaReading(
        pod=pod,
        running=Known(round(level * 0.85 * SLOTS), 7.0),
        waiting=Known(round(6 * max(0.0, level - 1)), 7.0),
        kv_usage=Known(min(1.0, level * 0.6), 7.0),
        completions_rps=Known(level * 0.85 * CAPACITY_RPS, 7.0),
        preemptions_rps=Known(0.0, 7.0),
        queue_time_s=Known(0.05, 7.0),
        still_s=Known(0.0, 7.0),
    )
