"""Recorded traffic as frozen values: counts per time bin, or single requests.

A count that the recorder did not write is NaN in the arrays below and stays NaN: it is missing, never zero. Arrays are
read-only; values compare by identity because their arrays do.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

COUNT_COLUMNS = ("requests", "prompt_tokens", "output_tokens", "total_tokens")
REQUEST_COLUMNS = ("prompt_tokens", "output_tokens", "service_s")


@dataclass(frozen=True, slots=True, eq=False)
class CountTrace:
    """Sums per time bin on a regular grid. Bin `i` is `[start_s + i * step_s, start_s + (i + 1) * step_s)`."""

    name: str
    start_s: float  # Unix seconds of the first bin; 0 where the file counts seconds from its own start
    step_s: float
    columns: Mapping[str, FloatArray]  # of COUNT_COLUMNS, those that the file has; NaN = missing
    replicas: FloatArray | None = None  # what ran, where the file says so; NaN = missing

    @property
    def bins(self) -> int:
        """Return the number of bins."""
        return len(next(iter(self.columns.values())))

    @property
    def duration_s(self) -> float:
        """Return the time that the bins cover, in seconds."""
        return self.bins * self.step_s

    @property
    def end_s(self) -> float:
        """Return the end of the last bin, Unix seconds."""
        return self.start_s + self.duration_s

    def window(self, start_s: float, duration_s: float) -> "CountTrace":
        """Return the bins that lie wholly within `[start_s, start_s + duration_s)`; ValueError if there is none.

        `start_s` is on the trace's own scale: Unix seconds, or seconds from its start.
        """
        first = max(0, _ceil((start_s - self.start_s) / self.step_s))
        last = min(self.bins, _floor((start_s + duration_s - self.start_s) / self.step_s))
        if last <= first:
            raise ValueError(
                f"window must hold at least one bin of {self.name} in [{self.start_s}, {self.end_s}), "
                f"was {start_s} + {duration_s} s"
            )
        return CountTrace(
            name=self.name,
            start_s=self.start_s + first * self.step_s,
            step_s=self.step_s,
            columns={key: values[first:last] for key, values in self.columns.items()},
            replicas=None if self.replicas is None else self.replicas[first:last],
        )


@dataclass(frozen=True, slots=True, eq=False)
class RequestTrace:
    """Single requests in order of arrival."""

    name: str
    arrival_s: FloatArray  # seconds from the start of the trace, never falling
    columns: Mapping[str, FloatArray]  # of REQUEST_COLUMNS, those that the file has; none is missing in any row

    @property
    def duration_s(self) -> float:
        """Return the time of the last arrival, in seconds."""
        return float(self.arrival_s[-1])

    def window(self, start_s: float, duration_s: float) -> "RequestTrace":
        """Return the requests that arrive in `[start_s, start_s + duration_s)`; ValueError if there is none."""
        first, last = np.searchsorted(self.arrival_s, [start_s, start_s + duration_s], side="left")
        if last <= first:
            raise ValueError(
                f"window must hold at least one request of {self.name} in [0, {self.duration_s}], "
                f"was {start_s} + {duration_s} s"
            )
        columns = {key: values[first:last] for key, values in self.columns.items()}
        return RequestTrace(self.name, self.arrival_s[first:last], columns)


Trace = CountTrace | RequestTrace

# Stamps are decimal fractions in a file and binary ones here: a window's edge may miss a bin's by a rounding error.
_GRID_TOLERANCE = 1e-6


def _ceil(bins: float) -> int:
    return int(np.ceil(bins - _GRID_TOLERANCE))


def _floor(bins: float) -> int:
    return int(np.floor(bins + _GRID_TOLERANCE))
