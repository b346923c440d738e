"""A Prometheus histogram for a hot path: observing is one list append, the buckets are counted when somebody looks."""

from dataclasses import dataclass

import numpy as np

# vLLM 0.33 (vllm/v1/metrics/loggers.py).
LATENCY_BUCKETS = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1920.0, 7680.0,
)  # fmt: skip
TTFT_BUCKETS = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0,
    640.0, 2560.0,
)  # fmt: skip

_FOLD_AT = 4096  # values kept before they are counted, so that a pod nobody looks at stays small


@dataclass(frozen=True, slots=True)
class HistogramReading:
    """A histogram as Prometheus counts it: `counts[i]` values are at most `bounds[i]`; the last entry has them all."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]  # cumulative, one more than bounds: +Inf
    total: float  # sum of the values


class Histogram:
    """Counts values in buckets."""

    __slots__ = ("_bounds", "_counts", "_edges", "_fresh", "_total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._edges = np.asarray(bounds)
        self._counts = np.zeros(len(bounds) + 1, dtype=np.int64)
        self._fresh: list[float] = []
        self._total = 0.0

    def observe(self, value: float) -> None:
        """Count one value, in seconds."""
        self._fresh.append(value)
        if len(self._fresh) >= _FOLD_AT:
            self._fold()

    def read(self) -> HistogramReading:
        """Return the counts up to now."""
        self._fold()
        return HistogramReading(self._bounds, tuple(self._counts.cumsum().tolist()), self._total)

    def _fold(self) -> None:
        if self._fresh:
            # side="left": a value on a bound belongs to it, as le= says.
            buckets = np.searchsorted(self._edges, self._fresh, side="left")
            self._counts += np.bincount(buckets, minlength=len(self._counts))
            self._total += sum(self._fresh)
            self._fresh.clear()
