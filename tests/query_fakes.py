"""A server that evaluates PromQL, as a test would have it: answers by what a query contains."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from scaler.core.values import Reason
from scaler.ports import SourceError, VectorBatch

Rows = list[tuple[Mapping[str, str], float]]
Fate = Rows | Reason | Exception | tuple[str, ...]  # rows, a failure, or warnings of an incomplete answer


@dataclass
class FakeQueries:
    """Answers each query as the first of its `fates` says that accepts it; else with no rows."""

    fates: list[tuple[Callable[[str], bool], Fate]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def when(self, accepts: Callable[[str], bool], fate: Fate) -> "FakeQueries":
        """Answer the queries that are accepted like this, rather than as told before."""
        self.fates.insert(0, (accepts, fate))
        return self

    def containing(self, text: str, fate: Fate) -> "FakeQueries":
        """Answer the queries that contain a text like this, rather than as told before."""
        return self.when(lambda query: text in query, fate)

    async def vector(self, query: str, now_s: float) -> VectorBatch:
        self.asked.append(query)
        fate = next((fate for accepts, fate in self.fates if accepts(query)), [])
        if isinstance(fate, Reason):
            raise SourceError(fate, "as told")
        if isinstance(fate, Exception):
            raise fate
        if isinstance(fate, tuple):
            return VectorBatch([], now_s, fate)
        return VectorBatch(fate, now_s)
