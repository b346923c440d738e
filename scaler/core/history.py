"""What a history is: values on a grid of UTC, in which what is not known stays unknown."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from scaler.core.values import WorkloadId

Values = NDArray[np.float64]


class HistorySignal(StrEnum):
    """What can be read back of a workload."""

    DEMAND = "demand"  # mean of the step, work units per second
    DEMAND_PEAK = "demand_peak"  # the largest 1-minute mean within the step
    REPLICAS = "replicas"  # mean number of ready replicas
    CAPACITY = "capacity"  # work units per second and replica
    LEAD_TIME = "lead_time"  # seconds


@dataclass(frozen=True, slots=True)
class Grid:
    """Points in time: `count` multiples of `step_s`, from `start_s` on. A value at a point is of the step before it.

    Multiples of the step since the epoch are the same for whoever asks, and no local time and no leap of it enters.
    """

    start_s: int
    step_s: int
    count: int

    def __post_init__(self) -> None:
        if self.step_s < 1 or self.count < 1:
            raise ValueError(f"step_s and count must be >= 1, were {self.step_s} and {self.count}")
        if self.start_s % self.step_s:
            raise ValueError(f"start_s must be a multiple of step_s ({self.step_s}), was {self.start_s}")

    @classmethod
    def between(cls, start_s: float, end_s: float, step_s: int) -> "Grid":
        """Return the points whose steps lie wholly between two Unix times; ValueError where there is none."""
        first, last = -int(-start_s // step_s) + 1, int(end_s // step_s)
        if last < first:
            raise ValueError(f"end_s must be a whole step ({step_s} s) after start_s ({start_s:g}), was {end_s:g}")
        return cls(first * step_s, step_s, last - first + 1)

    @property
    def last_s(self) -> int:
        """The last point."""
        return self.start_s + (self.count - 1) * self.step_s

    def chunks(self, points: int) -> Iterator["Grid"]:
        """Yield it in pieces of at most so many points, in order."""
        for first in range(0, self.count, points):
            yield Grid(self.start_s + first * self.step_s, self.step_s, min(points, self.count - first))

    def place(self, times_s: Values, found: Values) -> Values:
        """Return values at their points; those of other times, and those that are not finite, are left out."""
        places = np.rint((times_s - self.start_s) / self.step_s)
        taken = (places >= 0) & (places < self.count) & np.isfinite(found)
        values = self.unknown()
        values[places[taken].astype(np.int64)] = found[taken]
        return values

    def unknown(self) -> Values:
        """Return the values of what is not known at all."""
        return np.full(self.count, np.nan)


@dataclass(frozen=True, slots=True)
class Series:
    """Values on a UTC grid: the one at `start_s + i * step_s` is of the step before. NaN is missing, never zero."""

    start_s: int
    step_s: int
    values: Values

    @classmethod
    def on(cls, grid: Grid, values: Values) -> "Series":
        """Return values on a grid; ValueError when there is not one for each point."""
        if values.shape != (grid.count,):
            raise ValueError(f"values must be {grid.count}, were {values.shape}")
        return cls(grid.start_s, grid.step_s, values)


@dataclass(frozen=True, slots=True)
class HistoryBatch:
    """Series of workloads on one grid: one for each that was asked for, all unknown where nothing was found.

    `problems` says which parts are missing because a source failed; they are worth asking again.
    """

    grid: Grid
    series: Mapping[WorkloadId, Series]
    problems: tuple[str, ...] = ()
