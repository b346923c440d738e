"""Series that models are checked on: hours over some days, small enough for the slowest of them."""

import numpy as np
from numpy.typing import NDArray

from forecasting.contract import Window
from forecasting.series import Batch
from forecasting.window import window_of

STEP_S = 3600
DAY = 24
HORIZONS = (1, 3)
AHEAD = 8

Rows = NDArray[np.float64]


def usual(days: int = 12, seed: int = 1, series: int = 2) -> Rows:
    """Return busy services: a daily season, noise, and levels that differ by a factor of ten."""
    rng = np.random.default_rng(seed)
    at = np.arange(days * DAY)
    season = 1 + 0.5 * np.sin(2 * np.pi * at / DAY)
    scale = 50.0 * 10.0 ** np.arange(series)[:, None]
    return np.asarray(scale * season * rng.lognormal(0, 0.08, (series, at.size)))


def with_gaps(rows: Rows, seed: int = 2) -> Rows:
    """Return them with a tenth of the points missing, and one gap of a day and a half."""
    found = rows.copy()
    found[np.random.default_rng(seed).random(rows.shape) < 0.1] = np.nan
    found[:, 5 * DAY : 6 * DAY + 12] = np.nan
    found[:, -1] = rows[:, -1]
    return found


def batch(rows: Rows) -> Batch:
    """Return them as a batch that begins on a Monday."""
    return Batch.of(rows, STEP_S, start_s=4 * 86_400)


def window(rows: Rows) -> Window:
    """Return what experts see of them."""
    return window_of(batch(rows), AHEAD)
