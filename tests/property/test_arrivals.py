"""Arrivals for any trace: totals kept, order kept, seeds kept, and no look beyond what interpolation needs."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.traces.arrivals import Arrivals, draw_arrivals
from scaler.traces.lengths import TokenLengths
from scaler.traces.model import CountTrace, RequestTrace
from tests.plant_builders import T0, count_trace

LENGTHS = TokenLengths(prompt_mean=100, prompt_sigma=0.7, output_mean=20, output_sigma=0.8)

counts = st.lists(st.integers(0, 40).map(float), min_size=2, max_size=12)
steps = st.sampled_from([0.5, 1.0, 7.0, 10.0])
seeds = st.integers(0, 2**32 - 1)
dispersions = st.sampled_from([0.0, 0.25, 2.0])


def drawn(trace: CountTrace, seed: int = 1, *, scale: float = 1.0, dispersion: float = 0.25) -> Arrivals:
    return draw_arrivals(trace, np.random.default_rng(seed), LENGTHS, scale=scale, dispersion=dispersion)


def per_bin(arrivals: Arrivals, trace: CountTrace) -> list[int]:
    edges = trace.start_s + trace.step_s * np.arange(trace.bins + 1)
    return [int(n) for n in np.histogram(arrivals.at_s, edges)[0]]


@given(counts, steps, seeds, dispersions)
def test_every_bin_keeps_its_total(requests: list[float], step_s: float, seed: int, dispersion: float) -> None:
    """Each bin has exactly its requests, in order of time, inside the bin."""
    trace = count_trace(requests, step_s=step_s)
    arrivals = drawn(trace, seed, dispersion=dispersion)
    assert list(arrivals.at_s) == sorted(arrivals.at_s)
    assert arrivals.count == sum(requests)
    bins = np.repeat(np.arange(trace.bins), np.asarray(requests, dtype=int))
    assert np.all(arrivals.at_s >= trace.start_s + bins * step_s)
    assert np.all(arrivals.at_s < trace.start_s + (bins + 1) * step_s)


@given(counts, st.floats(0.01, 3.0), seeds)
def test_scaling_carries_what_it_rounds(requests: list[float], scale: float, seed: int) -> None:
    """Scaled, each running total is within half a request of the exact one."""
    trace = count_trace(requests)
    totals = np.cumsum(per_bin(drawn(trace, seed, scale=scale), trace))
    assert np.all(np.abs(totals - scale * np.cumsum(requests)) <= 0.5 + 1e-9)


@given(counts, seeds)
def test_one_seed_one_result(requests: list[float], seed: int) -> None:
    """The same seed gives the same arrivals and lengths."""
    one, two = drawn(count_trace(requests), seed), drawn(count_trace(requests), seed)
    for name in ("at_s", "prompt_tokens", "output_tokens"):
        assert np.array_equal(getattr(one, name), getattr(two, name))


@given(counts, counts, seeds)
def test_the_future_does_not_move_the_past(before: list[float], after: list[float], seed: int) -> None:
    """Other counts from bin b on leave the arrivals up to bin b - 2 as they were, and the lengths drawn for them."""
    one = drawn(count_trace([*before, 1.0, 2.0]), seed)
    two = drawn(count_trace([*before, *after]), seed)
    kept = int(sum(before[:-1]))  # the last bin before the change leans towards it
    for name in ("at_s", "prompt_tokens", "output_tokens"):
        assert np.array_equal(getattr(one, name)[:kept], getattr(two, name)[:kept])


@given(st.lists(st.one_of(st.just(math.nan), st.integers(0, 40).map(float)), min_size=2, max_size=12), seeds)
def test_missing_bins_are_filled_and_said_to_be(requests: list[float], seed: int) -> None:
    """A missing bin is filled between its neighbours and marked; the others keep their totals to the carried half."""
    trace = count_trace(requests)
    if all(math.isnan(value) for value in requests):
        with pytest.raises(ValueError, match="at least one bin with a count"):
            drawn(trace, seed)
        return
    arrivals = drawn(trace, seed)
    marked = {
        index for start, end in arrivals.filled for index in range(round((start - T0) / 10), round((end - T0) / 10))
    }
    assert marked == {index for index, value in enumerate(requests) if math.isnan(value)}
    known = [value for value in requests if not math.isnan(value)]
    numbers = per_bin(arrivals, trace)
    for index, value in enumerate(requests):
        low, high = (min(known), max(known)) if math.isnan(value) else (value, value)
        assert low - 1 <= numbers[index] <= high + 1


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(100, 9000)), min_size=2, max_size=8), seeds)
def test_tokens_of_a_bin_are_kept(bins: list[tuple[int, int]], seed: int) -> None:
    """Where a trace has a bin's tokens, the lengths drawn for it add up to them, to a token of carried rounding."""
    requests, tokens = zip(*bins, strict=True)
    trace = count_trace([float(n) for n in requests], prompt_tokens=[float(n) for n in tokens])
    arrivals = drawn(trace, seed)
    bin_of = np.repeat(np.arange(trace.bins), requests)
    sums = np.bincount(bin_of, weights=arrivals.prompt_tokens, minlength=trace.bins)
    short = np.bincount(bin_of, weights=arrivals.prompt_tokens == 1, minlength=trace.bins)  # raised to one token
    assert np.all(np.abs(sums - np.asarray(tokens)) <= 1 + short)


def test_the_intensity_is_interpolated() -> None:
    """Within a bin arrivals lean towards the busier neighbour; without neighbours that differ they are even."""
    trace = count_trace([0.0, 10_000.0, 20_000.0, 20_000.0, 20_000.0], step_s=100.0)
    arrivals = drawn(trace, dispersion=0.0)
    halves = np.histogram(arrivals.at_s, T0 + 50.0 * np.arange(11))[0]
    # Bin 1 rises from 5,000 to 15,000 (per its length): 7,500 / 20,000 of it lie in its first half.
    assert halves[2] / 10_000 == pytest.approx(0.375, abs=0.02)
    assert halves[6] / 20_000 == pytest.approx(0.5, abs=0.02)


def test_counts_per_second_vary_more_than_poisson() -> None:
    """The gamma factor adds the variance that its coefficient of variation says, and none when it is 0."""
    trace = count_trace([40_000.0] * 4, step_s=1000.0)
    for dispersion, expected in ((0.0, 1.0), (0.25, 1 + 40 * 0.25**2)):
        seconds = np.histogram(drawn(trace, dispersion=dispersion).at_s, T0 + np.arange(4001))[0]
        assert seconds.var() / seconds.mean() == pytest.approx(expected, rel=0.15)


def test_a_trace_of_tokens_only_becomes_requests() -> None:
    """Without requests a trace is divided into requests of mean length, and its tokens are kept."""
    trace = CountTrace("made", 0.0, 60.0, {"total_tokens": np.asarray([1200.0, 12_000.0])})
    arrivals = drawn(trace)
    assert per_bin(arrivals, trace) == [10, 100]
    assert arrivals.prompt_tokens.sum() + arrivals.output_tokens.sum() == pytest.approx(13_200, abs=2)


def test_recorded_requests_are_kept() -> None:
    """Recorded requests keep their times and lengths; what the file lacks is drawn."""
    trace = RequestTrace("made", np.asarray([0.0, 1.5, 1.5]), {"prompt_tokens": np.asarray([5.0, 0.0, 7.0])})
    arrivals = draw_arrivals(trace, np.random.default_rng(1), LENGTHS)
    assert list(arrivals.at_s) == [0.0, 1.5, 1.5]
    assert list(arrivals.prompt_tokens) == [5, 1, 7]  # an engine needs a token to start from
    assert np.all(arrivals.output_tokens >= 1)
    assert arrivals.end_s > arrivals.at_s[-1]


def test_recorded_requests_scaled() -> None:
    """Scaled up, each request is repeated within a second; scaled down, some are left out."""
    trace = RequestTrace("made", np.arange(100.0) * 10, {})
    more = draw_arrivals(trace, np.random.default_rng(1), LENGTHS, scale=2.5)
    fewer = draw_arrivals(trace, np.random.default_rng(1), LENGTHS, scale=0.25)
    assert (more.count, fewer.count) == (250, 25)
    assert np.all(np.diff(more.at_s) >= 0)
    assert np.all(more.at_s % 10 < 1)


@pytest.mark.parametrize("bad", [{"scale": 0.0}, {"scale": math.inf}, {"dispersion": -0.1}, {"dispersion": math.nan}])
def test_parameters_have_ranges(bad: dict[str, float]) -> None:
    """A parameter out of range is named with its value."""
    name, value = next(iter(bad.items()))
    with pytest.raises(ValueError, match=f"{name} must be .*, was {value}"):
        draw_arrivals(count_trace([1.0, 2.0]), np.random.default_rng(1), LENGTHS, **bad)
