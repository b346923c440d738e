"""The PromQL of aggregates: expressions over series that are grouped by their owner.

An owner is named by a pair of labels. Some exporters have several such pairs; each is a case, and the rows of all cases
make one answer. Only what Prometheus 2.42, Thanos, Mimir and VictoriaMetrics share is used.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from scaler.adapters.promql import one_of, quoted
from scaler.adapters.signals.owners import UP

NAME = "__name__"
ASKED = "asked"  # the label that carries the name where the server drops it


@dataclass(frozen=True, slots=True)
class Case:
    """One pair of labels that may name the owner: what series are grouped by, and what they must have."""

    owner: tuple[str, str]
    matchers: tuple[str, ...]

    @property
    def by(self) -> tuple[str, ...]:
        """The owner, and the namespace of the target that says so."""
        return tuple(dict.fromkeys((*self.owner, "namespace")))


@dataclass(frozen=True, slots=True)
class Group:
    """Series that are taken together: of these names, with these labels, told apart by these parts."""

    names: tuple[str, ...]
    condition: tuple[str, ...] = ()  # matchers
    parts: tuple[str, ...] = ()

    def selector(self, case: Case, name: str = "") -> str:
        """Return a selector of the series of all names, or of one."""
        names = (name,) if name else self.names
        matcher = f"{NAME}={quoted(names[0])}" if len(names) == 1 else f"{NAME}=~{quoted(one_of(names))}"
        return "{" + ",".join((matcher, *self.condition, *case.matchers)) + "}"


Express = Callable[[Sequence[Group], Case], str]


def cases_of(owners: Sequence[tuple[str, str]], namespaces: Sequence[str]) -> tuple[Case, ...]:
    """Return the cases of owners in these namespaces. A series that an earlier pair names is not a later one's."""
    return tuple(
        Case(
            (namespace, pod),
            (_within(namespace, namespaces), f'{pod}!=""', *(f'{earlier}=""' for _, earlier in owners[:i])),
        )
        for i, (namespace, pod) in enumerate(owners)
    )


def in_all_cases(express: Callable[[Case], str], cases: Sequence[Case]) -> str:
    """Return the rows of all cases. Their labels differ, so that none hides another."""
    if len(cases) == 1:
        return express(cases[0])
    return " or ".join(f"({express(case)})" for case in cases)


def sums(groups: Sequence[Group], case: Case) -> str:
    """Return the sum over an owner's parts, by name; of the groups, the first that it has series in counts."""
    return _first_of(case, (_combined("sum", group, case) for group in groups))


def means(groups: Sequence[Group], case: Case) -> str:
    """Return the mean over an owner's parts, as `sums` does."""
    return _first_of(case, (_combined("avg", group, case) for group in groups))


def largest(groups: Sequence[Group], case: Case) -> str:
    """Return the largest part, by name, of owners that have several."""
    return f"{_by('max', (NAME, *case.by), _series(groups, case))} and on ({_list(case.by)}) ({several(groups, case)})"


def several(groups: Sequence[Group], case: Case) -> str:
    """Return the number of parts of owners that have more than one."""
    return f"{_by('count', case.by, _by('count', (*case.by, *groups[0].parts), _series(groups, case)))} > 1"


def oldest(groups: Sequence[Group], case: Case) -> str:
    """Return when the sample was taken of that part whose sample is the oldest.

    Each name is asked by itself: `timestamp` drops names, and an owner that exports two of them with equal labels would
    fail the query for all.
    """
    times = " or ".join(f"timestamp({group.selector(case, name)})" for group in groups for name in group.names)
    newest = _by("max", (*case.by, *groups[0].parts), times)
    return _by("min", case.by, newest) if groups[0].parts else newest


def total(groups: Sequence[Group], case: Case) -> str:
    """Return the sum of everything that an owner has, whatever its name."""
    return _by("sum", case.by, _series(groups, case))


def quantiles(quantile: float, window_ms: int, groups: Sequence[Group], case: Case) -> str:
    """Return a quantile of what an owner's histogram observed within a window, with the histogram's name in `ASKED`.

    Of the groups, each of one name, the first that the owner has series in counts.
    """

    def of(group: Group) -> str:
        (name,) = group.names
        rates = _by("max", (*case.by, *group.parts), f"rate({group.selector(case)}[{window_ms}ms])")
        value = f"histogram_quantile({quantile:g}, {_by('sum', (*case.by, 'le'), rates)})"
        return f'label_replace({value}, "{ASKED}", {quoted(name)}, "", "")'

    return _first_of(case, map(of, groups))


def unanswered(namespaces: Sequence[str]) -> str:
    """Return the pods of namespaces none of whose targets answered its newest scrape."""
    case = Case(("namespace", "pod"), (_within("namespace", namespaces), 'pod!=""'))
    return f"{_by('max', case.by, Group((UP,)).selector(case))} == 0"


def _combined(function: str, group: Group, case: Case) -> str:
    """Take series that agree in their parts as one thing seen twice, then combine the parts."""
    by = (NAME, *case.by)
    once = _by("max", (*by, *group.parts), group.selector(case))
    return _by(function, by, once) if group.parts else once


def _first_of(case: Case, expressions: Iterable[str]) -> str:
    return f" or on ({_list(case.by)}) ".join(expressions)


def _series(groups: Sequence[Group], case: Case) -> str:
    return " or ".join(group.selector(case) for group in groups)


def _within(label: str, namespaces: Sequence[str]) -> str:
    return f"{label}=~{quoted(one_of(namespaces))}" if namespaces else f'{label}!=""'


def _by(function: str, labels: Iterable[str], expression: str) -> str:
    return f"{function} by ({_list(labels)}) ({expression})"


def _list(labels: Iterable[str]) -> str:
    return ",".join(labels)
