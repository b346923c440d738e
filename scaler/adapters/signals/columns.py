"""One tick of one preset in columns: what the server's rows say of each pod, and why there is nothing to be read.

A pod is a position, a name is a column. A row costs three look-ups and one assignment; everything after that is
arithmetic on whole columns.
"""

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from scaler.adapters.signals.aggregates import Query, Role
from scaler.adapters.signals.owners import owner_of
from scaler.adapters.signals.windows import Flags, Positions
from scaler.core.values import Reason

Codes = npt.NDArray[np.int8]
Rows = Iterable[tuple[Mapping[str, str], float]]
_Value = TypeVar("_Value")
KNOWN: Final = 0
STALE: Final = 1
REASONS: Final = tuple(Reason)
FIRST_REASON: Final = 2  # the code of the first of them
_CODES: Final = {reason: code for code, reason in enumerate(REASONS, start=FIRST_REASON)}
# Of a pod that has no row. No measurement is this number; one that were would be below 0, which is no value either.
ABSENT: Final = -sys.float_info.max


def code_of(reason: Reason) -> int:
    """Return the code of a reason in columns of codes."""
    return _CODES[reason]


Groups = tuple[tuple[str, Sequence[str]], ...]  # of pods: a namespace, and names


class Pods:
    """The pods of groups in a fixed order, found by namespace and name. A pod that two groups name is one."""

    def __init__(self, groups: Groups = ()) -> None:
        self.groups = groups
        self.owners = tuple(dict.fromkeys((namespace, pod) for namespace, names in groups for pod in names))
        self.names = tuple(pod for _, pod in self.owners)
        self.found: dict[str, dict[str, int]] = {}
        for position, (namespace, pod) in enumerate(self.owners):
            self.found.setdefault(namespace, {})[pod] = position

    def of_groups(self, values: Sequence[_Value]) -> Iterator[tuple[_Value, ...]]:
        """Yield, for each group, its pods' values out of those of all pods."""
        if len(self) == sum(len(names) for _, names in self.groups):  # no pod is in two: they follow each other
            start = 0
            for _, names in self.groups:
                yield tuple(values[start : start + len(names)])
                start += len(names)
            return
        for namespace, names in self.groups:
            yield tuple(values[self.found[namespace][pod]] for pod in names)

    def __len__(self) -> int:
        return len(self.owners)

    def positions_in(self, before: "Pods") -> Positions:
        """Return where each of these pods was in an earlier order; -1 where it was not."""
        nowhere: Mapping[str, int] = {}
        return np.array([before.found.get(n, nowhere).get(pod, -1) for n, pod in self.owners], dtype=np.intp)

    def of_namespaces(self, namespaces: Collection[str]) -> list[int]:
        """Return the positions of the pods in these namespaces."""
        return [position for n in namespaces if n in self.found for position in self.found[n].values()]


class Table:
    """What came of a preset in a tick. A column is there once a row of it came."""

    def __init__(self, pods: Pods) -> None:
        self.pods = pods
        self.columns: dict[int, list[float]] = {}
        self.beside: dict[Role, list[float]] = {}  # times, numbers of parts, motion
        self.quantiles: dict[int, list[float]] = {}  # of columns that are seldom asked
        self.down: Flags = np.zeros(len(pods), dtype=np.bool_)  # none of whose targets answered
        self.asked: Flags = np.zeros(len(pods), dtype=np.bool_)  # of which histograms were asked for
        self.partial: Flags = np.zeros(len(pods), dtype=np.bool_)  # whose rows may lack what the server did not have
        self.absent: Codes = np.full(len(pods), code_of(Reason.NO_SERIES), dtype=np.int8)  # why a pod has no row

    def take(self, query: Query, rows: Rows, namespaces: Collection[str]) -> None:
        """Take the rows that a query had for pods in these namespaces. One of no pod that is there is dropped."""
        if not query.columns:
            self._take_one(self.beside.setdefault(query.role, self._new()), rows)
            return
        kept = self.quantiles if query.role is Role.QUANTILES else self.columns
        if query.role is Role.QUANTILES:
            self.asked[self.pods.of_namespaces(namespaces)] = True
        self._take_named(_Filled(kept, query.columns, len(self.pods)), query.label, rows)

    def take_down(self, rows: Rows) -> None:
        """Take the rows about pods of which no target answered."""
        found = self.pods.found
        for labels, _ in rows:
            position = found.get(labels.get("namespace", ""), {}).get(labels.get("pod", ""))
            if position is not None:
                self.down[position] = True

    def fail(self, namespaces: Collection[str], reason: Reason) -> None:
        """Say why pods of these namespaces may lack rows; or parts of what their rows are sums of."""
        positions = self.pods.of_namespaces(namespaces)
        self.absent[positions] = code_of(reason)
        self.partial[positions] |= reason is Reason.PARTIAL_ANSWER

    def drop(self, namespaces: Collection[str], reason: Reason) -> None:
        """Take nothing of what came of these namespaces, for a reason: half of it could be taken for the whole."""
        positions = self.pods.of_namespaces(namespaces)
        for column in (*self.columns.values(), *self.beside.values()):
            for position in positions:
                column[position] = ABSENT
        self.fail(namespaces, reason)

    def seen(self) -> Flags:
        """Return of which pods anything came."""
        seen = np.zeros(len(self.pods), dtype=np.bool_)
        for column in (*self.columns.values(), *self.beside.values()):
            seen |= np.array(column) != ABSENT
        return seen

    def _new(self) -> list[float]:
        return [ABSENT] * len(self.pods)

    def _take_named(self, columns: Mapping[str, list[float]], label: str, rows: Rows) -> None:
        found = self.pods.found
        for labels, value in rows:
            try:
                columns[labels[label]][found[labels["namespace"]][labels["pod"]]] = value
            except KeyError:  # of a pod that is gone, or of none
                continue

    def _take_one(self, column: list[float], rows: Rows) -> None:
        found = self.pods.found
        for labels, value in rows:
            try:
                column[found[labels["namespace"]][labels["pod"]]] = value
            except KeyError:  # as above
                continue


class _Filled(dict[str, list[float]]):
    """Columns by name, each made when its first row comes."""

    def __init__(self, kept: dict[int, list[float]], numbers: Mapping[str, int], pods: int) -> None:
        super().__init__()
        self._kept, self._numbers, self._pods = kept, numbers, pods

    def __missing__(self, name: str) -> list[float]:
        column = self._kept.setdefault(self._numbers[name], [ABSENT] * self._pods)
        self[name] = column
        return column


Speakers = Mapping[int, str]  # for pods: the namespace of the targets that are believed about it


def speakers(pods: Pods, times: Rows, owner_labels: Sequence[tuple[str, str]], tenants: Collection[str]) -> Speakers:
    """Return who is believed about each pod: see `owners.trusted`. Of several outsiders the one with the newest sample.

    `times` are the rows that say when samples were taken.
    """
    heard: dict[int, tuple[bool, float, str]] = {}
    for position, target, _, at_s in _about(pods, times, owner_labels):
        own = target == pods.owners[position][0]
        if own or target not in tenants:
            claim = (own, at_s, target)
            heard[position] = max(claim, heard.get(position, claim))
    return {position: target for position, (_, _, target) in heard.items()}


def spoken(pods: Pods, owner_labels: Sequence[tuple[str, str]], believed: Speakers, rows: Rows) -> Rows:
    """Yield the rows that are believed, under the labels of the pod that they speak of."""
    for position, target, labels, value in _about(pods, rows, owner_labels):
        if target == believed.get(position):
            namespace, pod = pods.owners[position]
            yield {**labels, "namespace": namespace, "pod": pod}, value


def _about(
    pods: Pods, rows: Rows, owner_labels: Sequence[tuple[str, str]]
) -> Iterator[tuple[int, str, Mapping[str, str], float]]:
    """Yield rows about pods that are there: where the pod is, the namespace of the target that says so, and the row."""
    for labels, value in rows:
        owner = owner_of(labels, owner_labels)
        if owner is not None and (position := pods.found.get(owner[0], {}).get(owner[1])) is not None:
            yield position, labels.get("namespace", ""), labels, value
