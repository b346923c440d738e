"""What forecasting ten thousand workloads costs: refits in worker processes, updates and forecasts, a new series."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC
from typing import Final

import numpy as np
import psutil  # type: ignore[import-untyped]  # it ships no types

from forecasting.calendar import calendar_of
from forecasting.fitted import Fitted
from forecasting.forecast import QUANTILES, Target
from forecasting.forecaster import Forecaster
from forecasting.models import TIER_1
from forecasting.series import Batch, Values
from forecasting.tracking import Origin, Tracker, rising_at
from scaler.parallel import mapper
from tests.bench import statsforecast_rival
from tests.bench.arithmetic import Spread
from tests.bench.figures import Figure
from tests.bench.figures import Target as Aim

STEP_S: Final = 300
DAY: Final = 288
DAYS: Final = 14
PART: Final = 100  # series that a worker is given at once
SERIES: Final = 10_000
REFIT_S: Final = Aim(at_most=60.0)
MEMORY_MB: Final = Aim(at_most=2048.0)
FORECAST_MS: Final = Aim(at_most=0.5)
COLD_MS: Final = Aim(at_most=100.0)
_COLD_ROUNDS: Final = 9


def forecast_costs(series: int, *, rivals: bool) -> list[Figure]:
    """Return the figures for so many series of 14 days at 5 minutes; targets are for 10,000.

    `rivals` fits what others ship beside it, and installs that for it where it is not there.
    """
    full = series == SERIES
    refit_s, cpu_s, peak_mb = _refit(series)
    group = f"forecasting, {series} series x {DAYS} days at 5 min, tier 1, 2 workers"
    found = [
        Figure(group, "wall time of a refit of all", "s", refit_s, REFIT_S if full else None),
        Figure(group, "CPU time of a refit, a series", "ms", 1e3 * cpu_s / series),
        Figure(group, "peak memory, workers included", "MB", peak_mb, MEMORY_MB if full else None),
    ]
    forecaster = Forecaster(TIER_1)
    batch = made_up(PART, seed=1)
    fitted = forecaster.fit(batch)
    each = Spread.of([1e3 * _update_and_forecast(forecaster, fitted, batch) / PART for _ in range(5)])
    cold = Spread.of([1e3 * _cold(seed) for seed in range(_COLD_ROUNDS)])
    found += [
        Figure.of(group, "update and forecast, a series, in batches of 100", "ms", each, FORECAST_MS),
        Figure.of(group, "a new series from cold: fit and forecast", "ms", cold, COLD_MS),
    ]
    return found + (_beside_statsforecast(1e3 * cpu_s / series) if rivals else [])


def made_up(series: int, seed: int, days: int = DAYS) -> Batch:
    """Return services with seasons of day and week, over-dispersed, with bursts, gaps and changes of level."""
    rng = np.random.default_rng(seed)
    at = np.arange(days * DAY)
    day = np.sin(2 * np.pi * (at / DAY - rng.uniform(0, 1, (series, 1))))
    week = np.where((at // DAY) % 7 >= 5, rng.uniform(0.5, 1.0, (series, 1)), 1.0)
    mean = 10 ** rng.uniform(0, 3, (series, 1)) * (1 + rng.uniform(0.2, 0.8, (series, 1)) * day) * week
    mean = np.where((at > at.size // 2) & (rng.random((series, 1)) < 0.1), 2 * mean, mean)
    values = rng.poisson(rng.gamma(20.0, mean * STEP_S / 20.0)) / STEP_S
    burst = rng.random(values.shape) < 0.001
    values = np.where(burst, 3 * values, values)
    return Batch.of(np.where(rng.random(values.shape) < 0.002, np.nan, values), STEP_S)


def _refit(series: int) -> tuple[float, float, float]:
    """Fit all in two workers; return wall seconds, CPU seconds of the workers, and the peak of all memory in MB."""
    parts = (made_up(min(PART, series - first), seed=first) for first in range(0, series, PART))
    made = list(parts) if series <= 10 * PART else None
    source = iter(made) if made is not None else _repeated(series)
    with mapper(workers=2) as over, _peak_memory() as peak:
        list(over(_warm, range(2)))
        start = time.perf_counter()
        cpu_s = sum(over(_fit_part, source))
        wall_s = time.perf_counter() - start
    return wall_s, cpu_s, peak.mb


def _repeated(series: int) -> Iterator[Batch]:
    """Yield parts made from a few, each by factors of its own: making ten thousand would be measured too."""
    few = [made_up(PART, seed=seed) for seed in range(4)]
    for number, first in enumerate(range(0, series, PART)):
        part = few[number % len(few)]
        factor = np.random.default_rng(first).uniform(0.5, 2.0, (PART, 1))
        count = min(PART, series - first)
        yield Batch.of((part.values * factor)[:count], STEP_S)


def _warm(number: int) -> int:
    Forecaster(TIER_1).fit(made_up(2, seed=number))
    return number


def _fit_part(batch: Batch) -> float:
    """Fit a part; return the CPU seconds that it took this process. What is found would be kept by who asked."""
    start = time.process_time()
    Forecaster(TIER_1).fit(batch)
    return time.process_time() - start


def _update_and_forecast(forecaster: Forecaster, fitted: Fitted, batch: Batch) -> float:
    """Return the CPU seconds of a point of the grid: hear what came, forecast, say it corrected, for both targets."""
    trackers = {target: Tracker.new(batch.count, fitted.horizons, STEP_S) for target in Target}
    came: Values = np.repeat(batch.values[:, -1:], len(fitted.horizons), axis=1)
    start = time.process_time()
    found = forecaster.forecast(fitted, batch)
    rising = rising_at(batch.until(batch.grid.count, DAY))[:, -1]
    origin = Origin(rising, float(calendar_of(batch.until(batch.grid.count, 1).grid, 0, UTC).time_of_day[0]))
    for target, tracker in trackers.items():
        said = np.moveaxis(found.of(target), 1, 2)
        tracker.hear(came).say(said, origin, fitted.offset, fitted.bound)
    return time.process_time() - start


def _cold(seed: int) -> float:
    batch = made_up(1, seed=100 + seed)
    forecaster = Forecaster(TIER_1)
    start = time.perf_counter()
    found = forecaster.forecast(forecaster.fit(batch), batch)
    seconds = time.perf_counter() - start
    assert found.point.shape == (1, 4, len(QUANTILES))
    return seconds


@dataclass
class _Peak:
    """The highest resident memory of this process and its children."""

    mb: float = 0.0


@contextmanager
def _peak_memory() -> Iterator[_Peak]:
    peak, over, own = _Peak(), threading.Event(), psutil.Process()

    def look() -> None:
        while not over.wait(0.2):
            total = 0
            for process in (own, *own.children(recursive=True)):
                try:
                    total += process.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
            peak.mb = max(peak.mb, total / 1e6)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        over.set()
        thread.join()


def _beside_statsforecast(own_ms: float) -> list[Figure]:
    """Return what models of statsforecast take on the same series, as a ratio to a whole refit of ours."""
    group = f"statsforecast {statsforecast_rival.VERSION} beside it, a series"
    values = made_up(statsforecast_rival.SERIES, seed=7).values
    return [
        figure
        for name, ms in statsforecast_rival.fit_ms(np.nan_to_num(values, nan=float(np.nanmean(values)))).items()
        for figure in (
            Figure(group, f"{name}, fit and forecast", "ms", ms),
            Figure(group, f"{name}, over all of tier 1 with calibration", "ratio", ms / own_ms),
        )
    ]
