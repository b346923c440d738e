"""From the samples of a tick to what the decision sees: one reading per signal and live, ready replica.

The cluster view says which replicas exist; metrics only say what they do. So a pod that is gone contributes nothing,
and a ready pod that is not heard of is there with Missing readings.
"""

import math
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field

from scaler.adapters.signals.candidates import Preset
from scaler.adapters.signals.counters import CounterTracker, MotionTracker
from scaler.adapters.signals.dcgm import DCGM
from scaler.adapters.signals.owners import UP, Owned, Owner, by_owner, nothing, trusted
from scaler.adapters.signals.parts import PartsMemory
from scaler.adapters.signals.rabbitmq import RABBITMQ, QueueSettings
from scaler.adapters.signals.reader import SignalReader
from scaler.config.models import DecisionSettings, WorkloadSettings
from scaler.core.observation import QueueReading, ReplicaReading
from scaler.core.values import Known, Missing, Reading, Reason, Stale, WorkloadId
from scaler.ports import Sample, SampleBatch


@dataclass(frozen=True, slots=True)
class Answer:
    """What a source said for one preset: samples, or why there are none."""

    samples: tuple[Sample, ...] = ()
    absent: Reason = Reason.NO_SERIES  # the reason of a reading without series
    at_s: float = -math.inf  # when it was there; what it holds is judged as of then, if that is after the tick began

    @classmethod
    def of(cls, batch: SampleBatch, at_s: float = -math.inf) -> "Answer":
        """Read a batch. Where the source says that something is missing, it may be whatever is not there."""
        return cls(batch.samples, Reason.PARTIAL_ANSWER if batch.partial else Reason.NO_SERIES, at_s)


@dataclass(slots=True)
class Projector:
    """Turns answers into readings, tick by tick. It remembers counters between ticks, and which names matched."""

    decision: DecisionSettings
    quantile: float = 0.95  # of the measured queue time
    queues: QueueSettings = field(default_factory=QueueSettings)
    matched: dict[str, set[str]] = field(default_factory=dict)  # signal -> metric names, of this tick
    _counters: CounterTracker = field(init=False)
    _motion: MotionTracker = field(init=False)
    _parts: PartsMemory = field(init=False, default_factory=PartsMemory)

    def __post_init__(self) -> None:
        """Make the trackers, which need the window."""
        self._counters = CounterTracker(self.decision.rate_window_s, self.decision.stale_after_s)
        self._motion = MotionTracker(self.decision.rate_window_s)

    def begin(self, now_s: float) -> None:
        """Start a tick: forget what has not been seen for long, so that memory follows the fleet."""
        self.matched = {}
        before_s = now_s - self.decision.rate_window_s - 2 * self.decision.stale_after_s
        self._counters.forget(before_s)
        self._motion.forget(before_s)
        self._parts.forget(now_s)

    def replicas(
        self, preset: Preset, pods: Collection[Owner], answer: Answer, now_s: float
    ) -> dict[Owner, ReplicaReading]:
        """Return the readings of the pods of an engine, without GPU activity."""
        owned = by_owner(answer.samples, preset.owners, pods)
        reader = self._reader(answer, now_s)
        return {pod: self._replica(preset, reader, pod, owned.get(pod, nothing())) for pod in pods}

    def gpu_activity(
        self,
        pods: Collection[Owner],
        tenant_namespaces: Collection[str],
        answer: Answer,
        now_s: float,
        device: Preset = DCGM,
    ) -> dict[Owner, Reading]:
        """Return the GPU activity of the pods, by one kind of exporter."""
        owned = by_owner(answer.samples, device.owners, pods)
        reader = self._reader(answer, now_s)
        return {
            pod: self._read(device, reader, pod, trusted(owned.get(pod, nothing()), pod[0], tenant_namespaces))[
                "gpu_activity"
            ]
            for pod in pods
        }

    def queues_of(
        self,
        workloads: Collection[WorkloadSettings],
        tenant_namespaces: Collection[str],
        answer: Answer,
        now_s: float,
    ) -> dict[WorkloadId, QueueReading]:
        """Return what the broker says of each workload's queue."""
        wanted = {queue for w in workloads if (queue := self._queue_name(w)) is not None}
        owned = by_owner(answer.samples, RABBITMQ.owners, wanted)
        reader = self._reader(answer, now_s)
        return {WorkloadId(w.namespace, w.name): self._queue(w, reader, owned, tenant_namespaces) for w in workloads}

    def _reader(self, answer: Answer, now_s: float) -> SignalReader:
        # A fetch may take longer than samples stay fresh (in a rehearsal, whose time runs faster than the wall's): what
        # it brings is younger than the tick, and not from the future.
        as_of_s = max(now_s, answer.at_s)
        return SignalReader(
            self._counters, self._parts, as_of_s, self.decision.stale_after_s, answer.absent, self.quantile
        )

    def _replica(self, preset: Preset, reader: SignalReader, pod: Owner, owned: Owned) -> ReplicaReading:
        readings = self._read(preset, reader, pod, owned)
        return ReplicaReading(pod=pod[1], still_s=self._still(preset, reader, pod, owned), **readings)

    def _queue(
        self,
        workload: WorkloadSettings,
        reader: SignalReader,
        owned: Mapping[Owner, Owned],
        tenant_namespaces: Collection[str],
    ) -> QueueReading:
        name = self._queue_name(workload)
        if name is None:
            return _unknown_queue(Reason.NOT_CONFIGURED)
        mine = trusted(owned.get(name, nothing()), workload.namespace, tenant_namespaces)
        # Two tenants may each run a broker with queues of the same name, hence the namespace in the key.
        readings = self._read(RABBITMQ, reader, (workload.namespace, *name), mine)
        share = 1.0 if workload.demand_source is None else workload.demand_source.share
        return QueueReading(
            prefetch=self._prefetch(workload), **{field: _shared(reading, share) for field, reading in readings.items()}
        )

    def _queue_name(self, workload: WorkloadSettings) -> Owner | None:
        """Return the virtual host and the name of a workload's queue; what the platform granted comes first."""
        if workload.demand_source is not None:
            return workload.demand_source.identity
        return (self.queues.vhost, workload.source) if workload.source else None

    def _prefetch(self, workload: WorkloadSettings) -> Reading:
        """Return what one consumer may hold. A worker's slots are its prefetch where each replica is one consumer."""
        granted = workload.demand_source.prefetch if workload.demand_source else None
        prefetch = workload.slots_per_replica or granted or self.queues.prefetch
        return Missing(Reason.NOT_CONFIGURED) if prefetch is None else Known(float(prefetch))

    def _read(self, preset: Preset, reader: SignalReader, owner: Hashable, owned: Owned) -> dict[str, Reading]:
        readings: dict[str, Reading] = {}
        for signal in preset.signals:
            readings[signal.field], name = reader.read(signal, (preset.name, owner), owned)
            if name is not None:
                self.matched.setdefault(signal.field, set()).add(name)
        return readings

    def _still(self, preset: Preset, reader: SignalReader, owner: Owner, owned: Owned) -> Reading:
        if not preset.progress():
            return Missing(Reason.NOT_EXPORTED)
        key = (preset.name, owner)
        seen = [reader.values(signal, owned) for signal in preset.progress()]
        values = {part: value for _, parts in seen for part, value in parts.items()}
        if not values:
            return reader.absence(owned)
        self._motion.observe(key, max(at_s for at_s, _ in seen), values)
        still = self._motion.still_s(key, reader.now_s)
        return Stale(still.age_s) if isinstance(still, Known) and still.age_s > reader.stale_after_s else still


def names_of(preset: Preset) -> tuple[str, ...]:
    """Return what to ask a source for: the preset's names, and whether the targets answered."""
    return (*preset.names(), UP)


def _shared(reading: Reading, share: float) -> Reading:
    """Return the part of a queue's reading that is this cluster's, where several consume one queue."""
    return Known(reading.value * share, reading.age_s) if isinstance(reading, Known) else reading


def _unknown_queue(reason: Reason) -> QueueReading:
    missing = Missing(reason)
    return QueueReading(missing, missing, missing, missing, missing, missing)
