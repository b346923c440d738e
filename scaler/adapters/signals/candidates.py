"""The vocabulary of presets: which metric names may carry a signal, and how the series of one owner become one number.

Engines rename their metrics (vllm#18354 renamed the KV gauge and autoscalers saw nothing), so a signal has an ordered
list of candidates. The first that an owner has series for counts, and which one matched is reported.
"""

import math
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """How the samples of a signal are read."""

    GAUGE = "gauge"
    COUNTER = "counter"  # read as its rate per second
    HISTOGRAM = "histogram"  # read as a quantile of what was observed within the rate window


class Combine(StrEnum):
    """How the parts of one owner (ranks of a pod, GPUs of a pod) become one value."""

    SUM = "sum"
    MAX = "max"
    MEAN = "mean"


@dataclass(frozen=True, slots=True)
class Candidate:
    """One metric name that may carry a signal, with label values that its series must have."""

    name: str
    where: tuple[tuple[str, str], ...] = ()
    divisor: float = 1.0  # 100 where an exporter speaks in percent


@dataclass(frozen=True, slots=True)
class Signal:
    """One signal: where it may come from and how it is read.

    `parts` are the labels that tell apart the series of one owner that belong together. Series that agree in them are
    the same thing seen twice (two scrape jobs, a pair of Prometheus servers, a pod that came back under a new
    address): the newest counts. `optional` says that some versions or settings of the engine do not have the signal.
    """

    field: str
    candidates: tuple[Candidate, ...]
    kind: Kind = Kind.GAUGE
    combine: Combine = Combine.SUM
    parts: tuple[str, ...] = ()
    limit: float = math.inf  # the largest value that the signal can have
    optional: bool = False
    progress: bool = False  # a counter that moves while the engine works


@dataclass(frozen=True, slots=True)
class Preset:
    """The signals of one engine, and the labels that name the owner of a series: the first pair present counts."""

    name: str
    owners: tuple[tuple[str, str], ...]
    signals: tuple[Signal, ...]

    def names(self) -> tuple[str, ...]:
        """Return every metric name that may carry a signal, sorted."""
        return tuple(sorted({c.name for signal in self.signals for c in signal.candidates}))
