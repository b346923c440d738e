"""What one tick sees: a frozen value, made at the edge, in which every number is a reading or a count.

The edge (adapters live, the plant in a backtest) has already turned NaN, infinities, negative counts, counter resets
and series of pods that are gone into `Missing`. Rates are per second over the edge's rate window.
"""

from collections.abc import Mapping
from dataclasses import field

from forecasting.forecast import Absent
from scaler.core.values import Missing, Reading, Reason, WorkloadId, value_class

_NOT_EXPORTED = Missing(Reason.NOT_EXPORTED)
_NOT_CONFIGURED = Missing(Reason.NOT_CONFIGURED)


@value_class
class ReplicaReading:
    """The signals of one live, ready replica. The engine ranks of a pod are combined: a pod is one replica."""

    pod: str
    running: Reading  # requests in flight
    waiting: Reading  # requests that wait for capacity (deferred ones are not waiting for capacity)
    kv_usage: Reading = _NOT_EXPORTED  # 0..1
    completions_rps: Reading = _NOT_EXPORTED  # requests finished per second
    prompt_tokens_rps: Reading = _NOT_EXPORTED  # tokens per second
    output_tokens_rps: Reading = _NOT_EXPORTED  # tokens per second
    preemptions_rps: Reading = _NOT_EXPORTED  # events per second
    rejections_rps: Reading = _NOT_EXPORTED  # requests refused per second: demand that no gauge shows
    queue_time_s: Reading = _NOT_EXPORTED  # a measured quantile; lags on engines that record it at the end
    slots: Reading = _NOT_EXPORTED  # requests that the engine itself lets run at once
    gpu_activity: Reading = _NOT_CONFIGURED  # 0..1
    still_s: Reading = _NOT_EXPORTED  # seconds since any counter of this engine last moved


@value_class
class QueueReading:
    """A message queue that a workload consumes. It exists, and is known, at zero replicas too."""

    waiting: Reading  # messages ready for delivery
    unacked: Reading  # messages delivered and not yet acknowledged: work in flight
    consumers: Reading
    prefetch: Reading  # messages that one consumer may hold
    arrivals_rps: Reading  # messages published per second
    completions_rps: Reading  # messages acknowledged per second


@value_class
class GatewayReading:
    """What a gateway in front of a workload sees, before the replicas do. It is known at zero replicas too."""

    arrivals_rps: Reading  # requests per second, those that found no replica included
    waiting: Reading = _NOT_EXPORTED  # requests that the gateway itself holds back


@value_class
class ReplicaCounts:
    """How many replicas there are, by what they are good for. `spec` is what the scale target was told.

    `pending` are on their way; `blocked` are unschedulable or gated: asked for, and no supply in sight.
    """

    spec: int
    ready: int
    pending: int = 0
    blocked: int = 0
    terminating: int = 0

    @property
    def asked(self) -> int:
        """Replicas that exist or are on their way: what an increase is measured against."""
        return max(self.spec, self.ready + self.pending + self.blocked)


@value_class
class WorkloadObservation:
    """Everything seen about one workload in one tick."""

    counts: ReplicaCounts | Missing
    replicas: tuple[ReplicaReading, ...] = ()  # one per ready replica; a silent one is here, with Missing readings
    queue: QueueReading | None = None  # for a workload that consumes a broker's queue
    gateway: GatewayReading | None = None  # for a workload behind a gateway that the platform granted
    rollout: bool = False  # two versions of the pod template are running
    published_target: int | None = None  # what the plan store still held when this controller started
    forecast: Absent = field(default_factory=lambda: Absent("no_forecaster"))


@value_class
class Observation:
    """One tick's view of all workloads. A workload that is not in it is `NOT_OBSERVED`, never idle."""

    workloads: Mapping[WorkloadId, WorkloadObservation]
