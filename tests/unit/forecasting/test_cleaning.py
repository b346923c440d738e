"""From raw samples to a series: nothing that cannot be true gets in, and nothing is lost without being told."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecasting.cleaning import Fault, Kind, clean, coarser, looks_like_a_counter, zero_outages
from forecasting.series import Grid

GRID = Grid(300, 300, 4)  # the steps from 0 to 1200 s
TIMES = np.arange(15.0, 1200.0, 30.0)
ONES = np.ones(len(TIMES))


def _clean(times: np.ndarray, values: np.ndarray, **more: object) -> tuple[np.ndarray, dict[Fault, int]]:
    found = clean(times, values, GRID, now_s=10_000.0, **more)  # type: ignore[arg-type]
    return found.series.values, dict(found.faults)


def test_what_is_fine_is_kept_and_nothing_is_told() -> None:
    """Twenty minutes of a constant rate."""
    values, faults = _clean(TIMES, ONES)
    assert values == pytest.approx(np.ones(4))
    assert faults == {}


def test_the_order_of_samples_does_not_matter() -> None:
    """Late samples are put in their place, and counted."""
    order = np.random.default_rng(1).permutation(len(TIMES))
    values, faults = _clean(TIMES[order], TIMES[order])
    assert values == pytest.approx(_clean(TIMES, TIMES)[0])
    assert faults[Fault.OUT_OF_ORDER] > 0


def test_of_two_samples_at_one_time_the_last_counts() -> None:
    """The seam of two answers to range queries."""
    values, faults = _clean(np.append(TIMES, TIMES), np.append(5 * ONES, ONES))
    assert values == pytest.approx(np.ones(4))
    assert faults[Fault.DUPLICATE] == len(TIMES)


@pytest.mark.parametrize(
    ("value", "time_s", "fault"),
    [
        (np.nan, 20.0, Fault.NOT_FINITE),
        (np.inf, 20.0, Fault.NOT_FINITE),
        (-1.0, 20.0, Fault.NEGATIVE),
        (9e9, 10_001.0, Fault.FUTURE),
    ],
)
def test_what_cannot_be_true_is_dropped_and_counted(value: float, time_s: float, fault: Fault) -> None:
    """Not finite, negative, or of the future."""
    values, faults = _clean(np.append(TIMES, time_s), np.append(ONES, value))
    assert values == pytest.approx(np.ones(4))
    assert faults == {fault: 1}


def test_an_outage_is_missing_and_never_zero() -> None:
    """Ten minutes in which the collector was down."""
    values, faults = _clean(TIMES, ONES, outages=[(300.0, 900.0)])
    assert np.isnan(values).tolist() == [False, True, True, False]
    assert faults == {Fault.OUTAGE: 20}


def test_a_counter_becomes_a_rate() -> None:
    """Two a second; the edges before the first and after the last sample are not known."""
    values, _ = _clean(np.arange(0.0, 1201.0, 15.0), 2 * np.arange(0.0, 1201.0, 15.0), kind=Kind.COUNTER)
    assert values == pytest.approx(np.full(4, 2.0))


def test_a_restart_of_a_counter_is_no_fall() -> None:
    """It begins at zero again: the increase is what it shows, and the rate stays."""
    times = np.arange(0.0, 1201.0, 15.0)
    values, faults = _clean(times, np.where(times < 600, 2 * times, 2 * (times - 600) + 30), kind=Kind.COUNTER)
    assert values == pytest.approx(np.full(4, 2.0))
    assert faults == {Fault.RESET: 1}


def test_a_gap_of_a_counter_is_missing() -> None:
    """Two samples a quarter of an hour apart do not say when it grew."""
    times = np.array([0.0, 60.0, 120.0, 180.0, 240.0, 300.0, 1140.0, 1200.0])
    values, _ = _clean(times, 2 * times, kind=Kind.COUNTER)
    assert np.isnan(values).tolist() == [False, True, True, True]


def test_a_counter_that_is_given_as_a_gauge_is_told_of() -> None:
    """It would scale forever."""
    assert _clean(TIMES, np.cumsum(ONES))[1] == {}  # too short to say
    assert looks_like_a_counter(np.cumsum(np.ones(100)))
    assert not looks_like_a_counter(np.random.default_rng(1).normal(10, 1, 100))


def test_zeros_are_an_outage_only_where_there_never_are_any() -> None:
    """A busy service does not stop for a quarter of an hour and go on as before; a queue of jobs does."""
    busy = np.random.default_rng(1).normal(100, 10, 200)
    busy[100:103] = 0
    assert np.flatnonzero(zero_outages(busy)).tolist() == [100, 101, 102]
    busy[50] = 1.0
    assert not zero_outages(busy).any()


def test_a_step_is_known_when_half_of_it_is() -> None:
    """And its peak is the largest of what is known."""
    mean, peak = coarser(np.array([1.0, 3.0, np.nan, np.nan, 5.0, np.nan, np.nan, np.nan]), 4)
    assert mean[0] == 2.0
    assert peak[0] == 3.0
    assert np.isnan(mean[1])


@given(st.lists(st.tuples(st.floats(-100, 2000), st.one_of(st.floats(-1e300, 1e300), st.just(np.nan))), max_size=60))
def test_whatever_comes_what_is_left_could_be_true(samples: list[tuple[float, float]]) -> None:
    """Finite rates of the grid that are not negative and within what was seen, and peaks not below them."""
    times, values = np.array([t for t, _ in samples]), np.array([v for _, v in samples])
    found = clean(times, values, GRID, now_s=1200.0)
    known = np.isfinite(found.series.values)
    assert (found.series.values[known] >= 0).all()
    seen = values[np.isfinite(values)]
    assert (found.series.values[known] <= seen.max(initial=0.0) * (1 + 1e-12)).all()
    assert (found.peaks[known] >= found.series.values[known] * (1 - 1e-12)).all()
    assert (np.isfinite(found.peaks) == known).all()
