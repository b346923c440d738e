"""What a series is: values on a grid of UTC, in which what is not known stays unknown."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


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


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Series on one grid, of services in one time zone: what models are fitted to and forecast from.

    Shapes are (series, points). A value is the mean rate of the step before its point; a peak is the largest rate of a
    finer step within it (15 s to 60 s), or the value itself where nothing finer is known. NaN is missing, never zero.
    """

    grid: Grid
    values: Values
    peaks: Values

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or self.values.shape[1] != self.grid.count or self.peaks.shape != self.values.shape:
            raise ValueError(
                f"values and peaks must be (series, {self.grid.count}), were {self.values.shape} and {self.peaks.shape}"
            )

    @classmethod
    def of(cls, values: Values, step_s: int, start_s: int = 0, peaks: Values | None = None) -> "Batch":
        """Return a batch from one array of values, or one row of them; without peaks they are the values."""
        rows = np.atleast_2d(np.asarray(values, dtype=np.float64))
        found = rows if peaks is None else np.atleast_2d(np.asarray(peaks, dtype=np.float64))
        return cls(Grid(start_s, step_s, rows.shape[1]), rows, found)

    @property
    def count(self) -> int:
        """The number of series."""
        return int(self.values.shape[0])

    def until(self, count: int, keep: int | None = None) -> "Batch":
        """Return the first `count` points, or of those only the last `keep`."""
        first = 0 if keep is None else max(0, count - keep)
        grid = Grid(self.grid.start_s + first * self.grid.step_s, self.grid.step_s, count - first)
        return Batch(grid, self.values[:, first:count], self.peaks[:, first:count])

    def rows(self, first: int, last: int) -> "Batch":
        """Return the series from `first` to before `last`."""
        return Batch(self.grid, self.values[first:last], self.peaks[first:last])
