"""Turns a trace into single arrivals: the same totals per bin, placed in time by a seeded draw.

Between the stamps of a trace nothing is known. What is put there: an intensity in cells of 1 s that runs linearly from
the middle of one bin to the middle of the next, scaled so that each bin keeps its own total, and modulated by an
independent gamma factor per cell, because real traffic varies more from second to second than a Poisson process does.

What an arrival may depend on. The place of an arrival in bin `b` depends on the counts of bins up to `b + 1`, the last
one by way of the interpolation alone; where bins are missing, up to the next bin that is known. Whoever decides at time
t is shown only arrivals before t, but their places within the current bin lean towards what comes. No other draw of an
earlier bin changes when a later bin does: each kind of draw has its own stream, consumed in order of bins.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scaler.traces.lengths import TokenLengths
from scaler.traces.model import BoolArray, CountTrace, FloatArray, IntArray, RequestTrace, Trace

DISPERSION = 0.25  # coefficient of variation of the gamma factor of a 1-s cell

_CELLS_PER_BLOCK = 1 << 20  # bounds the memory of a draw; it does not change the result


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """Requests in order of arrival. Arrays are read-only and of one length."""

    at_s: FloatArray  # on the trace's scale: Unix seconds, or seconds from its start
    prompt_tokens: IntArray
    output_tokens: IntArray
    start_s: float
    end_s: float
    filled: tuple[tuple[float, float], ...] = ()  # [from, to): bins without a count, filled here, unknown to a policy

    @property
    def count(self) -> int:
        """Return the number of requests."""
        return len(self.at_s)


def draw_arrivals(
    trace: Trace,
    rng: np.random.Generator,
    lengths: TokenLengths,
    *,
    scale: float = 1.0,
    dispersion: float = DISPERSION,
) -> Arrivals:
    """Draw the arrivals of a trace; the same generator state gives the same arrivals.

    `scale` multiplies the number of requests. `dispersion` is the coefficient of variation per 1-s cell, 0 for none.
    Lengths that the trace does not have come from `lengths`; a trace that has only tokens is divided into requests of
    mean length. ValueError if a parameter is out of range or no bin is known.
    """
    if not (np.isfinite(scale) and scale > 0):
        raise ValueError(f"scale must be > 0, was {scale}")
    if not 0 <= dispersion <= 3:
        raise ValueError(f"dispersion must be 0 .. 3, was {dispersion}")
    streams = _Streams(*rng.spawn(5))
    if isinstance(trace, RequestTrace):
        return _from_requests(trace, streams, lengths, scale)
    return _from_counts(trace, streams, lengths, scale, dispersion)


@dataclass(frozen=True, slots=True)
class _Streams:
    """One generator per kind of draw, so that no draw moves because another kind needed more or fewer."""

    intensity: np.random.Generator
    cells: np.random.Generator
    places: np.random.Generator
    prompts: np.random.Generator
    outputs: np.random.Generator


# --- counts ---


def _from_counts(
    trace: CountTrace, streams: _Streams, lengths: TokenLengths, scale: float, dispersion: float
) -> Arrivals:
    known = _requests_per_bin(trace, lengths)
    level, absent = _fill(trace.name, known)
    missing = _spans(trace, absent)
    counts = _whole(level * scale)
    blocks = list(_place(trace, level, counts, streams, dispersion))
    at_s = np.concatenate(blocks)
    drawn = (lengths.prompts(streams.prompts, len(at_s)), lengths.outputs(streams.outputs, len(at_s)))
    prompt, output = _keep_tokens(trace, known, np.repeat(np.arange(trace.bins), counts), drawn)
    return Arrivals(_frozen(at_s), _whole_tokens(prompt), _whole_tokens(output), trace.start_s, trace.end_s, missing)


def _requests_per_bin(trace: CountTrace, lengths: TokenLengths) -> FloatArray:
    """Return requests per bin, NaN where missing; from tokens where the trace has no requests."""
    per_request = {
        "requests": 1.0,
        "total_tokens": lengths.prompt_mean + lengths.output_mean,
        "prompt_tokens": lengths.prompt_mean,
        "output_tokens": lengths.output_mean,
    }
    for name, size in per_request.items():
        if name in trace.columns:
            return trace.columns[name] / size
    raise ValueError(f"{trace.name} must have one of {', '.join(per_request)}, had {sorted(trace.columns)}")


def _fill(name: str, counts: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Fill missing bins on the line between their known neighbours (before the first and after the last: level)."""
    missing = np.isnan(counts)
    if missing.all():
        raise ValueError(f"{name} must have at least one bin with a count, had none")
    index = np.arange(len(counts))
    return np.interp(index, index[~missing], counts[~missing]), missing


def _whole(level: FloatArray) -> IntArray:
    """Round to whole requests so that each running total is within half a request of the exact one."""
    totals = np.floor(np.cumsum(level) + 0.5).astype(np.int64)
    return np.diff(totals, prepend=0)


def _place(
    trace: CountTrace, level: FloatArray, counts: IntArray, streams: _Streams, dispersion: float
) -> Iterator[FloatArray]:
    """Yield the arrival times of successive blocks of bins, each sorted."""
    cells = max(1, round(trace.step_s))
    width_s = trace.step_s / cells
    per_block = max(1, _CELLS_PER_BLOCK // cells)
    padded = np.concatenate([level[:1], level, level[-1:]])
    for first in range(0, trace.bins, per_block):
        last = min(trace.bins, first + per_block)
        weights = _intensity(padded[first : last + 2], cells)
        if dispersion > 0:
            shape = dispersion**-2
            weights *= streams.intensity.gamma(shape, 1 / shape, weights.shape)
        in_cell = streams.cells.multinomial(counts[first:last], _shares(weights))
        where = np.repeat(np.arange(in_cell.size), in_cell.ravel()) + streams.places.random(int(in_cell.sum()))
        block_s = trace.start_s + first * trace.step_s
        yield _inside(np.sort(block_s + where * width_s), trace, counts[first:last], first)


def _intensity(level: FloatArray, cells: int) -> FloatArray:
    """Return the interpolated level in each cell: one row per bin, `level` has one more bin on either side."""
    offset = (np.arange(cells) + 0.5) / cells - 0.5  # in steps, from the middle of the bin
    before, here, after = level[:-2, None], level[1:-1, None], level[2:, None]
    slope = np.where(offset < 0, here - before, after - here)
    return np.asarray(here + slope * offset)


def _shares(weights: FloatArray) -> FloatArray:
    """Scale each row to sum 1; a row without weight is spread evenly."""
    totals = weights.sum(axis=1, keepdims=True)
    even = np.full_like(weights, 1 / weights.shape[1])
    shares: FloatArray = np.divide(weights, totals, out=even, where=totals > 0)
    return shares


def _inside(at_s: FloatArray, trace: CountTrace, counts: IntArray, first: int) -> FloatArray:
    """Move back what rounding has put on the end of its bin: at 1.7e9 s a double resolves 0.2 microseconds."""
    bins = np.repeat(np.arange(first, first + len(counts)), counts)
    start = trace.start_s + bins * trace.step_s
    end = np.nextafter(trace.start_s + (bins + 1) * trace.step_s, -np.inf)
    return np.clip(at_s, start, end)


_Lengths = tuple[FloatArray, FloatArray]  # of prompts and outputs, per request


def _keep_tokens(trace: CountTrace, requests: FloatArray, bin_of: IntArray, drawn: _Lengths) -> _Lengths:
    """Scale drawn lengths so that each bin keeps its tokens per request, for the token columns that the trace has."""
    prompt, output = drawn
    totals = trace.columns
    if not {"prompt_tokens", "output_tokens"} & set(totals):
        factor = _factor(totals.get("total_tokens"), requests, bin_of, prompt + output)
        return prompt * factor, output * factor
    return (
        prompt * _factor(totals.get("prompt_tokens"), requests, bin_of, prompt),
        output * _factor(totals.get("output_tokens"), requests, bin_of, output),
    )


def _factor(totals: FloatArray | None, requests: FloatArray, bin_of: IntArray, drawn: FloatArray) -> FloatArray:
    """Return per request what makes the mean of `drawn` in its bin that of the trace; 1 where the trace has none."""
    if totals is None:
        return np.ones(len(drawn))
    sums = np.bincount(bin_of, weights=drawn, minlength=len(totals))
    numbers = np.bincount(bin_of, minlength=len(totals))
    known = np.isfinite(totals) & (requests > 0) & (sums > 0)
    wanted = np.divide(totals, requests, out=np.zeros_like(sums), where=known) * numbers
    factor: FloatArray = np.divide(wanted, sums, out=np.ones_like(sums), where=known)
    return factor[bin_of]


def _whole_tokens(lengths: FloatArray) -> IntArray:
    """Round to whole tokens, at least one per request; rounding is carried on, so that sums are kept to a token."""
    whole = np.diff(np.floor(np.cumsum(lengths) + 0.5), prepend=0.0).astype(np.int64)
    return _frozen_int(np.maximum(whole, 1))


def _spans(trace: CountTrace, missing: BoolArray) -> tuple[tuple[float, float], ...]:
    """Return runs of missing bins as intervals of time."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], missing, [False]]).astype(np.int8)))
    return tuple(
        (trace.start_s + int(a) * trace.step_s, trace.start_s + int(b) * trace.step_s)
        for a, b in zip(edges[::2], edges[1::2], strict=True)
    )


# --- requests ---


def _from_requests(trace: RequestTrace, streams: _Streams, lengths: TokenLengths, scale: float) -> Arrivals:
    """Repeat each request `scale` times on average; the copies follow within a second, the original keeps its time."""
    copies = _whole(np.full(len(trace.arrival_s), scale))
    source = np.repeat(np.arange(len(copies)), copies)
    at_s = trace.arrival_s[source]
    is_copy = np.concatenate([[False], source[1:] == source[:-1]]) if len(source) else np.empty(0, dtype=np.bool_)
    at_s = at_s + np.where(is_copy, streams.places.random(len(source)), 0.0)
    order = np.argsort(at_s, kind="stable")
    columns = {
        "prompt_tokens": lengths.prompts(streams.prompts, len(source)),
        "output_tokens": lengths.outputs(streams.outputs, len(source)),
    }
    columns |= {name: values[source] for name, values in trace.columns.items() if name in columns}
    prompt, output = (_frozen_int(np.maximum(np.rint(columns[name][order]), 1).astype(np.int64)) for name in columns)
    end_s = float(np.nextafter(at_s.max(initial=trace.duration_s), np.inf))
    return Arrivals(_frozen(at_s[order]), prompt, output, 0.0, end_s)


def _frozen(array: FloatArray) -> FloatArray:
    array.flags.writeable = False
    return array


def _frozen_int(array: IntArray) -> IntArray:
    array.flags.writeable = False
    return array
