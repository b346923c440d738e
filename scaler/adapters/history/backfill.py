"""The first history of a new installation: asked piece by piece, newest first, never in the way of anything else.

One query at a time, with a pause after each that is as long as its samples cost at the rate allowed. A query that fails
goes to the end and is asked again, with a growing pause. Whoever starts it may cancel it at any time: what was answered
is kept, and is not asked again. An answer without any value is not kept: it may have been an outage.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Protocol

import numpy as np
import structlog

from forecasting.series import Grid
from scaler.adapters.history.joins import OWNER, PastTarget, served_query, served_signal
from scaler.adapters.history.kept import KeptHistory, Past
from scaler.adapters.history.ranges import RangeAnswer, RangeSource
from scaler.core.history import HistoryBatch
from scaler.core.values import Reason, WorkloadId
from scaler.ports import SourceError

_log = structlog.get_logger(__name__)
STEP_S = 300
PIECE_S = 6 * 3600
_GUESSED_SAMPLES = 4000  # of a workload and point, where the server does not tell: 10 pods, 20 series, 20 scrapes
_LOOK_S = 3600  # between looks at whether own series were there
_LOOKED_AT = 500  # workloads at once


@dataclass(frozen=True, slots=True)
class BackfillSettings:
    """How far back, and how fast."""

    lookback_s: float = 14 * 86_400.0
    samples_per_minute: int = 2_000_000
    pause_s: float = 1.0  # after every query, at least
    backoff_s: float = 10.0  # after the first failure in a row; doubles
    longest_backoff_s: float = 900.0
    attempts: int = 5  # of one query in one run
    targets: int = 100  # of one query
    labels: Mapping[str, str] = field(default_factory=dict)  # on every series of this cluster

    def pause_after(self, samples: int) -> float:
        """Return the seconds that samples take at the rate allowed."""
        return max(self.pause_s, 60.0 * samples / self.samples_per_minute)

    def backoff_after(self, failures: int) -> float:
        """Return the seconds to wait after so many failures in a row."""
        return float(min(self.longest_backoff_s, self.backoff_s * 2.0 ** min(failures - 1, 32)))


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a backfill is, in queries. `unsupported` are workloads whose past cannot be told from pods."""

    total: int = 0
    answered: int = 0
    empty: int = 0  # of the answered: without any value
    given_up: int = 0
    unsupported: tuple[WorkloadId, ...] = ()
    problem: str = ""  # the latest
    full: bool = False  # the folder has no room for anything older

    def __str__(self) -> str:
        text = (
            f"{self.answered} of {self.total} queries answered, {self.empty} without values, {self.given_up} given up"
        )
        return f"{text}; {self.problem}" if self.problem else text


class OwnSeries(Protocol):
    """What Headway has exported itself."""

    async def seen(self, workloads: Sequence[WorkloadId], grid: Grid) -> HistoryBatch:
        """Return some value where demand is known at a point. Never raises."""
        ...


@dataclass(slots=True)
class _Query:
    begin_s: int
    targets: tuple[PastTarget, ...]
    failures: int = 0


class Backfill:
    """Fills a KeptHistory with what own series do not have. To be run by the leader only; one run at a time."""

    def __init__(
        self,
        source: RangeSource,
        own: OwnSeries,
        kept: KeptHistory,
        settings: BackfillSettings,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Ask `source` for what `own` lacks. `pause` waits for seconds of the wall."""
        self._source = source
        self._own = own
        self._kept = kept
        self._settings = settings
        self._pause = pause
        self.progress = Progress()

    async def run(self, targets: Sequence[PastTarget], now_s: float) -> Progress:
        """Ask for all whole pieces of the look-back that are lacking. StoreError where nothing can be kept.

        A source that fails is told in the result, and never raised. Run it again for what was given up, and for
        workloads that are new: only what is lacking is asked.
        """
        await asyncio.to_thread(self._kept.prune, now_s - self._settings.lookback_s)
        supported = [target for target in targets if served_signal(target.engine, target.unit) is not None]
        self._kept.identify({target.workload: target.identity for target in supported})
        unsupported = tuple(t.workload for t in targets if served_signal(t.engine, t.unit) is None)
        self.progress = Progress(unsupported=unsupported)
        queries = deque(await self._lacking(supported, now_s))
        self.progress = replace(self.progress, total=len(queries))
        _log.info("backfill_begins", queries=len(queries), unsupported=len(unsupported), detail=self.progress.problem)
        await self._ask_all(queries)
        _log.info("backfill_ends", progress=str(self.progress), full=self.progress.full)
        return self.progress

    async def _lacking(self, targets: Sequence[PastTarget], now_s: float) -> list[_Query]:
        """Return the queries for what neither store has, newest first."""
        size = self._kept.piece_s
        first, last = -int(-(now_s - self._settings.lookback_s) // size), int(now_s // size)
        begins = [number * size for number in range(last - 1, first - 1, -1)]
        own = await self._covered([target.workload for target in targets], begins) if begins else {}
        groups = list(_groups(targets, self._settings.targets))
        queries = (
            _Query(begin_s, tuple(target for target in group if self._lacks(target, begin_s, own)))
            for begin_s in begins
            for group in groups
        )
        return [query for query in queries if query.targets]

    def _lacks(self, target: PastTarget, begin_s: int, own: Mapping[WorkloadId, set[int]]) -> bool:
        if begin_s in own.get(target.workload, ()):
            return False
        return not self._kept.has(target.workload, target.identity, begin_s)

    async def _covered(self, keys: Sequence[WorkloadId], begins: Sequence[int]) -> dict[WorkloadId, set[int]]:
        """Return the pieces in every hour of which own series have demand. Where they cannot be read, that is none."""
        size = self._kept.piece_s
        grid = Grid.between(begins[-1], begins[0] + size, min(_LOOK_S, size))
        covered: dict[WorkloadId, set[int]] = {}
        waiting = iter(keys)
        while batch_keys := list(islice(waiting, _LOOKED_AT)):
            batch = await self._own.seen(batch_keys, grid)
            if batch.problems:
                self.progress = replace(self.progress, problem=batch.problems[0])
            for key, series in batch.series.items():
                gaps = np.isnan(series.values).reshape(len(begins), -1).sum(axis=1)
                covered[key] = {begin_s for begin_s, gap in zip(reversed(begins), gaps, strict=True) if not gap}
            await self._pause(self._settings.pause_after(2 * grid.count * len(batch_keys)))
        return covered

    async def _ask_all(self, queries: deque[_Query]) -> None:
        failures = 0
        while queries and not self.progress.full:
            query = queries.popleft()
            try:
                answer = await self._ask(query)
            except SourceError as error:
                failures += 1
                query.failures += 1
                self._note(query, str(error))
                queries.extend(self._again(query, alone=failures <= query.failures))
                await self._pause(self._settings.backoff_after(failures))
            else:
                failures = 0
                await self._keep(query, answer)
                await self._pause(self._settings.pause_after(self._cost(query, answer)))

    def _again(self, query: _Query, *, alone: bool) -> list[_Query]:
        """Return what is asked in place of a query that failed: in halves where it fails `alone`, for the second time.

        Where no other one failed since, the server is well, and the query may be too large for it.
        """
        if query.failures >= self._settings.attempts:
            return []
        if not alone or query.failures < 2 or len(query.targets) < 2:
            return [query]
        self.progress = replace(self.progress, total=self.progress.total + 1)
        middle = len(query.targets) // 2
        return [_Query(query.begin_s, half) for half in (query.targets[:middle], query.targets[middle:])]

    async def _ask(self, query: _Query) -> RangeAnswer:
        """Return a whole answer; SourceError when there is none."""
        text = served_query(query.targets, self._kept.step_s, self._settings.labels)
        answer = await self._source.matrix(text, self._kept.piece(query.begin_s))
        if answer.partial:
            raise SourceError(Reason.PARTIAL_ANSWER, f"partial answer: {answer.partial[0]}")
        return answer

    def _note(self, query: _Query, problem: str) -> None:
        given_up = self.progress.given_up + (query.failures >= self._settings.attempts)
        self.progress = replace(self.progress, problem=problem, given_up=given_up)
        _log.warning(
            "backfill_failed", namespace=query.targets[0].workload.namespace, begin_s=query.begin_s, detail=problem
        )

    async def _keep(self, query: _Query, answer: RangeAnswer) -> None:
        """Keep what was found; workloads without a value are kept as unknown where others have some."""
        grid = self._kept.piece(query.begin_s)
        rows = {row.labels.get(OWNER, ""): np.where(row.values >= 0, row.values, np.nan) for row in answer.rows}
        found = {t.workload: Past(t.identity, rows.get(t.name, grid.unknown())) for t in query.targets}
        empty = all(np.isnan(past.values).all() for past in found.values())
        kept = empty or await asyncio.to_thread(self._kept.put, query.begin_s, found)
        done = self.progress
        self.progress = replace(done, answered=done.answered + 1, empty=done.empty + empty, full=not kept)
        if self.progress.answered * 10 // done.total > done.answered * 10 // done.total:
            _log.info("backfill", progress=str(self.progress))

    def _cost(self, query: _Query, answer: RangeAnswer) -> int:
        if answer.samples is not None:
            return answer.samples
        return _GUESSED_SAMPLES * len(query.targets) * self._kept.piece(query.begin_s).count


def _groups(targets: Sequence[PastTarget], most: int) -> Iterator[Sequence[PastTarget]]:
    """Yield targets that one query can be about."""
    groups: dict[tuple[str, str, str, str], list[PastTarget]] = defaultdict(list)
    for target in targets:
        groups[target.together].append(target)
    for _, members in sorted(groups.items()):
        ordered = sorted(members, key=lambda target: target.name)
        for first in range(0, len(ordered), most):
            yield ordered[first : first + most]
