"""Asks a server the queries of one tick: all as of one moment of the server's own clock, and within one deadline."""

import asyncio
from dataclasses import dataclass
from typing import Protocol

from scaler.adapters.collection import Tick
from scaler.core.values import Reason
from scaler.ports import SourceError, VectorBatch

_NOW = "vector(time())"


class TimedQueries(Protocol):
    """A QuerySource that can be asked for a moment of its own. It bounds how many queries are under way at once."""

    async def vector(self, query: str, now_s: float, *, at_s: float | None = None) -> VectorBatch:
        """Return an instant vector as of `at_s`, or of the server's own present; SourceError when there is none."""
        ...


@dataclass(frozen=True, slots=True)
class Round:
    """The queries of one tick."""

    source: TimedQueries
    tick: Tick
    at_s: float | None  # what they are evaluated as of; None: the server's present
    deadline_s: float  # of the event loop's clock

    async def ask(self, query: str) -> VectorBatch:
        """Return the answer to a query; SourceError when there is none in time."""
        self.tick.fetches += 1
        try:
            async with asyncio.timeout_at(self.deadline_s):
                batch = await self.source.vector(query, self.tick.now_s, at_s=self.at_s)
        except TimeoutError:
            raise SourceError(Reason.SOURCE_TIMEOUT, "no answer within the time that a tick's queries have") from None
        self.tick.samples += len(batch.rows)
        return batch


class Server:
    """A server that aggregates. Whoever asks it in one tick asks in the same round."""

    def __init__(self, source: TimedQueries, deadline_s: float) -> None:
        """Ask `source`, which stays the caller's; all of a tick's queries within `deadline_s` of the wall."""
        self._source = source
        self._deadline_s = deadline_s
        self._begun: tuple[Tick, asyncio.Task[Round]] | None = None

    async def round_of(self, tick: Tick) -> Round:
        """Return the round of a tick; SourceError where the server does not even tell the time.

        A value and its time stamp are asked for in two queries. Were each evaluated when it arrives, a scrape between
        them would put the new time on the old value.
        """
        if self._begun is None or self._begun[0] is not tick:
            self._begun = (tick, asyncio.create_task(self._begin(tick)))
        return await asyncio.shield(self._begun[1])

    async def _begin(self, tick: Tick) -> Round:
        deadline_s = asyncio.get_running_loop().time() + self._deadline_s
        batch = await Round(self._source, tick, None, deadline_s).ask(_NOW)
        return Round(self._source, tick, batch.at_s, deadline_s)
