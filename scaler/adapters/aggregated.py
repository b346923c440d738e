"""Readings that the metrics server aggregates: one row for each pod and name, for 100,000 pods in a tick.

Queries are asked for namespaces in shards. A shard that fails, or whose answer comes too late, costs the readings of
its own pods, all of them, and no others'. The rows of an answer go into columns as they come; nothing else is kept.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import partial
from itertools import repeat
from typing import Any

from scaler.adapters.asking import Round, Server
from scaler.adapters.bursts import burst
from scaler.adapters.collection import Fleet, Tick
from scaler.adapters.sampled import NO_ACTIVITY, Activity, preferred
from scaler.adapters.shards import Shard, Shards
from scaler.adapters.signals.aggregates import Plan, Query, Role, plan_of
from scaler.adapters.signals.columns import Groups, Pods, Rows, Table, speakers, spoken
from scaler.adapters.signals.grouping import unanswered
from scaler.adapters.signals.judging import Judge, Judged
from scaler.adapters.signals.presets import DEVICES
from scaler.config.models import DecisionSettings
from scaler.core.observation import ReplicaReading
from scaler.core.values import Missing, Reason, WorkloadId
from scaler.ports import Clock

Sift = Callable[[Rows], Rows]
_FIRST_WIDTH = 8.0  # rows of the largest answer, for each pod, until that is known
_NOT_EXPORTED = Missing(Reason.NOT_EXPORTED)
_NOT_ASKED = Missing(Reason.NOT_CONFIGURED)  # of tokens, where no workload is counted in them
_DEFAULTS = {f.name: _NOT_EXPORTED if f.default is MISSING else f.default for f in fields(ReplicaReading)}
_DOWN = "up"  # what a failed question for targets that do not answer is told under


@dataclass(frozen=True, slots=True)
class AggregationSettings:
    """Within which bounds a server is asked to aggregate."""

    max_rows: int = 50_000  # expected of one answer
    max_query_characters: int = 15_000  # VictoriaMetrics takes 16 KB
    seldom_s: float = 60.0  # between two questions for the quantiles of histograms
    quantile: float = 0.95  # of the measured queue time


@dataclass(frozen=True, slots=True)
class _Part:
    """What is asked of one preset in a tick, and what came."""

    plan: Plan
    table: Table
    namespaces: frozenset[str]

    @property
    def name(self) -> str:
        return self.plan.preset.name

    def within(self, shard: Shard) -> tuple[str, ...]:
        """Return the namespaces of a shard that this preset has pods in."""
        return tuple(namespace for namespace in shard if namespace in self.namespaces)


class _Collection:
    """Asks for parts, shard by shard, and judges what came. It remembers what the next tick needs."""

    def __init__(self, server: Server, clock: Clock, decision: DecisionSettings, settings: AggregationSettings) -> None:
        self._server = server
        self._clock = clock
        self._decision = decision
        self._settings = settings
        self._shards = Shards(settings.max_rows)
        self._judges: dict[str, Judge] = {}
        self._pods: dict[str, Pods] = {}  # by preset
        self._width = _FIRST_WIDTH
        self._asked_s = float("-inf")

    def part(self, plan: Plan, groups: Groups) -> _Part:
        """Return a part to be filled. Where its pods are those of the last tick, so is their order."""
        name = plan.preset.name
        if name not in self._pods or self._pods[name].groups != groups:
            self._pods[name] = Pods(groups)
        pods = self._pods[name]
        return _Part(plan, Table(pods), frozenset(pods.found))

    async def ask(
        self, tick: Tick, parts: Sequence[_Part], sift: Callable[[_Part, Rows], Sift], *, up: bool = False
    ) -> None:
        """Fill the tables of parts. `sift` makes, of the rows that say when pods were sampled, what lets rows pass."""
        try:
            round_ = await self._server.round_of(tick)
        except Exception as error:  # noqa: BLE001  # the loop's edge: what is not known is Missing
            for part in parts:
                part.table.drop(part.namespaces, tick.failed(part.name, error, Reason.SOURCE_DOWN))
            return
        seldom, shards = self._is_due(tick.now_s), self._sharded(parts)
        widths = await asyncio.gather(
            *(self._part(round_, part, shard, sift, seldom=seldom) for shard in shards for part in parts),
            *(self._down(round_, parts, shard) for shard in shards if up),
        )
        self._width = max(1.0, *widths) if widths else self._width

    def judged(self, tick: Tick, part: _Part) -> Judged:
        """Return the signals of a part. What cannot be read is none: it costs its own preset's readings."""
        now_s = max(tick.now_s, self._clock.now_s())  # answers take time, and what they bring is no older for that
        judge = self._judges.setdefault(part.name, Judge(self._decision))
        try:
            judged = judge.judged(part.plan, part.table, now_s)
        except Exception as error:  # noqa: BLE001  # the loop's edge
            part.table.drop(part.namespaces, tick.failed(part.name, error, Reason.INVALID_VALUE))
            self._judges[part.name] = Judge(self._decision)
            judged = self._judges[part.name].judged(part.plan, part.table, now_s)
        tick.match(judged.matched)
        return judged

    def _is_due(self, now_s: float) -> bool:
        """Return whether histograms are asked for in this tick: before what they said last is stale."""
        period_s = min(self._settings.seldom_s, self._decision.stale_after_s * 2 / 3)
        due = abs(now_s - self._asked_s) >= 0.9 * period_s  # ticks are not quite regular
        self._asked_s = now_s if due else self._asked_s
        return due

    def _sharded(self, parts: Sequence[_Part]) -> tuple[Shard, ...]:
        pods: dict[str, int] = {}
        for part in parts:
            for namespace in part.namespaces:
                pods[namespace] = pods.get(namespace, 0) + len(part.table.pods.found.get(namespace, ()))
        room = min((part.plan.room(self._settings.max_query_characters) for part in parts), default=1)
        return self._shards.of({namespace: round(count * self._width) for namespace, count in pods.items()}, room)

    async def _part(
        self, round_: Round, part: _Part, shard: Shard, sift: Callable[[_Part, Rows], Sift], *, seldom: bool
    ) -> float:
        """Ask for a preset in a shard; return how many rows the largest answer had for each pod."""
        namespaces = part.within(shard)
        if not namespaces:
            return 0.0
        times, *others = sorted(part.plan.queries(namespaces), key=lambda query: query.role is not Role.TIMES)
        try:
            batch = await round_.ask(times.text)
            rows = [(labels, self._clock.from_wall(at_s)) for labels, at_s in batch.rows]
            through = sift(part, rows)
            self._take(round_.tick, part, times, namespaces, through(rows), batch.partial)
            counts = await asyncio.gather(*(self._fill(round_, part, q, namespaces, through) for q in others))
        except Exception as error:  # noqa: BLE001  # the loop's edge: the other shards still count
            reason = round_.tick.failed(part.name, error, Reason.SOURCE_DOWN)
            part.table.drop(namespaces, reason)
            if reason is not Reason.SOURCE_TIMEOUT:  # more queries are no help to a server that is slow
                self._shards.refused(shard)
            return 0.0
        if seldom:
            await self._quantiles(round_, part, namespaces, through)
        return max(len(rows), *counts, 0) / max(1, len(part.table.pods.of_namespaces(namespaces)))

    async def _quantiles(self, round_: Round, part: _Part, namespaces: Sequence[str], through: Sift) -> None:
        """Ask for what is seldom asked. Where that fails, what was said before grows old."""
        window_s = self._clock.wall_duration(2 * self._decision.rate_window_s)
        queries = part.plan.seldom(namespaces, self._settings.quantile, max(1, round(window_s * 1000)))
        try:
            await asyncio.gather(*(self._fill(round_, part, query, namespaces, through) for query in queries))
        except Exception as error:  # noqa: BLE001  # as above
            round_.tick.failed(part.name, error, Reason.SOURCE_DOWN)

    async def _fill(self, round_: Round, part: _Part, query: Query, namespaces: Sequence[str], through: Sift) -> int:
        batch = await round_.ask(query.text)
        self._take(round_.tick, part, query, namespaces, through(batch.rows), batch.partial)
        return len(batch.rows)

    def _take(
        self, tick: Tick, part: _Part, query: Query, namespaces: Sequence[str], rows: Rows, warnings: Sequence[str]
    ) -> None:
        part.table.take(query, rows, namespaces)
        if warnings:
            tick.incomplete(part.name, warnings)
            part.table.fail(namespaces, Reason.PARTIAL_ANSWER)

    async def _down(self, round_: Round, parts: Sequence[_Part], shard: Shard) -> float:
        """Ask which pods' targets did not answer. Where that fails, pods without series are just that."""
        try:
            batch = await round_.ask(unanswered(shard))
            for part in parts:
                part.table.take_down(batch.rows)
        except Exception as error:  # noqa: BLE001  # as above
            round_.tick.failed(_DOWN, error, Reason.SOURCE_DOWN)
        return 0.0


class AggregatedReplicas:
    """The readings of the pods of engines that have a preset."""

    def __init__(
        self,
        server: Server,
        clock: Clock,
        decision: DecisionSettings,
        settings: AggregationSettings = AggregationSettings(),
    ) -> None:
        """Ask `server`."""
        self._collection = _Collection(server, clock, decision, settings)

    async def readings(
        self, tick: Tick, fleet: Fleet, activity: Awaitable[Activity]
    ) -> dict[WorkloadId, tuple[ReplicaReading, ...]]:
        """Return one reading for each pod of each such workload."""
        presets = fleet.presets()
        parts = [
            self._collection.part(plan_of(preset, frozenset(w.unit for w in workloads)), fleet.groups(workloads))
            for preset, workloads in presets.items()
        ]
        with burst():
            await self._collection.ask(tick, parts, lambda _part, _times: _all, up=True)
            busy = await activity
            readings: dict[WorkloadId, tuple[ReplicaReading, ...]] = {}
            for part, workloads in zip(parts, presets.values(), strict=True):
                replicas = _replicas(part, self._collection.judged(tick, part), busy)
                keys = (WorkloadId(w.namespace, w.name) for w in workloads)
                readings |= zip(keys, part.table.pods.of_groups(replicas), strict=True)
        return readings


class AggregatedActivity:
    """The GPU activity of pods. Of several exporters that speak of a pod, the first with something known counts."""

    def __init__(
        self,
        server: Server,
        clock: Clock,
        decision: DecisionSettings,
        settings: AggregationSettings = AggregationSettings(),
    ) -> None:
        """Ask `server`."""
        self._collection = _Collection(server, clock, decision, settings)

    async def readings(self, tick: Tick, fleet: Fleet) -> Activity:
        """Return the activity of all pods of the fleet."""
        groups, tenants = fleet.groups(fleet.workloads), fleet.tenants
        parts = [self._collection.part(plan_of(device, frozenset()), groups) for device in DEVICES]

        def believed(part: _Part, times: Rows) -> Sift:
            pods, labels = part.table.pods, part.plan.preset.owners
            return partial(spoken, pods, labels, speakers(pods, times, labels, tenants))

        with burst():
            await self._collection.ask(tick, parts, believed)
            found: Activity = {}
            for part in parts:
                column = self._collection.judged(tick, part).columns["gpu_activity"]
                found = preferred(found, dict(zip(part.table.pods.owners, column.readings(), strict=True)))
        return found


def _all(rows: Rows) -> Rows:
    """Let all rows through: engines speak for themselves, under the labels that the platform gives them."""
    return rows


def _replicas(part: _Part, judged: Judged, activity: Activity) -> list[ReplicaReading]:
    """Return one reading for each pod, from columns side by side: by name it would cost as much as all the rest."""
    pods = part.table.pods
    readings: dict[str, Iterable[Any]] = {signal.field: repeat(_NOT_ASKED) for signal in part.plan.preset.signals}
    readings |= {name: column.readings() for name, column in judged.columns.items()}
    readings["pod"] = pods.names
    readings["gpu_activity"] = (
        (activity.get(owner, NO_ACTIVITY) for owner in pods.owners) if activity else repeat(NO_ACTIVITY)
    )
    return list(map(ReplicaReading, *(readings.get(name, repeat(default)) for name, default in _DEFAULTS.items())))
