"""A recorded trace as a series of rates on a regular UTC grid: what forecasts are made from."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from forecasting.cleaning import coarser
from forecasting.series import Batch, Grid
from scaler.traces.model import COUNT_COLUMNS, CountTrace, FloatArray, RequestTrace, Trace

GRID_S: Final = 300  # the grid of models; a trace with longer steps keeps its own
FINE_S: Final = 60  # peaks are of so long, or of the trace's own step where that is longer
_DAY_S: Final = 86_400
UNITS: Final = {
    "requests": "requests",
    "promptTokens": "prompt_tokens",
    "outputTokens": "output_tokens",
    "totalTokens": "total_tokens",
}


def batch_of(trace: Trace, unit: str | None = None) -> Batch:
    """Return one column of a trace as rates per second on a 5-minute grid, or on the trace's own if that is coarser.

    Without a unit it is requests, else the first token column that the trace has. Bins whose time stamps lie between
    two points are moved back to the earlier one, by less than a step of the trace. A trace in seconds from its start is
    taken to start at midnight, UTC. ValueError where the trace has no such column, or no step that divides a day.
    """
    counts = trace if isinstance(trace, CountTrace) else _counted(trace)
    column = _column(counts, unit)
    step_s = int(counts.step_s)
    if step_s != counts.step_s or _DAY_S % step_s:
        raise ValueError(f"step of {trace.name} must be whole seconds that divide a day, was {counts.step_s:g} s")
    start_s = int(np.floor(counts.start_s / step_s)) * step_s
    fine_s = max(FINE_S, step_s) if max(FINE_S, step_s) % step_s == 0 else step_s
    grid_s = _grid_step(fine_s)
    rates, _ = coarser(_padded(counts.columns[column] / step_s, start_s, step_s, fine_s), fine_s // step_s)
    fine_start_s = start_s // fine_s * fine_s
    values, peaks = coarser(_padded(rates, fine_start_s, fine_s, grid_s), grid_s // fine_s)
    first_s = fine_start_s // grid_s * grid_s + grid_s  # a value stands at the end of its step
    return Batch(Grid(first_s, grid_s, len(values)), values[None], peaks[None])


def _column(counts: CountTrace, unit: str | None) -> str:
    if unit is None:
        return next(column for column in COUNT_COLUMNS if column in counts.columns)
    column = UNITS.get(unit)
    if column not in counts.columns:
        there = [name for name, found in UNITS.items() if found in counts.columns]
        raise ValueError(f"unit of {counts.name} must be one of {', '.join(there)}, was {unit}")
    return str(column)


def _grid_step(fine_s: int) -> int:
    """Return the shortest step of at least five minutes that divides a day and is whole fine steps."""
    return next(s for s in range(max(fine_s, GRID_S), _DAY_S + 1) if s % fine_s == 0 and _DAY_S % s == 0)


def _padded(values: FloatArray, start_s: int, step_s: int, whole_s: int) -> FloatArray:
    """Return values with missing ones before and after, so that they fill whole steps of `whole_s`."""
    before = start_s % whole_s // step_s
    after = -(len(values) + before) % (whole_s // step_s)
    return np.concatenate([np.full(before, np.nan), values, np.full(after, np.nan)])


def _counted(trace: RequestTrace) -> CountTrace:
    """Return single requests as counts of a minute; the last minute, which is not whole, is left out."""
    minutes = int(trace.duration_s // FINE_S)
    if minutes < 1:
        raise ValueError(f"{trace.name} must last at least a minute, lasted {trace.duration_s:g} s")
    place = (trace.arrival_s // FINE_S).astype(np.int64)
    inside = place < minutes
    columns: dict[str, FloatArray] = {"requests": np.bincount(place[inside], minlength=minutes).astype(np.float64)}
    for name in ("prompt_tokens", "output_tokens"):
        if name in trace.columns:
            weights = trace.columns[name][inside]
            columns[name] = np.bincount(place[inside], weights=weights, minlength=minutes).astype(np.float64)
    return CountTrace(trace.name, 0.0, float(FINE_S), columns)


def horizons_of(batch: Batch, horizons_s: Sequence[float]) -> tuple[int, ...]:
    """Return those horizons that are whole numbers of the batch's step, ascending."""
    step_s = batch.grid.step_s
    return tuple(sorted({int(h) for h in horizons_s if h >= step_s and h % step_s == 0}))
