"""A preset as queries that the server aggregates: a fixed number of them, whatever the number of workloads and pods.

Fetching 35 series of each of 100,000 pods is more than a tick has time for; the server sums them where they are. Its
answer has one row for each pod and name. Values of an instant query look as fresh as their evaluation, so one more
query asks when the samples were taken: all series of a pod come from one scrape.

What comes beside is rare: the number of parts, and the largest, only of pods that have several. Sums let NaN and
infinities through, which a maximum would hide; so a signal that is the largest of its parts is asked as a sum too.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import lru_cache, partial
from itertools import groupby

from scaler.adapters.promql import quoted
from scaler.adapters.signals.candidates import Candidate, Combine, Kind, Preset, Signal
from scaler.adapters.signals.grouping import (
    ASKED,
    NAME,
    Express,
    Group,
    cases_of,
    in_all_cases,
    largest,
    means,
    oldest,
    quantiles,
    several,
    sums,
    total,
)
from scaler.config.models import Unit

_MARK = "\N{BULLET}"  # in no name


class Role(Enum):
    """What the rows of a query are."""

    VALUES = auto()  # of each pod, by name
    LARGEST = auto()  # the largest part, by name, of pods with several
    TIMES = auto()  # Unix seconds of the oldest part's sample
    PARTS = auto()  # how many parts, of pods with several
    MOTION = auto()  # a sum of counters, which changes while the engine works
    QUANTILES = auto()  # of histograms, by name; seldom asked


@dataclass(frozen=True, slots=True)
class Query:
    """One query. A row's value goes to the column that its name, in `label`, stands for; where there are names."""

    role: Role
    text: str
    columns: Mapping[str, int] = field(default_factory=dict)
    label: str = NAME


@dataclass(frozen=True, slots=True)
class Option:
    """A candidate of a signal, and the columns that hold what it needs."""

    candidate: Candidate
    kind: Kind
    column: int
    per: int | None = None  # of a ratio: the counter that is divided by
    largest: int | None = None  # of a maximum: what pods with several parts have


@dataclass(frozen=True, slots=True)
class Asked:
    """A signal that is asked for, and its options, in the order in which they count."""

    signal: Signal
    options: tuple[Option, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is asked for a preset, and which column means what. Columns are numbered from 0."""

    preset: Preset
    signals: tuple[Asked, ...]
    progress: tuple[int, ...]  # columns of counters that move while the engine works
    each_tick: tuple["_Ask", ...]
    now_and_then: tuple["_Ask", ...]  # histograms

    def queries(self, namespaces: Sequence[str]) -> tuple[Query, ...]:
        """Return the queries of every tick, for owners in these namespaces (none given: everywhere)."""
        cases = cases_of(self.preset.owners, namespaces)
        return tuple(
            Query(ask.role, in_all_cases(partial(ask.express, ask.groups), cases), ask.columns)
            for ask in self.each_tick
        )

    def seldom(self, namespaces: Sequence[str], quantile: float, window_ms: int) -> tuple[Query, ...]:
        """Return the queries for quantiles of what histograms observed within a window."""
        cases = cases_of(self.preset.owners, namespaces)
        return tuple(
            Query(
                ask.role, in_all_cases(partial(quantiles, quantile, window_ms, ask.groups), cases), ask.columns, ASKED
            )
            for ask in self.now_and_then
        )

    def room(self, limit: int) -> int:
        """Return how long a list of namespaces may be, in characters, so that no query is longer than `limit`."""
        queries = (*self.queries((_MARK,)), *self.seldom((_MARK,), 0.0123456789, 86_400_000))
        return min((limit - len(query.text)) // query.text.count(_MARK) for query in queries)


@dataclass(frozen=True, slots=True)
class _Ask:
    """What is asked in one query. Of its groups, the first that a pod has series in counts."""

    role: Role
    groups: tuple[Group, ...]
    express: Express
    columns: Mapping[str, int] = field(default_factory=dict)


@lru_cache(maxsize=64)
def plan_of(preset: Preset, units: frozenset[Unit]) -> Plan:
    """Return the plan for a preset whose workloads are counted in these units."""
    numbers = _Numbers()
    # All are numbered, wanted or not: what is remembered of a column must not become another's when units change.
    known = [Asked(signal, tuple(_option(signal, c, numbers) for c in signal.candidates)) for signal in preset.signals]
    signals = tuple(asked for asked in known if asked.signal.unit is None or asked.signal.unit in units)
    wanted = [asked.signal for asked in signals]
    return Plan(
        preset,
        signals,
        progress=tuple(o.column for asked in signals if asked.signal.progress for o in asked.options),
        each_tick=(*_values(wanted, numbers), *_largest(wanted, numbers), *_beside(preset, wanted)),
        now_and_then=tuple(_histograms(wanted, numbers)),
    )


class _Numbers(dict[tuple[object, str], int]):
    """Numbers columns by the query and the name that fill them."""

    def of(self, query: object, names: Iterable[str]) -> dict[str, int]:
        """Return the numbers of columns; a new one for what was not there."""
        return {name: self.setdefault((query, name), len(self)) for name in names}


def _option(signal: Signal, candidate: Candidate, numbers: _Numbers) -> Option:
    kind = signal.kind_of(candidate)
    own = numbers.of(_query_of(signal, kind), candidate.names())
    biggest = numbers.of(("largest", signal.field), (candidate.name,)) if _is_largest(signal, kind) else {}
    per = None if candidate.per is None else own[candidate.per]
    return Option(candidate, kind, own[candidate.name], per, biggest.get(candidate.name))


def _query_of(signal: Signal, kind: Kind) -> tuple[object, ...]:
    """Return what tells queries apart. Sums of signals without conditions share one where their parts are the same."""
    if kind is Kind.HISTOGRAM:
        return "quantiles", signal.field
    if _is_mean(signal, kind) or any(candidate.where or candidate.having for candidate in signal.candidates):
        return "own", signal.field
    return "sums", signal.parts


def _values(signals: Iterable[Signal], numbers: _Numbers) -> Iterator[_Ask]:
    members: dict[tuple[object, ...], list[tuple[Signal, Candidate]]] = {}
    for signal in signals:
        for candidate in signal.candidates:
            query = _query_of(signal, signal.kind_of(candidate))
            members.setdefault(query, []).append((signal, candidate))
    for query, taken in members.items():
        signal, candidate = taken[0]
        if query[0] == "quantiles":
            continue
        mean = _is_mean(signal, signal.kind_of(candidate))
        groups = _groups((c for _, c in taken), signal.parts, alone=mean)
        columns = numbers.of(query, (name for group in groups for name in group.names))
        yield _Ask(Role.VALUES, groups, means if mean else sums, columns)


def _largest(signals: Iterable[Signal], numbers: _Numbers) -> Iterator[_Ask]:
    for signal in signals:
        candidates = [c for c in signal.candidates if _is_largest(signal, signal.kind_of(c))]
        if candidates and signal.parts:
            columns = numbers.of(("largest", signal.field), (c.name for c in candidates))
            yield _Ask(Role.LARGEST, _groups(candidates, signal.parts), largest, columns)


def _histograms(signals: Iterable[Signal], numbers: _Numbers) -> Iterator[_Ask]:
    for signal in signals:
        candidates = [c for c in signal.candidates if signal.kind_of(c) is Kind.HISTOGRAM]
        if candidates:
            columns = numbers.of(("quantiles", signal.field), (c.name for c in candidates))
            yield _Ask(Role.QUANTILES, _groups(candidates, signal.parts, alone=True), sums, columns)


def _beside(preset: Preset, wanted: Sequence[Signal]) -> Iterator[_Ask]:
    """Yield what is asked beside the signals: when, how many parts, and whether the engine moves."""
    dating = next((signal for signal in preset.signals if signal.field == "running"), preset.signals[0])
    groups = _groups(dating.candidates, dating.parts)
    yield _Ask(Role.TIMES, groups, oldest)
    if dating.parts:
        yield _Ask(Role.PARTS, groups, several)
    moving = [c for signal in preset.progress() if signal not in wanted for c in signal.candidates]
    if moving:
        yield _Ask(Role.MOTION, _groups(moving, ()), total)


def _groups(candidates: Iterable[Candidate], parts: tuple[str, ...], *, alone: bool = False) -> tuple[Group, ...]:
    """Return groups of candidates that follow each other under the same conditions; or each of them `alone`."""
    grouped = groupby(candidates, key=lambda c: (_condition(c), c.name if alone else ""))
    return tuple(
        Group(tuple(dict.fromkeys(name for c in alike for name in c.names())), condition, parts)
        for (condition, _), alike in grouped
    )


def _condition(candidate: Candidate) -> tuple[str, ...]:
    must = (f"{label}={quoted(value)}" for label, value in candidate.where)
    return (*must, *(f'{label}!=""' for label in candidate.having))


def _is_mean(signal: Signal, kind: Kind) -> bool:
    return signal.combine is Combine.MEAN and kind is Kind.GAUGE


def _is_largest(signal: Signal, kind: Kind) -> bool:
    return signal.combine is Combine.MAX and kind is Kind.GAUGE
