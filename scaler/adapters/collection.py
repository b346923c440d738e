"""What collecting metrics did: for the controller's own metrics and logs, and for whoever asks why nothing is seen.

A `Fleet` says what is collected for, a `Tick` takes down what happens meanwhile, `CollectionStats` tell of it.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from scaler.adapters.signals.candidates import Preset
from scaler.adapters.signals.owners import Owner
from scaler.adapters.signals.presets import ENGINES, PER_QUEUE
from scaler.config.models import WorkloadSettings
from scaler.core.values import Reason, WorkloadId
from scaler.ports import SourceError

_MAX_PROBLEMS = 10
_MAX_CHARACTERS = 300
_USER = re.compile(r"(?<=://)[^/\s]*@")
_QUERY = re.compile(r"(://[^\s?#]*)[?#]\S*")


@dataclass(frozen=True, slots=True)
class SourceFailure:
    """A fetch, or the cluster view, or the reading of an answer, that failed in a tick; or an incomplete answer."""

    what: str  # a preset's name, or `cluster`
    reason: Reason
    message: str

    def line(self) -> str:
        """Return it as one short line. What a URL may hold of credentials is left out."""
        message = _QUERY.sub(r"\1", _USER.sub("", " ".join(self.message.split())))
        return f"{self.what}: {self.reason}: {message}"[:_MAX_CHARACTERS]


@dataclass(frozen=True, slots=True)
class CollectionStats:
    """What one tick's collection did, and the totals up to then."""

    at_s: float = 0.0
    seconds: float | None = None  # of the wall; None before the first tick
    fetches: int = 0
    samples: int = 0
    matched: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # signal -> metric names that carried it
    failures: tuple[SourceFailure, ...] = ()
    partial: tuple[SourceFailure, ...] = ()  # what sources said of their own answers
    fetches_total: int = 0
    failures_total: Mapping[tuple[str, Reason], int] = field(default_factory=dict)  # by what and reason; also partial

    @property
    def problems(self) -> tuple[str, ...]:
        """One line for each failure and each warning of an incomplete answer; the last one counts what is left out."""
        lines = list(dict.fromkeys(f.line() for f in (*self.failures, *self.partial)))
        if len(lines) <= _MAX_PROBLEMS:
            return tuple(lines)
        return (*lines[: _MAX_PROBLEMS - 1], f"and {len(lines) - _MAX_PROBLEMS + 1} more")


class Totals:
    """Counts over the life of the process. Bounded: there are as many counts as presets and reasons."""

    def __init__(self) -> None:
        self.fetches = 0
        self._failures: Counter[tuple[str, Reason]] = Counter()

    def add(self, fetches: int, failures: Iterable[SourceFailure], partial: Iterable[SourceFailure]) -> None:
        """Count a tick: each failure, and each incomplete answer once, however many warnings it came with."""
        self.fetches += fetches
        self._failures.update((f.what, f.reason) for f in failures)
        self._failures.update({(f.what, f.reason) for f in partial})

    def failures(self) -> Mapping[tuple[str, Reason], int]:
        """Return a copy of the counts of failures."""
        return dict(self._failures)


@dataclass(frozen=True, slots=True)
class Fleet:
    """What a tick collects for: the workloads, and the names of the live, ready pods of each."""

    workloads: Sequence[WorkloadSettings]
    pods: Mapping[WorkloadId, Sequence[str]]

    @property
    def tenants(self) -> frozenset[str]:
        """The namespaces of workloads: what lives there speaks for itself only."""
        return frozenset(w.namespace for w in self.workloads)

    def pods_of(self, workload: WorkloadSettings) -> Sequence[str]:
        """Return the pods of a workload; none where the view does not know it."""
        return self.pods.get(WorkloadId(workload.namespace, workload.name), ())

    def groups(self, workloads: Iterable[WorkloadSettings]) -> tuple[tuple[str, Sequence[str]], ...]:
        """Return the pods of workloads, in order: the namespace and the names of each workload's."""
        return tuple((w.namespace, self.pods_of(w)) for w in workloads)

    def owners(self) -> tuple[Owner, ...]:
        """Return all pods, by namespace and name; one that two workloads name once."""
        return tuple(dict.fromkeys((w.namespace, pod) for w in self.workloads for pod in self.pods_of(w)))

    def presets(self) -> dict[Preset, list[WorkloadSettings]]:
        """Return the presets of engines whose pods have something to say, with their workloads; sorted by name."""
        used: dict[str, list[WorkloadSettings]] = {}
        for workload in self.workloads:
            if workload.engine in ENGINES and workload.engine not in PER_QUEUE:
                used.setdefault(workload.engine, []).append(workload)
        return {ENGINES[name]: used[name] for name in sorted(used)}


@dataclass(slots=True)
class Tick:
    """What is taken down while a tick's collection runs."""

    now_s: float
    fetches: int = 0
    samples: int = 0
    failures: list[SourceFailure] = field(default_factory=list)
    partial: list[SourceFailure] = field(default_factory=list)
    matched: dict[str, set[str]] = field(default_factory=dict)

    def failed(self, what: str, error: Exception, otherwise: Reason) -> Reason:
        """Take down an error and return its reason; of one that no source should raise, the one given."""
        if isinstance(error, SourceError):
            self.failures.append(SourceFailure(what, error.reason, str(error)))
            return error.reason
        self.failures.append(SourceFailure(what, otherwise, f"unexpected {type(error).__name__}: {error}"))
        return otherwise

    def incomplete(self, what: str, warnings: Iterable[str]) -> None:
        """Take down what a source said of its own answer."""
        self.partial += (SourceFailure(what, Reason.PARTIAL_ANSWER, warning) for warning in warnings)

    def match(self, matched: Mapping[str, Collection[str]]) -> None:
        """Take down which metric names carried which signals."""
        for signal, names in matched.items():
            if names:
                self.matched.setdefault(signal, set()).update(names)
