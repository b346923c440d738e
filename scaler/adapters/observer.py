"""Gathers one tick's observation: the cluster view, and a fixed number of fetches, whatever the number of workloads.

One fetch for each engine preset in use, and one for GPU activity where a source for it is set. Whatever fails becomes
a reason in the readings that depended on it; nothing is raised.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from scaler.adapters.collection import CollectionStats, SourceFailure, Totals
from scaler.adapters.signals.candidates import Preset
from scaler.adapters.signals.dcgm import DCGM
from scaler.adapters.signals.owners import Owner
from scaler.adapters.signals.project import ENGINES, PER_QUEUE, Answer, Projector, names_of
from scaler.adapters.signals.rabbitmq import RABBITMQ, QueueSettings
from scaler.config.models import DecisionSettings, WorkloadSettings
from scaler.core.observation import Observation, QueueReading, ReplicaReading, WorkloadObservation
from scaler.core.values import Missing, Reading, Reason, WorkloadId
from scaler.ports import (
    Clock,
    ClusterSnapshot,
    ClusterView,
    MetricsSource,
    SampleRequest,
    SourceError,
    WorkloadView,
)

_Read = TypeVar("_Read")
_NOT_CONFIGURED = Missing(Reason.NOT_CONFIGURED)


class CollectingObserver:
    """An Observer over metrics sources and a cluster view. `stats` tells what the last tick's collection did."""

    def __init__(
        self,
        source: MetricsSource,
        view: ClusterView,
        clock: Clock,
        decision: DecisionSettings,
        *,
        gpu_source: MetricsSource | None = None,
        queues: QueueSettings | None = None,
        queue_time_quantile: float = 0.95,
    ) -> None:
        """Observe engines and queues through `source`, GPUs through `gpu_source` (None: not configured).

        The sources and the view stay the caller's, who closes them.
        """
        self._source = source
        self._view = view
        self._clock = clock
        self._gpu_source = gpu_source
        self._projector = Projector(decision, queue_time_quantile, queues or QueueSettings())
        self._totals = Totals()
        self.stats = CollectionStats()

    @property
    def problems(self) -> tuple[str, ...]:
        """One short line for each failure, and each warning of an incomplete answer, of the last tick."""
        return self.stats.problems

    async def observe(self, workloads: tuple[WorkloadSettings, ...], now_s: float) -> Observation:
        """Return what is seen of the workloads."""
        started_s = self._clock.monotonic_s()
        tick = _Tick(now_s)
        engines = {w.engine for w in workloads if w.engine in ENGINES}
        snapshot, answers, gpu = await asyncio.gather(
            self._snapshot(tick), self._answers(tick, engines, workloads), self._gpu(tick)
        )
        self._projector.begin(now_s)
        observed = self._project(tick, workloads, snapshot, answers, gpu)
        self.stats = self._stats(tick, self._clock.monotonic_s() - started_s)
        return Observation(observed)

    def _stats(self, tick: "_Tick", took_s: float) -> CollectionStats:
        self._totals.add(tick.fetches, tick.failures, tick.partial)
        return CollectionStats(
            at_s=tick.now_s,
            seconds=self._clock.wall_duration(took_s),
            fetches=tick.fetches,
            samples=tick.samples,
            matched={signal: tuple(sorted(names)) for signal, names in sorted(self._projector.matched.items())},
            failures=tuple(tick.failures),
            partial=tuple(tick.partial),
            fetches_total=self._totals.fetches,
            failures_total=self._totals.failures(),
        )

    async def _snapshot(self, tick: "_Tick") -> ClusterSnapshot | None:
        try:
            return await self._view.snapshot()
        except SourceError as error:
            tick.failures.append(SourceFailure("cluster", error.reason, str(error)))
        except Exception as error:  # noqa: BLE001  # the loop's edge: a tick without a view is still a tick
            tick.failures.append(SourceFailure("cluster", Reason.VIEW_UNAVAILABLE, _unexpected(error)))
        return None

    async def _answers(
        self, tick: "_Tick", engines: set[str], workloads: Sequence[WorkloadSettings]
    ) -> dict[str, Answer]:
        presets = [ENGINES[name] for name in sorted(engines)]
        answers = await asyncio.gather(
            *(self._fetch(tick, self._source, p.name, _request(p, workloads)) for p in presets)
        )
        return {preset.name: answer for preset, answer in zip(presets, answers, strict=True)}

    async def _gpu(self, tick: "_Tick") -> Answer | None:
        if self._gpu_source is None:
            return None
        # Not limited by namespace: with honorLabels=false `namespace` is the exporter's own.
        return await self._fetch(tick, self._gpu_source, DCGM.name, SampleRequest(DCGM.names()))

    async def _fetch(self, tick: "_Tick", source: MetricsSource, what: str, request: SampleRequest) -> Answer:
        tick.fetches += 1
        try:
            batch = await source.fetch(request, tick.now_s)
        except SourceError as error:
            tick.failures.append(SourceFailure(what, error.reason, str(error)))
            return Answer(absent=error.reason)
        except Exception as error:  # noqa: BLE001  # the loop's edge: the other sources' answers still count
            tick.failures.append(SourceFailure(what, Reason.SOURCE_DOWN, _unexpected(error)))
            return Answer(absent=Reason.SOURCE_DOWN)
        tick.samples += len(batch.samples)
        tick.partial += (SourceFailure(what, Reason.PARTIAL_ANSWER, warning) for warning in batch.partial)
        return Answer.of(batch, self._clock.now_s())

    def _project(
        self,
        tick: "_Tick",
        workloads: Sequence[WorkloadSettings],
        snapshot: ClusterSnapshot | None,
        answers: Mapping[str, Answer],
        gpu: Answer | None,
    ) -> dict[WorkloadId, WorkloadObservation]:
        views = snapshot.workloads if snapshot else {}
        tenants = frozenset(w.namespace for w in workloads)
        replicas = self._replicas(tick, workloads, views, answers)
        activity: Mapping[Owner, Reading] = {}
        if gpu is not None:
            activity = _read(
                tick, DCGM.name, gpu, lambda a: self._projector.gpu_activity(replicas.keys(), tenants, a, tick.now_s)
            )
        queues = self._queues(tick, workloads, tenants, answers)
        with_activity = {
            pod: replace(reading, gpu_activity=activity.get(pod, _NOT_CONFIGURED)) for pod, reading in replicas.items()
        }
        return {
            (key := WorkloadId(w.namespace, w.name)): _observation(key, views.get(key), with_activity, queues.get(key))
            for w in workloads
        }

    def _queues(
        self,
        tick: "_Tick",
        workloads: Sequence[WorkloadSettings],
        tenants: frozenset[str],
        answers: Mapping[str, Answer],
    ) -> dict[WorkloadId, QueueReading]:
        mine = [w for w in workloads if w.engine in PER_QUEUE]
        broker = next((answers[name] for name in PER_QUEUE if name in answers), Answer())
        return _read(tick, RABBITMQ.name, broker, lambda a: self._projector.queues_of(mine, tenants, a, tick.now_s))

    def _replicas(
        self,
        tick: "_Tick",
        workloads: Sequence[WorkloadSettings],
        views: Mapping[WorkloadId, WorkloadView],
        answers: Mapping[str, Answer],
    ) -> dict[Owner, ReplicaReading]:
        """Read the pods, engine by engine."""
        pods: dict[str, list[Owner]] = {}
        for workload in workloads:
            view = views.get(WorkloadId(workload.namespace, workload.name))
            pods.setdefault(workload.engine, []).extend(
                (workload.namespace, pod) for pod in (view.pods if view else ())
            )
        readings: dict[Owner, ReplicaReading] = {}
        for engine, mine in pods.items():
            project = partial(self._projector.replicas, ENGINES.get(engine), frozenset(mine), now_s=tick.now_s)
            readings |= _read(tick, engine, answers.get(engine, Answer()), project)
        return readings


@dataclass(slots=True)
class _Tick:
    """What is counted while a tick's fetches run."""

    now_s: float
    fetches: int = 0
    samples: int = 0
    failures: list[SourceFailure] = field(default_factory=list)
    partial: list[SourceFailure] = field(default_factory=list)


def _read(tick: _Tick, what: str, answer: Answer, project: Callable[[Answer], _Read]) -> _Read:
    """Project an answer. One that cannot be read is none: it costs its own preset's readings, not the whole tick."""
    try:
        return project(answer)
    except Exception as error:  # noqa: BLE001  # the loop's edge
        tick.failures.append(SourceFailure(what, Reason.INVALID_VALUE, _unexpected(error)))
        return project(Answer(absent=Reason.INVALID_VALUE))


def _unexpected(error: Exception) -> str:
    return f"unexpected {type(error).__name__}: {error}"


def _request(preset: Preset, workloads: Sequence[WorkloadSettings]) -> SampleRequest:
    """Ask for the namespaces of the workloads; of a broker for all, since it may live anywhere."""
    if preset.name in PER_QUEUE:
        return SampleRequest(preset.names())
    return SampleRequest(names_of(preset), tuple(sorted({w.namespace for w in workloads if w.engine == preset.name})))


def _observation(
    key: WorkloadId,
    view: WorkloadView | None,
    replicas: Mapping[Owner, ReplicaReading],
    queue: QueueReading | None,
) -> WorkloadObservation:
    if view is None:
        return WorkloadObservation(counts=Missing(Reason.VIEW_UNAVAILABLE), queue=queue)
    return WorkloadObservation(
        counts=view.counts,
        replicas=tuple(replicas[key.namespace, pod] for pod in view.pods),
        queue=queue,
        rollout=view.rollout,
    )
