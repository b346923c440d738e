"""Asks for each gateway preset in use, once a tick, and makes the readings of all workloads that have a route."""

import asyncio
from collections.abc import Collection, Iterable, Mapping

from scaler.adapters.collection import SourceFailure
from scaler.adapters.signals.gateways.answers import Answer, Answers, Limits, Route, Trust, answer_of
from scaler.adapters.signals.gateways.presets import GATEWAYS, Gateway
from scaler.adapters.signals.gateways.queries import queries_of
from scaler.config.models import DecisionSettings, SourceRef, WorkloadSettings
from scaler.core.observation import GatewayReading
from scaler.core.values import Reason, WorkloadId
from scaler.ports import QuerySource, SourceError


class GatewayCollector:
    """Readings of gateways' routes. `failures`, `queries` and `rows` are those of the last tick."""

    def __init__(self, source: QuerySource, decision: DecisionSettings) -> None:
        """Ask `source`, which stays the caller's. Rates are taken over the decision's rate window."""
        self._source = source
        self._decision = decision
        self.failures: tuple[SourceFailure, ...] = ()
        self.queries = 0
        self.rows = 0

    async def readings(
        self, workloads: Iterable[WorkloadSettings], tenant_namespaces: Collection[str], now_s: float
    ) -> Mapping[WorkloadId, GatewayReading]:
        """Return what is known of the route of each workload that has one. Raises nothing: what fails is Missing."""
        routed = _by_preset(workloads)
        round_ = _Round(self._source, now_s)
        answers = await asyncio.gather(
            *(self._ask(round_, GATEWAYS[name], mine.values()) for name, mine in routed.items())
        )
        self.failures, self.queries, self.rows = tuple(round_.failures), round_.queries, round_.rows
        limits = Limits(self._decision.rate_window_s, self._decision.stale_after_s)
        return {
            key: found.reading(ref.identity, Trust(key.namespace, tenant_namespaces), ref.share, limits)
            for found, mine in zip(answers, routed.values(), strict=True)
            for key, ref in mine.items()
        }

    async def _ask(self, round_: "_Round", gateway: Gateway, refs: Iterable[SourceRef]) -> Answers:
        routes = frozenset(ref.identity for ref in refs)
        queries = queries_of(gateway, routes, self._decision.rate_window_s, self._decision.evidence_ttl_s)
        arrivals, ages, lost, waiting = await asyncio.gather(
            round_.ask(gateway, queries.arrivals, routes),
            round_.ask(gateway, queries.ages, routes),
            round_.ask(gateway, queries.lost, routes),
            round_.ask(gateway, queries.waiting, routes) if queries.waiting else _nothing(),
        )
        return Answers(arrivals, ages, lost, waiting if queries.waiting else None)


class _Round:
    """The questions of one tick, and what became of them."""

    def __init__(self, source: QuerySource, now_s: float) -> None:
        self._source = source
        self._now_s = now_s
        self.failures: list[SourceFailure] = []
        self.queries = 0
        self.rows = 0

    async def ask(self, gateway: Gateway, query: str, routes: Collection[Route]) -> Answer:
        """Ask one query. One that fails, or whose answer is incomplete, makes what depends on it Missing."""
        self.queries += 1
        try:
            batch = await self._source.vector(query, self._now_s)
            self.rows += len(batch.rows)
            answer = answer_of(gateway, batch.rows, routes)
        except SourceError as error:
            return self._failed(gateway, error.reason, str(error))
        except Exception as error:  # noqa: BLE001  # the loop's edge: an answer that cannot be read is none
            return self._failed(gateway, Reason.INVALID_VALUE, f"unexpected {type(error).__name__}: {error}")
        if batch.partial:
            return self._failed(gateway, Reason.PARTIAL_ANSWER, "; ".join(batch.partial))
        return answer

    def _failed(self, gateway: Gateway, reason: Reason, message: str) -> Answer:
        self.failures.append(SourceFailure(gateway.name, reason, message))
        return Answer({}, reason)


async def _nothing() -> Answer:
    return Answer({})


def _by_preset(workloads: Iterable[WorkloadSettings]) -> dict[str, dict[WorkloadId, SourceRef]]:
    """Sort the routes of workloads by gateway. What is no gateway's (a queue) is left to others."""
    routed: dict[str, dict[WorkloadId, SourceRef]] = {}
    for workload in workloads:
        ref = workload.demand_source
        if ref is not None and ref.preset in GATEWAYS:
            routed.setdefault(ref.preset, {})[WorkloadId(workload.namespace, workload.name)] = ref
    return dict(sorted(routed.items()))
