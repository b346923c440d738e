"""The contract of an expert: a small model that says where the series will be, from what lies before an origin.

Experts see a window of many series at once, in logarithms, so that an error of one means the same ratio for all. They
give one number for each series, horizon and origin; what spread it has is found by calibration, the same for every
expert, so that none is believed about its own uncertainty. What `fit` returns is plain arrays: it can be written to a
file, hashed and sent anywhere, and holds no code.

What every expert keeps (`tests/unit/forecasting/test_experts.py` holds it for each): the same input gives the same
output, bit by bit, and is not changed; a prediction for an origin depends on nothing after that origin (parameters
apart, which depend on the window that they were fitted to); gaps, constant series, zeros, short series and horizon 1
give a finite number or NaN for "no prediction", and never an error.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from forecasting.calendar import Calendar
from forecasting.series import Grid, Values

# Plain arrays by name. The first axis is the series, but for what is shared by all of them.
Parameters = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """What experts see of a batch: (series, points), the last point is the present."""

    grid: Grid
    level: Values  # log(value + offset), gaps filled from what lies before them; NaN before the first value
    season: Values  # the same without one-off spikes: where seasons of earlier days are looked up
    known: NDArray[np.bool_]  # where the value was measured
    offset: Values  # (series,), in the unit of the series: what keeps the logarithm finite at zero
    calendar: Calendar  # of the points of the grid and of those up to the furthest horizon

    @property
    def count(self) -> int:
        """The number of series."""
        return int(self.level.shape[0])

    @property
    def points(self) -> int:
        """The number of points."""
        return int(self.level.shape[1])


def origin_points(window: Window, origins: int, stride: int = 1) -> NDArray[np.int64]:
    """Return the indices of every `stride`-th of the last `origins` points, the last one among them."""
    last = window.points - 1
    return np.arange(last - (origins - 1) // stride * stride, last + 1, stride)


class Expert(Protocol):
    """One model. Stateless: all that it learns is in the parameters."""

    @property
    def name(self) -> str:
        """Its name in tables and parameters."""
        ...

    @property
    def needs_days(self) -> float:
        """How many days of history it needs before it takes part."""
        ...

    def fit(self, window: Window, horizons: tuple[int, ...]) -> Parameters:
        """Return its parameters, learned from the window. Horizons are in steps of the grid, ascending."""
        ...

    def predict(
        self, parameters: Parameters, window: Window, horizons: tuple[int, ...], origins: int, stride: int = 1
    ) -> Values:
        """Return the predicted `level` of shape (series, horizons, origins) for the last points as origins.

        They are every `stride`-th of the last `origins` points, the last one always among them: `origin_points` says
        which. NaN where it has no prediction. The window may be a later one than that of the fit.
        """
        ...
