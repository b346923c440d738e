"""The vocabulary of presets: which metric names may carry a signal, and how the series of one owner become one number.

Engines rename their metrics (vllm#18354 renamed the KV gauge and autoscalers saw nothing), so a signal has an ordered
list of candidates. The first that an owner has series for counts, and which one matched is reported.

Everything here can be asked of a server as PromQL too: exact names, label matchers, then sum, max or mean over what is
left after series that agree in their parts were taken as one, then a division.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from scaler.config.models import Unit


class Kind(StrEnum):
    """How the samples of a signal are read."""

    GAUGE = "gauge"
    COUNTER = "counter"  # read as its rate per second; of a counter of seconds that is how many were at it at once
    HISTOGRAM = "histogram"  # read as a quantile of what was observed within the rate window
    RATIO = "ratio"  # the rise of a counter for each one that another (`Candidate.per`) rose, within the rate window


class Combine(StrEnum):
    """How the parts of one owner (ranks of a pod, GPUs of a pod) become one value."""

    SUM = "sum"
    MAX = "max"
    MEAN = "mean"


@dataclass(frozen=True, slots=True)
class Candidate:
    """One metric name that may carry a signal, and which of its series count.

    `where` are label values that a series must have; an empty one means without that label, as in PromQL. `having` are
    labels that it must have, whatever they say: of a name that others use too, this tells the engine's own. What the
    series say (a gauge's value, a rate, a quantile, a ratio) is divided by `divisor`.

    A ratio is the mean of what was finished within the window. Both counters are summed over all parts before they are
    divided. Where the lower one did not move there is no mean, idle or stuck: `NO_COMPLETIONS`, as for a histogram in
    which nothing was observed, never 0 and never NaN. That nobody waits is for the gauge of the waiting to say.
    """

    name: str
    where: tuple[tuple[str, str], ...] = ()
    divisor: float = 1.0  # 100 where an exporter speaks in percent, 1e6 where it counts microseconds
    having: tuple[str, ...] = ()
    kind: Kind | None = None  # None: the signal's
    per: str | None = None  # of a ratio: the counter that is divided by; the same labels

    def takes(self, labels: Mapping[str, str]) -> bool:
        """Return whether a series with these labels counts."""
        return all(labels.get(label, "") == value for label, value in self.where) and all(map(labels.get, self.having))

    def names(self) -> tuple[str, ...]:
        """Return the metric names that it is made of."""
        return (self.name,) if self.per is None else (self.name, self.per)


@dataclass(frozen=True, slots=True)
class Signal:
    """One signal: where it may come from and how it is read.

    `parts` are the labels that tell apart the series of one owner that belong together. Series that agree in them are
    the same thing seen twice (two scrape jobs, a pair of Prometheus servers, tensor-parallel ranks that all tell of the
    same requests, a pod that came back under a new address): the newest counts. `optional` says that some versions or
    settings of the engine do not have the signal.
    """

    field: str
    candidates: tuple[Candidate, ...]
    kind: Kind = Kind.GAUGE
    combine: Combine = Combine.SUM
    parts: tuple[str, ...] = ()
    limit: float = math.inf  # the largest value that the signal can have
    optional: bool = False
    progress: bool = False  # a counter that moves while the engine works
    rare: bool = False  # many series, and only a confirmation: once a minute is enough
    unit: Unit | None = None  # only needed where a workload is counted in this unit

    def kind_of(self, candidate: Candidate) -> Kind:
        """Return how a candidate of this signal is read."""
        return candidate.kind or self.kind

    def names(self) -> tuple[str, ...]:
        """Return every metric name that may carry it, sorted."""
        return tuple(sorted({name for candidate in self.candidates for name in candidate.names()}))


@dataclass(frozen=True, slots=True)
class Preset:
    """The signals of one engine, and the labels that name the owner of a series: the first pair present counts."""

    name: str
    owners: tuple[tuple[str, str], ...]
    signals: tuple[Signal, ...]
    motion: tuple[Signal, ...] = ()  # read only to see whether the engine moves; their `field` is no reading
    path: str = "/metrics"  # where the engine serves them
    version: str = ""  # the newest version of the engine that it was checked against
    notes: str = ""  # a Markdown list for docs/signals.md: what is not exported, what differs, and what follows

    def names(self) -> tuple[str, ...]:
        """Return every metric name that may carry a signal or tell of motion, sorted."""
        return tuple(sorted({name for signal in (*self.signals, *self.motion) for name in signal.names()}))

    def progress(self) -> tuple[Signal, ...]:
        """Return the counters that move while the engine works. None: nothing is known of its motion."""
        return (*(signal for signal in self.signals if signal.progress), *self.motion)
