"""From raw samples of one series to values on a grid: what cannot be true is dropped, counted by kind, and told.

Missing stays missing. A step of the grid is known when at least half of its finer steps are; nothing is filled in here.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from forecasting.series import Grid, Series, Values

FINE_S: Final = 60  # the finer step: peaks are means over it
KNOWN_SHARE: Final = 0.5
# Two samples of a counter that are further apart say nothing of when it grew between them.
MOST_APART_S: Final = 600
_OUTAGE_STEPS: Final = 3
_COUNTER_SAMPLES: Final = 50
_COUNTER_SHARE: Final = 0.9


class Kind(StrEnum):
    """What samples are."""

    GAUGE = "gauge"  # each is a rate
    COUNTER = "counter"  # each is a total since some start; a fall is a restart


class Fault(StrEnum):
    """What is dropped, or told of."""

    NOT_FINITE = "not_finite"
    NEGATIVE = "negative"
    FUTURE = "future"
    OUT_OF_ORDER = "out_of_order"  # put in order, not dropped
    DUPLICATE = "duplicate"  # the last one of a time counts
    RESET = "reset"  # a counter began anew: what it shows after that is the increase
    OUTAGE = "outage"  # in a window that was given, or zeros in a series that otherwise is never near zero
    LOOKS_LIKE_A_COUNTER = "looks_like_a_counter"  # given as a gauge


@dataclass(frozen=True, slots=True, eq=False)
class Cleaned:
    """A series, the largest fine rate of each step, and how much of what was dropped or told of."""

    series: Series
    peaks: Values
    faults: Mapping[Fault, int]


def clean(
    times_s: Values,
    values: Values,
    grid: Grid,
    *,
    now_s: float,
    kind: Kind = Kind.GAUGE,
    outages: Sequence[tuple[float, float]] = (),
) -> Cleaned:
    """Return samples (Unix seconds, value) as rates on a grid.

    `outages` are [from, to) in which the measurement is not to be believed. ValueError where times and values are not
    of one length.
    """
    if times_s.shape != values.shape:
        raise ValueError(f"values must be as many as times, {times_s.shape}, were {values.shape}")
    faults: Counter[Fault] = Counter()
    times_s, values = _usable(times_s, values, now_s, faults)
    if kind is Kind.GAUGE and looks_like_a_counter(values):
        faults[Fault.LOOKS_LIKE_A_COUNTER] += 1
    inside = np.zeros(len(times_s), dtype=bool)
    for start_s, end_s in outages:
        inside |= (times_s >= start_s) & (times_s < end_s)
    faults[Fault.OUTAGE] += int(inside.sum())
    times_s, values = times_s[~inside], values[~inside]
    fine_s = min(FINE_S, grid.step_s)
    if kind is Kind.COUNTER:
        fine = _rates_of_counter(times_s, values, grid, fine_s, faults)
    else:
        fine = _means(times_s, values, grid, fine_s)
    rates, peaks = coarser(fine, grid.step_s // fine_s)
    silent = zero_outages(rates)
    faults[Fault.OUTAGE] += int(silent.sum())
    missing = silent | ~np.isfinite(rates)
    rates, peaks = np.where(missing, np.nan, rates), np.where(missing, np.nan, peaks)
    return Cleaned(Series.on(grid, rates), peaks, {fault: count for fault, count in faults.items() if count})


def _usable(times_s: Values, values: Values, now_s: float, faults: Counter[Fault]) -> tuple[Values, Values]:
    """Return finite, non-negative samples of the past in order of time, one for each time: the one that came last."""
    finite = np.isfinite(values) & np.isfinite(times_s)
    faults[Fault.NOT_FINITE] += int((~finite).sum())
    times_s, values = times_s[finite], values[finite]
    negative, future = values < 0, times_s > now_s
    faults[Fault.NEGATIVE] += int(negative.sum())
    faults[Fault.FUTURE] += int((future & ~negative).sum())
    times_s, values = times_s[~negative & ~future], values[~negative & ~future]
    faults[Fault.OUT_OF_ORDER] += int((np.diff(times_s) < 0).sum())
    order = np.argsort(times_s, kind="stable")
    times_s, values = times_s[order], values[order]
    last = np.append(np.diff(times_s) > 0, np.ones(min(1, len(times_s)), dtype=bool))
    faults[Fault.DUPLICATE] += int((~last).sum())
    return times_s[last], values[last]


def looks_like_a_counter(values: Values) -> bool:
    """Return whether a gauge never falls but to a new start, and nearly always grows: it is a total, not a rate."""
    if len(values) < _COUNTER_SAMPLES:
        return False
    steps = np.diff(values)
    falls = steps < 0
    restarts = values[1:][falls] <= 0.01 * values[:-1][falls]
    return bool(restarts.all() and (steps > 0).mean() >= _COUNTER_SHARE)


def _rates_of_counter(times_s: Values, values: Values, grid: Grid, fine_s: int, faults: Counter[Fault]) -> Values:
    """Return the increase per second in each fine step; NaN where no two samples are near enough around it."""
    edges = _edges(grid, fine_s)
    if len(values) < 2:
        return np.full(len(edges) - 1, np.nan)
    steps = np.diff(values)
    faults[Fault.RESET] += int((steps < 0).sum())
    total = np.concatenate([[0.0], np.cumsum(np.where(steps < 0, values[1:], steps))])
    at_edges = np.interp(edges, times_s, total)
    after = np.searchsorted(times_s, edges)
    between = (after > 0) & (after < len(times_s))
    apart = times_s[np.clip(after, 0, len(times_s) - 1)] - times_s[np.maximum(after - 1, 0)]
    sure = (between & (apart <= MOST_APART_S)) | np.isin(edges, times_s)
    return np.where(sure[1:] & sure[:-1], np.diff(at_edges) / fine_s, np.nan)


def _means(times_s: Values, values: Values, grid: Grid, fine_s: int) -> Values:
    """Return the mean of the samples in each fine step; NaN where there is none."""
    edges = _edges(grid, fine_s)
    place = np.floor((times_s - edges[0]) / fine_s).astype(np.int64)
    inside = (place >= 0) & (place < len(edges) - 1)
    count = np.bincount(place[inside], minlength=len(edges) - 1)
    total = np.bincount(place[inside], weights=values[inside], minlength=len(edges) - 1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _edges(grid: Grid, fine_s: int) -> Values:
    start_s = grid.start_s - grid.step_s  # a value at a point is of the step before it
    return start_s + np.arange(grid.count * (grid.step_s // fine_s) + 1, dtype=np.float64) * fine_s


def coarser(fine: Values, times: int) -> tuple[Values, Values]:
    """Return the mean and the maximum of every `times` values: (points,) each.

    NaN where fewer than half of them are known: a mean over less would be of another step.
    """
    rows = fine.reshape(-1, times)
    known = np.isfinite(rows)
    count = known.sum(axis=1)
    enough = count >= max(1.0, KNOWN_SHARE * times)
    mean = np.where(known, rows, 0.0).sum(axis=1) / np.maximum(count, 1)
    highest = np.where(known, rows, -np.inf).max(axis=1)
    return np.where(enough, mean, np.nan), np.where(enough, highest, np.nan)


def zero_outages(rates: Values) -> NDArray[np.bool_]:
    """Return where zeros are an outage of the measurement: (points,).

    A queue of jobs is truly at zero now and then, so this is judged only in a series that otherwise is never near zero:
    all its other values are above a tenth of its median. A single zero may be true; a run of three steps is not.
    """
    zero = rates == 0
    others = rates[np.isfinite(rates) & ~zero]
    if not zero.any() or len(others) < _COUNTER_SAMPLES or others.min() <= 0.1 * np.median(others):
        return np.zeros(len(rates), dtype=bool)
    edge = np.flatnonzero(np.diff(np.concatenate([[False], zero, [False]]).astype(np.int8)))
    outage = np.zeros(len(rates), dtype=bool)
    for start, end in zip(edge[::2], edge[1::2], strict=True):
        outage[start:end] = end - start >= _OUTAGE_STEPS
    return outage
