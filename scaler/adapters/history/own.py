"""Headway's own exported series, read back.

The recording rules of dashboards/rules hold one mean a minute and workload; where they are not installed, or were not
yet, the exported samples themselves are averaged. Only samples within the step (at least two scrapes long) enter a
value: an expression that merely names a series would repeat its last sample over five minutes of silence.

The leader alone exports workloads. When the lead changes, or when two controllers believe for a moment to have it, two
series of one workload lie side by side; the mean is of all their samples, each counted once. None wins: both saw
the same fleet, and a maximum would make every change of leader a surge.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from forecasting.series import Grid, Series, Values
from scaler.adapters.exporter import CAPACITY, DEMAND, LEAD_TIME, REPLICAS
from scaler.adapters.history.ranges import MAX_POINTS, RangeAnswer, RangeSource
from scaler.adapters.promql import one_of, quoted
from scaler.core.history import HistoryBatch, HistorySignal
from scaler.core.values import WorkloadId
from scaler.ports import SourceError

_BYTES_OF_POINT = 32  # in an answer: `[1700000000,"0.123456789012345"],`
_Queries = Callable[[Sequence[WorkloadId], int], Iterable[str]]  # of a shard and a step: each fills in what is missing
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


@dataclass(frozen=True, slots=True)
class _Kept:
    """Under which names a signal is kept: as a rule records it, and as it is exported."""

    recorded: str
    exported: str
    matchers: tuple[str, ...] = ()
    peak: bool = False


_KEPT: Mapping[HistorySignal, _Kept] = {
    HistorySignal.DEMAND: _Kept("headway:demand_per_second:mean1m", DEMAND.name),
    HistorySignal.DEMAND_PEAK: _Kept("headway:demand_per_second:mean1m", DEMAND.name, peak=True),
    HistorySignal.REPLICAS: _Kept("headway:replicas_ready:mean1m", REPLICAS.name, ('state="ready"',)),
    HistorySignal.CAPACITY: _Kept("headway:capacity_per_second:mean1m", CAPACITY.name),
    HistorySignal.LEAD_TIME: _Kept("headway:lead_time_seconds:mean1m", LEAD_TIME.name),
}


@dataclass(frozen=True, slots=True)
class OwnSettings:
    """How own series look where they are kept, and how much is asked for at once.

    `labels` must be on every series: where one store holds several clusters, they tell this one.
    """

    scrape_interval_s: float = 30.0  # of the controllers' metrics, at most
    labels: Mapping[str, str] = field(default_factory=dict)
    namespace_label: str = "namespace"  # `exported_namespace` where honorLabels is not set
    answer_bytes: int = 8 * 2**20
    workloads: int = 500  # of one query

    def __post_init__(self) -> None:
        for name in (*self.labels, self.namespace_label):
            if not _LABEL.fullmatch(name):
                raise ValueError(f"label must match {_LABEL.pattern}, was {name!r}")
        if self.answer_bytes < _BYTES_OF_POINT or self.workloads < 1:
            raise ValueError(f"answer_bytes and workloads must be positive, were {self.answer_bytes}, {self.workloads}")


class OwnHistory:
    """A HistoryStore over the series that Headway exports itself."""

    def __init__(self, source: RangeSource, settings: OwnSettings | None = None) -> None:
        """Ask `source`, which stays the caller's; one query at a time."""
        self._source = source
        self._settings = settings or OwnSettings()

    async def read(self, signal: HistorySignal, workloads: Sequence[WorkloadId], grid: Grid) -> HistoryBatch:
        """Return the past of workloads; what could not be asked is missing, and is in `problems`."""
        return await self._gather(partial(self._queries, signal), workloads, grid)

    async def seen(self, workloads: Sequence[WorkloadId], grid: Grid) -> HistoryBatch:
        """Return where demand was known in the five minutes before a point: some value there, and nothing elsewhere.

        It costs one sample of each series and point, where `read` has to look at all of a step's.
        """
        return await self._gather(self._looks, workloads, grid)

    async def _gather(self, queries: _Queries, workloads: Sequence[WorkloadId], grid: Grid) -> HistoryBatch:
        """Ask shard by shard and chunk by chunk."""
        values = {key: grid.unknown() for key in workloads}
        problems: list[str] = []
        ordered = sorted(values, key=lambda key: (key.namespace, key.name))
        for first in range(0, len(ordered), self._settings.workloads):
            shard = ordered[first : first + self._settings.workloads]
            for chunk in grid.chunks(self._points(len(shard))):
                place = (chunk.start_s - grid.start_s) // grid.step_s
                views = {key: values[key][place : place + chunk.count] for key in shard}
                problems += await self._fill(views, queries(shard, grid.step_s), chunk)
        return HistoryBatch(grid, {key: Series.on(grid, found) for key, found in values.items()}, tuple(problems))

    def _points(self, rows: int) -> int:
        return max(1, min(MAX_POINTS, self._settings.answer_bytes // (_BYTES_OF_POINT * rows)))

    async def _fill(self, views: Mapping[WorkloadId, Values], queries: Iterable[str], chunk: Grid) -> list[str]:
        """Fill in one chunk of a shard, and return what went wrong."""
        for query in queries:
            try:
                answer = await self._source.matrix(query, chunk)
            except SourceError as error:
                return [f"from {chunk.start_s} to {chunk.last_s}: {error}"]
            if answer.partial:  # what it has may be a part of what there was
                return [f"from {chunk.start_s} to {chunk.last_s}: partial answer: {answer.partial[0]}"]
            self._take(answer, views)
            if _seen(views).all():
                break
        return []

    def _queries(self, signal: HistorySignal, shard: Sequence[WorkloadId], step_s: int) -> Iterator[str]:
        """Yield the recorded series, then the exported ones: asked where a point has no recorded value at all."""
        kept = _KEPT[signal]
        by = f"{self._settings.namespace_label}, workload"
        among = self._matchers(shard)
        # A millisecond short: up to Prometheus 2 a window holds both its ends, and a sample would be in two steps.
        step_ms = step_s * 1000 - 1
        window = f"[{step_ms}ms]"  # rules are evaluated on time, to the millisecond
        recorded = f"{kept.recorded}{{{','.join(among)}}}{window}"
        over, merged = ("max_over_time", "max") if kept.peak else ("avg_over_time", "avg")
        yield f"{merged} by ({by}) ({over}({recorded}))"
        exported = f"{kept.exported}{{{','.join((*among, *kept.matchers))}}}"
        if kept.peak:
            yield f"max_over_time(({_mean(exported, by, self._window(60))})[{step_ms}ms:60s])"
        else:
            yield _mean(exported, by, self._window(step_s))

    def _looks(self, shard: Sequence[WorkloadId], step_s: int) -> Iterator[str]:  # noqa: ARG002  # the look-back's own
        kept = _KEPT[HistorySignal.DEMAND]
        among = ",".join(self._matchers(shard))
        by = f"max by ({self._settings.namespace_label}, workload)"
        yield f"{by} ({kept.recorded}{{{among}}}) or {by} ({kept.exported}{{{among}}})"

    def _window(self, step_s: int) -> str:
        return f"[{max(step_s * 1000, round(2000 * self._settings.scrape_interval_s)) - 1}ms]"

    def _matchers(self, shard: Sequence[WorkloadId]) -> tuple[str, ...]:
        return (
            *(f"{name}={quoted(value)}" for name, value in self._settings.labels.items()),
            f"{self._settings.namespace_label}=~{quoted(one_of(key.namespace for key in shard))}",
            f"workload=~{quoted(one_of(key.name for key in shard))}",
        )

    def _take(self, answer: RangeAnswer, views: Mapping[WorkloadId, Values]) -> None:
        """Put values where there are none yet. No signal is negative; rows of what was not asked for are dropped."""
        for row in answer.rows:
            key = WorkloadId(row.labels.get(self._settings.namespace_label, ""), row.labels.get("workload", ""))
            if (view := views.get(key)) is not None:
                np.copyto(view, row.values, where=np.isnan(view) & (row.values >= 0))


def _mean(series: str, by: str, window: str) -> str:
    """Return the mean of all samples of a workload within the window, whichever controllers exported them."""
    ranged = f"{series}{window}"
    return f"sum by ({by}) (sum_over_time({ranged})) / sum by ({by}) (count_over_time({ranged}))"


def _seen(views: Mapping[WorkloadId, Values]) -> NDArray[np.bool_]:
    """Return at which points any workload has a value."""
    known: NDArray[np.bool_] = np.any([~np.isnan(view) for view in views.values()], axis=0)
    return known


def recorded_names() -> frozenset[str]:
    """Return the names of recorded series that are read."""
    return frozenset(kept.recorded for kept in _KEPT.values())
