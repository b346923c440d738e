"""Readings from every series of every pod and queue: exact, and for as many as there is time for.

It is how scraped and recorded samples are read; a server that aggregates is asked in `aggregated`. One fetch for each
engine in use, one for GPU activity, and one for the broker.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from typing import TypeVar

from scaler.adapters.collection import Fleet, Tick
from scaler.adapters.signals.candidates import Preset
from scaler.adapters.signals.owners import Owner
from scaler.adapters.signals.presets import DEVICES, PER_QUEUE
from scaler.adapters.signals.project import Answer, Projector, names_of
from scaler.adapters.signals.rabbitmq import RABBITMQ, QueueSettings
from scaler.config.models import DecisionSettings, WorkloadSettings
from scaler.core.observation import QueueReading, ReplicaReading
from scaler.core.values import Known, Missing, Reading, Reason, WorkloadId
from scaler.ports import Clock, MetricsSource, SampleRequest

_Read = TypeVar("_Read")
Activity = Mapping[Owner, Reading]  # of GPUs; a pod that is not in it: not configured
GPU = "gpu"  # what failures of collecting it are told under
NO_ACTIVITY = Missing(Reason.NOT_CONFIGURED)


class Samples:
    """Fetches samples for presets, and has them read. Whatever fails becomes a reason in what depended on it."""

    def __init__(self, source: MetricsSource, clock: Clock) -> None:
        """Ask `source`, which stays the caller's."""
        self._source = source
        self._clock = clock

    async def fetch(self, tick: Tick, what: str, request: SampleRequest) -> Answer:
        """Return the answer to a request, or why there is none."""
        tick.fetches += 1
        try:
            batch = await self._source.fetch(request, tick.now_s)
        except Exception as error:  # noqa: BLE001  # the loop's edge: the other answers still count
            return Answer(absent=tick.failed(what, error, Reason.SOURCE_DOWN))
        tick.samples += len(batch.samples)
        tick.incomplete(what, batch.partial)
        return Answer.of(batch, self._clock.now_s())


class SampledReplicas:
    """The readings of the pods of engines that have a preset."""

    def __init__(self, source: MetricsSource, clock: Clock, decision: DecisionSettings, quantile: float) -> None:
        """Ask `source`; `quantile` is that of the measured queue time."""
        self._samples = Samples(source, clock)
        self._projector = Projector(decision, quantile)

    async def readings(
        self, tick: Tick, fleet: Fleet, activity: Awaitable[Activity]
    ) -> dict[WorkloadId, tuple[ReplicaReading, ...]]:
        """Return one reading for each pod of each such workload."""
        presets = fleet.presets()
        answers = await asyncio.gather(*(self._samples.fetch(tick, p.name, _request(p, w)) for p, w in presets.items()))
        busy = await activity
        self._projector.begin(tick.now_s)
        readings: dict[WorkloadId, tuple[ReplicaReading, ...]] = {}
        for (preset, workloads), answer in zip(presets.items(), answers, strict=True):
            pods = frozenset((w.namespace, pod) for w in workloads for pod in fleet.pods_of(w))
            found = _read(tick, preset.name, answer, _projection(self._projector, preset, pods, tick.now_s))
            for workload in workloads:
                owners = [(workload.namespace, pod) for pod in fleet.pods_of(workload)]
                readings[WorkloadId(workload.namespace, workload.name)] = tuple(
                    replace(found[owner], gpu_activity=busy.get(owner, NO_ACTIVITY)) for owner in owners
                )
        tick.match(self._projector.matched)
        return readings


class SampledActivity:
    """The GPU activity of pods. Of several exporters that speak of a pod, the first with something known counts."""

    def __init__(self, source: MetricsSource, clock: Clock, decision: DecisionSettings) -> None:
        """Ask `source`."""
        self._samples = Samples(source, clock)
        self._projector = Projector(decision)

    async def readings(self, tick: Tick, fleet: Fleet) -> Activity:
        """Return the activity of all pods of the fleet."""
        # Not limited by namespace: with honorLabels=false `namespace` is the exporter's own.
        names = tuple(name for device in DEVICES for name in device.names())
        answer = await self._samples.fetch(tick, GPU, SampleRequest(names))
        self._projector.begin(tick.now_s)
        pods = fleet.owners()
        found: Activity = {}
        for device in DEVICES:
            seen = _read(tick, device.name, answer, _devices(self._projector, device, pods, fleet.tenants, tick.now_s))
            found = preferred(found, seen)
        tick.match(self._projector.matched)
        return found


class BrokerQueues:
    """The readings of the queues that workloads consume, whatever their engine."""

    def __init__(
        self, source: MetricsSource, clock: Clock, decision: DecisionSettings, settings: QueueSettings
    ) -> None:
        """Ask `source` for the broker's series."""
        self._samples = Samples(source, clock)
        self._projector = Projector(decision, queues=settings)

    async def readings(self, tick: Tick, fleet: Fleet) -> dict[WorkloadId, QueueReading]:
        """Return the reading of each workload's queue; of a broker, which may live anywhere, all series are asked."""
        workloads = [w for w in fleet.workloads if consumes(w)]
        if not workloads:
            return {}
        answer = await self._samples.fetch(tick, RABBITMQ.name, SampleRequest(RABBITMQ.names()))
        self._projector.begin(tick.now_s)

        def project(said: Answer) -> dict[WorkloadId, QueueReading]:
            return self._projector.queues_of(workloads, fleet.tenants, said, tick.now_s)

        queues = _read(tick, RABBITMQ.name, answer, project)
        tick.match(self._projector.matched)
        return queues


def preferred(first: Activity, second: Activity) -> Activity:
    """Return the first one's readings, and where it knows nothing, what the second knows."""
    if not first:
        return second
    known = {
        owner: reading
        for owner, reading in second.items()
        if isinstance(reading, Known) and not isinstance(first.get(owner), Known)
    }
    return {**first, **known} if known else first


def consumes(workload: WorkloadSettings) -> bool:
    """Return whether a workload's work waits in a queue of the broker."""
    if workload.demand_source is not None:
        return workload.demand_source.preset in PER_QUEUE
    return workload.engine in PER_QUEUE


def _request(preset: Preset, workloads: list[WorkloadSettings]) -> SampleRequest:
    return SampleRequest(names_of(preset), tuple(sorted({w.namespace for w in workloads})))


def _projection(
    projector: Projector, preset: Preset, pods: frozenset[Owner], now_s: float
) -> Callable[[Answer], dict[Owner, ReplicaReading]]:
    return lambda said: projector.replicas(preset, pods, said, now_s)


def _devices(
    projector: Projector, device: Preset, pods: Collection[Owner], tenants: frozenset[str], now_s: float
) -> Callable[[Answer], dict[Owner, Reading]]:
    return lambda said: projector.gpu_activity(pods, tenants, said, now_s, device)


def _read(tick: Tick, what: str, answer: Answer, project: Callable[[Answer], _Read]) -> _Read:
    """Project an answer. One that cannot be read is none: it costs its own preset's readings, not the whole tick."""
    try:
        return project(answer)
    except Exception as error:  # noqa: BLE001  # the loop's edge
        return project(Answer(absent=tick.failed(what, error, Reason.INVALID_VALUE)))
