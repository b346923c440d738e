"""From rows to readings: which rows speak of a workload's route, who may say so, and what can be believed."""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from scaler.adapters.signals.gateways.presets import Gateway
from scaler.adapters.signals.gateways.queries import TARGET_NAMESPACE
from scaler.core.observation import GatewayReading
from scaler.core.values import Known, Missing, Reading, Reason, Stale

Row = tuple[Mapping[str, str], float]
Route = tuple[str, str]
_MOST = 1e7  # requests per second, or requests held: no route comes near it
_ROUNDING = 1e-9
_HOST = re.compile(r"([^.:]{1,63})\.([^.:]{1,63})\.svc(?:[.:].*)?")  # a service's name within a cluster


@dataclass(frozen=True, slots=True)
class Said:
    """What the targets of one namespace say of a route; `kind` tells apart what must not be added up."""

    namespace: str
    kind: str
    value: float


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows by route; or, where a query failed or its answer is incomplete, why nothing is known."""

    said: Mapping[Route, tuple[Said, ...]]
    absent: Reason | None = None

    def of(self, route: Route, trusted: "Trust") -> list[Said]:
        """Return what is said of a route by those who may."""
        return [said for said in self.said.get(route, ()) if trusted.accepts(said.namespace)]


@dataclass(frozen=True, slots=True)
class Trust:
    """Who may speak of a workload's route: targets in its own namespace, or where Headway scales nothing.

    A tenant's pods and sidecars can export anything, about anyone.
    """

    namespace: str
    tenant_namespaces: Collection[str]

    def accepts(self, target_namespace: str) -> bool:
        """Return whether a target that lives there may speak."""
        return target_namespace == self.namespace or target_namespace not in self.tenant_namespaces


def answer_of(gateway: Gateway, rows: Iterable[Row], wanted: Collection[Route]) -> Answer:
    """Sort rows by the routes that are wanted; the rest are other people's."""
    said: dict[Route, list[Said]] = {}
    for labels, value in rows:
        route = _route(gateway, labels)
        if route in wanted:
            said.setdefault(route, []).append(Said(labels.get(TARGET_NAMESPACE, ""), labels.get("reporter", ""), value))
    return Answer({route: tuple(these) for route, these in said.items()})


@dataclass(frozen=True, slots=True)
class Answers:
    """What a gateway's queries brought in one tick. `waiting` is None where the gateway holds nothing back."""

    arrivals: Answer
    ages: Answer
    lost: Answer
    waiting: Answer | None

    def reading(self, route: Route, trusted: Trust, share: float, limits: "Limits") -> GatewayReading:
        """Return the reading of a route, of which a `share` is this workload's."""
        arrivals = _value(self.arrivals, route, trusted, self._age(route, trusted, limits.rate_stale_after_s), None)
        if self.waiting is None:
            return GatewayReading(_times(arrivals, share))
        waiting = _value(self.waiting, route, trusted, self._age(route, trusted, limits.stale_after_s), 0.0)
        return GatewayReading(_times(arrivals, share), _times(waiting, share))

    def _age(self, route: Route, trusted: Trust, stale_after_s: float) -> Reading:
        """Return the age of the oldest that the answers are made of, or why they are no evidence.

        A target that does not answer took its part of the requests out of the sum: without it, the sum is too low.
        """
        if (reason := self.ages.absent or self.lost.absent) is not None:
            return Missing(reason)
        if any(said.value > 0 for said in self.lost.of(route, trusted)):
            return Missing(Reason.SOURCE_DOWN)
        ages = [said.value for said in self.ages.of(route, trusted)]
        if not ages:
            return Missing(Reason.NO_SERIES)
        if not all(math.isfinite(age_s) and age_s >= -stale_after_s for age_s in ages):
            return Missing(Reason.INVALID_VALUE)
        oldest_s = max(0.0, *ages)
        return Stale(oldest_s) if oldest_s > stale_after_s else Known(oldest_s, oldest_s)


@dataclass(frozen=True, slots=True)
class Limits:
    """How old samples may be.

    A rate over a window whose later half has no samples is too low, by up to as much: it would look like a fall.
    """

    window_s: float
    stale_after_s: float

    @property
    def rate_stale_after_s(self) -> float:
        """The age from which on a rate is no evidence."""
        return min(self.stale_after_s, self.window_s / 2)


def _value(answer: Answer, route: Route, trusted: Trust, age: Reading, without_rows: float | None) -> Reading:
    """Return the sum of what the trusted say; of several kinds of reporters the one that saw most counts."""
    if answer.absent is not None:
        return Missing(answer.absent)
    if not isinstance(age, Known):
        return age
    said = answer.of(route, trusted)
    if not said:
        return Missing(Reason.TOO_FEW_SAMPLES) if without_rows is None else Known(without_rows, age.age_s)
    return _believed(max(_sums(said)), age.age_s)


def _sums(said: Iterable[Said]) -> Iterator[float]:
    kinds: dict[str, list[float]] = {}
    for one in said:
        kinds.setdefault(one.kind, []).append(one.value)
    return (_sum(values) for values in kinds.values())


def _sum(values: Sequence[float]) -> float:
    """Return the sum, whatever the order; infinity where a value cannot be, so that it outdoes all other kinds."""
    return math.fsum(values) if all(-_MOST <= value <= _MOST for value in values) else math.inf


def _believed(value: float, age_s: float) -> Reading:
    if value > _MOST:
        return Missing(Reason.INVALID_VALUE)
    if value < -_ROUNDING:
        return Missing(Reason.NEGATIVE)
    return Known(max(0.0, value), age_s)


def _times(reading: Reading, share: float) -> Reading:
    return Known(reading.value * share, reading.age_s) if isinstance(reading, Known) else reading


def _route(gateway: Gateway, labels: Mapping[str, str]) -> Route:
    """Return the route that a row speaks of. The host says it best: it is told also where there is no endpoint."""
    if gateway.by_host and (host := _HOST.fullmatch(labels.get("destination_service", ""))):
        return host[2], host[1]
    first, second = gateway.labels
    return labels.get(first, ""), labels.get(second, "")
