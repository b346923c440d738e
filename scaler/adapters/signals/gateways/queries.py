"""The queries of a gateway preset: a fixed number a tick, evaluated by the server, one row per route and namespace.

Three things that a plain `sum(rate(...))` gets wrong are dealt with here.
- The first request ever makes a series with one sample, which has no rate; yet it is the one that must wake a workload.
  So the whole value of a series counts that was not there a window ago on a target that was.
- A target that is scraped twice (two ports, two jobs, two Prometheus servers) would count twice: per pod the largest
  of the sums counts.
- Two names of one series would count twice: per target the first name counts.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from scaler.adapters.promql import one_of, quoted
from scaler.adapters.signals.gateways.presets import Flow, Gateway

TARGET_NAMESPACE = "namespace"  # of the target, set by service discovery; what a target says itself is `exported_`
_MAX_QUERY = 16_000  # characters, of which VictoriaMetrics takes 16 KB by default; a longer one asks for all routes
_TARGET = "on (job, instance)"
_Write = Callable[[str], str]  # from a series' name to an expression
_REPLICAS = ("prometheus", "prometheus_replica", "replica")  # what a pair of Prometheus servers adds to tell them apart


@dataclass(frozen=True, slots=True)
class Queries:
    """What to ask a tick. `waiting` is None where the gateway holds nothing back, or does not say so."""

    arrivals: str  # requests per second
    ages: str  # seconds since the oldest of the newest samples
    lost: str  # targets that spoke of the route a while ago, and do not answer now
    waiting: str | None

    @property
    def longest(self) -> int:
        """The length of the longest in characters."""
        return max(len(query) for query in (self.arrivals, self.ages, self.lost, self.waiting or ""))


def queries_of(gateway: Gateway, routes: Collection[tuple[str, str]], window_s: float, memory_s: float) -> Queries:
    """Return the queries for some routes: rates over `window_s`, lost targets of the last `memory_s` seconds."""
    for matchers in (_matchers(gateway, routes), ", ".join(gateway.where)):
        if len(matchers) < _MAX_QUERY:  # else not even written: it is there dozens of times
            queries = _Writer(gateway, matchers, window_s, memory_s).queries()
            if queries.longest <= _MAX_QUERY:
                return queries
    raise AssertionError("unreachable: without routes the queries are short")


def grouped_by(gateway: Gateway) -> tuple[str, ...]:
    """Return the labels of each row: the route, the target's namespace, and what else the preset needs."""
    return tuple(dict.fromkeys((*gateway.labels, *gateway.extra, TARGET_NAMESPACE)))


@dataclass(frozen=True, slots=True)
class _Writer:
    gateway: Gateway
    matchers: str
    window_s: float
    memory_s: float

    def queries(self) -> Queries:
        gateway = self.gateway
        held = " or ".join(self._firsts(gateway.waiting, self._selector))
        return Queries(
            arrivals=self._total(self._arrived()),
            ages=f"max by ({self._groups}) (time() - ({self._any(gateway.dated, self._stamped)}))",
            lost=f"count by ({self._groups}) ({self._any(gateway.dated, self._remembered)} and {_TARGET} (up == 0))",
            waiting=self._total(held) if held else None,
        )

    @property
    def _groups(self) -> str:
        return ", ".join(grouped_by(self.gateway))

    def _selector(self, name: str) -> str:
        return f"{name}{{{self.matchers}}}" if self.matchers else name

    def _stamped(self, name: str) -> str:
        return f"timestamp({self._selector(name)})"

    def _remembered(self, name: str) -> str:
        return f"count_over_time({self._selector(name)}[{_duration(self.memory_s)}])"

    def _any(self, names: tuple[str, ...], write: _Write) -> str:
        return f"({' or '.join(write(name) for name in names)})"

    def _firsts(self, names: tuple[str, ...], write: _Write) -> list[str]:
        """Write each name, less the targets that export an earlier one."""
        parts = []
        for i, name in enumerate(names):
            earlier = self._any(names[:i], self._selector)
            parts.append(f"({write(name)} unless {_TARGET} {earlier})" if i else f"({write(name)})")
        return parts

    def _arrived(self) -> str:
        """Write the parts of what arrived, told apart by a label: of equal ones `or` would keep the first."""
        parts = [
            f'label_replace({self._signed(flow)}, "part", "{i}", "", "")' for i, flow in enumerate(self.gateway.flows)
        ]
        if self.gateway.from_start:
            parts.append(f'label_replace({self._nothing()}, "part", "none", "", "")')
        return " or ".join(parts)

    def _signed(self, flow: Flow) -> str:
        change = " or ".join(self._firsts(flow.names, lambda name: self._change(name, gauge=flow.gauge)))
        return f"{'-' if flow.sign < 0 else ''}({change})"

    def _change(self, name: str, *, gauge: bool) -> str:
        """Write the change per second of each series: of one that is new since the window began, all of it."""
        series, window = self._selector(name), _duration(self.window_s)
        started = self._any(self.gateway.started, lambda other: f"{other} offset {window}")
        new = f"(({series} unless {series} offset {window}) and {_TARGET} {started}) / {self.window_s:g}"
        known = f"delta({series}[{window}]) / {self.window_s:g}" if gauge else f"rate({series}[{window}])"
        return f"({new} or {known})"

    def _nothing(self) -> str:
        """Write 0 for each target that has told of the route from its start, and has no counter of it."""
        names = [name for flow in self.gateway.flows for name in flow.names]
        told = self._any(self.gateway.dated, self._selector)
        counted = self._any(tuple(names), self._selector)
        return f"0 * ({told} unless on (job, instance, {', '.join(self.gateway.labels)}) {counted})"

    def _total(self, parts: str) -> str:
        """Write the sum over targets of what each says, the largest where it is scraped more than once.

        A retry is counted before its attempt, and a rate is extrapolated less than a growth: between two scrapes the
        sum of a target may be a little below zero, where nothing has arrived.
        """
        pod = f'label_join({parts}, "target", "|", "pod", "instance")'
        target = f'label_replace({pod}, "target", "$1", "target", "([^|]+)[|].*")'
        scraped = ", ".join((self._groups, "target", "job", "instance", *_REPLICAS))
        once = f"max by ({self._groups}, target) (clamp_min(sum by ({scraped}) ({target}), 0))"
        return f"sum by ({self._groups}) ({once})"


def _matchers(gateway: Gateway, routes: Collection[tuple[str, str]]) -> str:
    """Return matchers for the routes. What they let through besides is sorted out later."""
    first, second = gateway.labels
    names = one_of(name for _, name in routes)
    if gateway.by_host:  # such a name may be the whole host, and the namespace is not always told
        return ", ".join((*gateway.where, f"{second}=~{quoted(f'({names})([.].*)?')}"))
    namespaces = one_of(namespace for namespace, _ in routes)
    return ", ".join((*gateway.where, f"{first}=~{quoted(namespaces)}", f"{second}=~{quoted(names)}"))


def _duration(seconds: float) -> str:
    return f"{max(1, round(seconds * 1000))}ms"
