"""Stands in for the forecaster's refits until there is a forecaster: Holt-Winters fits, one after another, on one core.

A process of the bench. Series of a week in 5-minute points with a daily season; heuristic start, a bounded number of
iterations. Headway's budget for refits is 60 CPU seconds an hour; this runs all the time, which is far harder on the
scaler beside it. It is told whether to be nice.
"""

import os
import signal
import warnings
from types import FrameType
from typing import Any, Final

import numpy as np
from statsmodels.tsa.holtwinters import ExponentialSmoothing

from tests.bench.children import say, told

POINTS: Final = 2016  # a week of 5 minutes
SEASON: Final = 288
ITERATIONS: Final = 20


def series(seed: int) -> "np.ndarray[Any, np.dtype[np.float64]]":
    """Return a week of made-up demand: a daily season, a little drift, noise."""
    rng = np.random.default_rng(seed)
    at = np.arange(POINTS)
    season = 40 + 25 * np.sin(2 * np.pi * at / SEASON) + 8 * np.sin(4 * np.pi * at / SEASON)
    return np.asarray(np.maximum(1.0, season + 0.002 * at + rng.normal(0, 3, POINTS)))


def fit(demand: "np.ndarray[Any, np.dtype[np.float64]]") -> float:
    """Fit once and return the smoothing level that was found."""
    model = ExponentialSmoothing(
        demand,
        trend="add",
        damped_trend=True,
        seasonal="add",
        seasonal_periods=SEASON,
        initialization_method="heuristic",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the iterations were not enough is what bounding them means
        fitted = model.fit(minimize_kwargs={"options": {"maxiter": ITERATIONS}})
    return float(fitted.params["smoothing_level"])


class _Stop(Exception):  # noqa: N818 - no error: the parent has seen enough
    pass


def _stop(_: int, __: FrameType | None) -> None:
    raise _Stop


def main() -> None:
    """Fit until SIGTERM, then say how many fits there were."""
    os.nice(int(told()["nice"]))
    fits = 0
    fit(series(0))
    signal.signal(signal.SIGTERM, _stop)
    say({"ready": True})
    try:
        while True:
            fit(series(fits))
            fits += 1
    except _Stop:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        say({"fits": fits})


if __name__ == "__main__":
    main()
