"""What collecting metrics did: for the controller's own metrics and logs, and for whoever asks why nothing is seen."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from scaler.core.values import Reason

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
