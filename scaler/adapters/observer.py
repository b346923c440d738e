"""Gathers one tick's observation: the cluster view, and a fixed number of queries, whatever the number of workloads.

Engines, GPU activity, queues, gateways and query profiles are each collected by themselves and all at once. Whatever
fails becomes a reason in the readings that depended on it; nothing is raised.
"""

import asyncio
from collections.abc import Awaitable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from scaler.adapters.collection import CollectionStats, Fleet, SourceFailure, Tick, Totals
from scaler.adapters.sampled import NO_ACTIVITY, Activity, BrokerQueues, SampledActivity, SampledReplicas
from scaler.adapters.signals.gateways import GATEWAYS
from scaler.adapters.signals.owners import Owner
from scaler.adapters.signals.presets import PER_QUEUE
from scaler.adapters.signals.rabbitmq import QueueSettings
from scaler.config.models import DecisionSettings, WorkloadSettings
from scaler.core.observation import GatewayReading, Observation, QueueReading, ReplicaReading, WorkloadObservation
from scaler.core.values import Missing, Reason, WorkloadId
from scaler.ports import Clock, ClusterSnapshot, ClusterView, MetricsSource, WorkloadView

Replicas = Mapping[WorkloadId, tuple[ReplicaReading, ...]]


class ReplicaCollector(Protocol):
    """How the pods of engines are read: series by series, or aggregated by the server."""

    async def readings(self, tick: Tick, fleet: Fleet, activity: Awaitable[Activity]) -> Replicas:
        """Return one reading for each pod, in order, of each workload whose engine has a preset."""
        ...


class ActivityCollector(Protocol):
    """How the activity of GPUs is read."""

    async def readings(self, tick: Tick, fleet: Fleet) -> Activity:
        """Return the activity of the fleet's pods."""
        ...


class GatewayReadings(Protocol):
    """Demand that is seen before the replicas."""

    failures: tuple[SourceFailure, ...]
    queries: int
    rows: int

    async def readings(
        self, workloads: Iterable[WorkloadSettings], tenant_namespaces: Collection[str], now_s: float
    ) -> Mapping[WorkloadId, GatewayReading]:
        """Return what is known of the route of each workload that has one."""
        ...


class ProfileReadings(Protocol):
    """What one tick's queries of the platform's own profiles said."""

    def replicas(self, engine: str, pods: Collection[Owner]) -> Mapping[Owner, ReplicaReading]:
        """Return the readings of pods of an engine that is a profile. One without rows is silent."""
        ...

    def queue(self, workload: WorkloadSettings) -> QueueReading | None:
        """Return the reading of a workload's queue; None where its demand is not a profile's."""
        ...


class Profiles(Protocol):
    """Readings by the platform's query profiles."""

    failures: tuple[SourceFailure, ...]
    queries: int
    rows: int

    async def answers(self, workloads: Sequence[WorkloadSettings], now_s: float) -> ProfileReadings:
        """Ask for all workloads."""
        ...


@dataclass(frozen=True, slots=True)
class Beside:
    """Further places where a workload's signals may come from. None: not configured."""

    gateways: GatewayReadings | None = None
    profiles: Profiles | None = None


class CollectingObserver:
    """An Observer over metrics sources and a cluster view. `stats` tells what the last tick's collection did."""

    def __init__(
        self,
        source: MetricsSource,
        view: ClusterView,
        clock: Clock,
        decision: DecisionSettings,
        *,
        replicas: ReplicaCollector | None = None,
        gpu_source: MetricsSource | None = None,
        activity: ActivityCollector | None = None,
        queues: QueueSettings | None = None,
        beside: Beside | None = None,
        queue_time_quantile: float = 0.95,
    ) -> None:
        """Observe engines and queues through `source`, GPUs through `gpu_source` (None: not configured).

        Where the server aggregates, `replicas` and `activity` take their places. The sources and the view stay the
        caller's, who closes them.
        """
        self._view = view
        self._clock = clock
        self._stale_after_s = decision.view_stale_after_s
        self._replicas = replicas or SampledReplicas(source, clock, decision, queue_time_quantile)
        self._activity = activity or (SampledActivity(gpu_source, clock, decision) if gpu_source else None)
        self._queues = BrokerQueues(source, clock, decision, queues or QueueSettings())
        self._beside = beside or Beside()
        self._totals = Totals()
        self.stats = CollectionStats()

    @property
    def problems(self) -> tuple[str, ...]:
        """One short line for each failure, and each warning of an incomplete answer, of the last tick."""
        return self.stats.problems

    async def observe(self, workloads: tuple[WorkloadSettings, ...], now_s: float) -> Observation:
        """Return what is seen of the workloads."""
        started_s = self._clock.monotonic_s()
        tick = Tick(now_s)
        snapshot = await self._snapshot(tick)
        views = snapshot.workloads if snapshot else {}
        fleet = Fleet(workloads, {key: view.pods for key, view in views.items()})
        collected = await self._collected(tick, fleet)
        stale = self._is_stale(tick, snapshot)
        keys = (WorkloadId(w.namespace, w.name) for w in workloads)
        observed = {key: collected.observation(key, views.get(key), stale=stale) for key in keys}
        self.stats = self._stats(tick, self._clock.monotonic_s() - started_s)
        return Observation(observed)

    def _stats(self, tick: Tick, took_s: float) -> CollectionStats:
        self._totals.add(tick.fetches, tick.failures, tick.partial)
        return CollectionStats(
            at_s=tick.now_s,
            seconds=self._clock.wall_duration(took_s),
            fetches=tick.fetches,
            samples=tick.samples,
            matched={signal: tuple(sorted(names)) for signal, names in sorted(tick.matched.items())},
            failures=tuple(tick.failures),
            partial=tuple(tick.partial),
            fetches_total=self._totals.fetches,
            failures_total=self._totals.failures(),
        )

    async def _snapshot(self, tick: Tick) -> ClusterSnapshot | None:
        try:
            return await self._view.snapshot()
        except Exception as error:  # noqa: BLE001  # the loop's edge: a tick without a view is still a tick
            tick.failed("cluster", error, Reason.VIEW_UNAVAILABLE)
        return None

    def _is_stale(self, tick: Tick, snapshot: ClusterSnapshot | None) -> bool:
        """Return whether the view is too old to count by, and take it down, once for all workloads.

        One from the future would look fresh for as long as it is ahead, and one without a time for ever.
        """
        age_s = tick.now_s - snapshot.at_s if snapshot else 0.0
        if abs(age_s) <= self._stale_after_s:
            return False
        message = f"the cluster view must be at most {self._stale_after_s:g} s old or ahead, was {age_s:.0f} s old"
        tick.failures.append(SourceFailure("cluster", Reason.VIEW_STALE, message))
        return True

    async def _collected(self, tick: Tick, fleet: Fleet) -> "_Collected":
        async with asyncio.TaskGroup() as group:
            activity = group.create_task(self._gpu_activity(tick, fleet))
            replicas = group.create_task(self._replicas.readings(tick, fleet, activity))
            queues = group.create_task(self._queues.readings(tick, fleet))
            routes = group.create_task(self._routes(tick, fleet))
            profiles = group.create_task(self._profiles(tick, fleet))
        collected = _Collected(dict(replicas.result()), dict(queues.result()), routes.result())
        for workload in fleet.workloads:
            key = WorkloadId(workload.namespace, workload.name)
            if (queue := profiles.result().queue(workload)) is not None:
                collected.queues[key] = queue
            if key not in collected.replicas:
                owners = [(workload.namespace, pod) for pod in fleet.pods_of(workload)]
                silent = workload.engine in PER_QUEUE
                read = (_NoProfiles() if silent else profiles.result()).replicas(workload.engine, owners)
                collected.replicas[key] = tuple(
                    _with_activity(read[owner], activity.result(), owner) for owner in owners
                )
        return collected

    async def _gpu_activity(self, tick: Tick, fleet: Fleet) -> Activity:
        return await self._activity.readings(tick, fleet) if self._activity else {}

    async def _routes(self, tick: Tick, fleet: Fleet) -> Mapping[WorkloadId, GatewayReading]:
        gateways = self._beside.gateways
        if gateways is None:
            return {}
        try:
            found = await gateways.readings(fleet.workloads, fleet.tenants, tick.now_s)
        except Exception as error:  # noqa: BLE001  # the loop's edge: what a gateway saw is then not known, and not 0
            unknown = GatewayReading(Missing(tick.failed("gateways", error, Reason.SOURCE_DOWN)))
            routed = (w for w in fleet.workloads if w.demand_source and w.demand_source.preset in GATEWAYS)
            return {WorkloadId(w.namespace, w.name): unknown for w in routed}
        _take_down(tick, gateways)
        return found

    async def _profiles(self, tick: Tick, fleet: Fleet) -> ProfileReadings:
        profiles = self._beside.profiles
        if profiles is None:
            return _NoProfiles()
        try:
            answers = await profiles.answers(fleet.workloads, tick.now_s)
        except Exception as error:  # noqa: BLE001  # as above
            tick.failed("profiles", error, Reason.SOURCE_DOWN)
            return _NoProfiles()
        _take_down(tick, profiles)
        return answers


@dataclass(frozen=True, slots=True)
class _Collected:
    """What was collected of all workloads."""

    replicas: dict[WorkloadId, tuple[ReplicaReading, ...]]
    queues: dict[WorkloadId, QueueReading]
    routes: Mapping[WorkloadId, GatewayReading]

    def observation(self, key: WorkloadId, view: WorkloadView | None, *, stale: bool) -> WorkloadObservation:
        """Return what is seen of a workload. A view that is stale still tells whose readings they are."""
        absence = Missing(Reason.VIEW_STALE if view is not None else Reason.VIEW_UNAVAILABLE)
        return WorkloadObservation(
            counts=absence if view is None or stale else view.counts,
            replicas=self.replicas[key],
            queue=self.queues.get(key),
            gateway=self.routes.get(key),
            rollout=view is not None and view.rollout,
        )


class _NoProfiles:
    """Where there are no profiles: what has no preset is silent, never idle."""

    def replicas(self, engine: str, pods: Collection[Owner]) -> dict[Owner, ReplicaReading]:
        missing = Missing(Reason.NOT_EXPORTED if engine in PER_QUEUE else Reason.NO_SERIES)
        return {owner: ReplicaReading(pod=owner[1], running=missing, waiting=missing) for owner in pods}

    def queue(self, workload: WorkloadSettings) -> None:  # noqa: ARG002  # as the others
        return None


def _with_activity(reading: ReplicaReading, activity: Activity, owner: Owner) -> ReplicaReading:
    """Return a reading with what an exporter of GPU activity says, unless a profile said it already."""
    if reading.gpu_activity != NO_ACTIVITY:
        return reading
    return replace(reading, gpu_activity=activity.get(owner, NO_ACTIVITY))


def _take_down(tick: Tick, collector: GatewayReadings | Profiles) -> None:
    tick.failures += collector.failures
    tick.fetches += collector.queries
    tick.samples += collector.rows
