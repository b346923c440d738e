"""From a trace to a series: rates on a grid, where they belong."""

import numpy as np
import pytest

from scaler.traces.model import CountTrace, RequestTrace
from scaler.traces.series import batch_of, horizons_of


def _trace(counts: list[float], step_s: float, start_s: float = 0.0) -> CountTrace:
    return CountTrace("t", start_s, step_s, {"requests": np.array(counts)})


def test_counts_of_ten_seconds_become_rates_of_five_minutes_with_peaks_of_one() -> None:
    """Ten a step is one a second; one minute of twice as much is the peak. A value stands at the end of its step."""
    counts = [10.0] * 60
    counts[6:12] = [20.0] * 6
    found = batch_of(_trace(counts, 10))
    assert (found.grid.start_s, found.grid.step_s, found.grid.count) == (300, 300, 2)
    assert found.values[0] == pytest.approx([1.2, 1.0])
    assert found.peaks[0] == pytest.approx([2.0, 1.0])


def test_a_coarse_trace_keeps_its_step() -> None:
    """Half hours stay half hours, and are their own peaks."""
    found = batch_of(_trace([1800.0, np.nan, 3600.0], 1800))
    assert found.grid.step_s == 1800
    assert found.values[0] == pytest.approx([1.0, np.nan, 2.0], nan_ok=True)
    assert found.peaks[0] == pytest.approx(found.values[0], nan_ok=True)


def test_stamps_between_points_are_moved_back_by_less_than_a_step() -> None:
    """A trace that begins at 00:02:53 with steps of five minutes."""
    assert batch_of(_trace([300.0] * 4, 300, start_s=173)).grid.start_s == 300


def test_a_step_that_is_half_missing_is_missing() -> None:
    """Of ten half minutes six are not known."""
    counts = [30.0] * 4 + [np.nan] * 6
    assert np.isnan(batch_of(_trace(counts, 30)).values[0, 0])


def test_a_trace_that_begins_within_a_step_has_no_value_for_half_of_it() -> None:
    """From minute 3 on: two of five minutes are too few; the next step is whole."""
    found = batch_of(_trace([60.0] * 7, 60, start_s=180))
    assert found.values[0] == pytest.approx([np.nan, 1.0], nan_ok=True)


def test_single_requests_are_counted() -> None:
    """One a second for ten minutes and a bit."""
    trace = RequestTrace("r", np.arange(0.0, 610.0), {"prompt_tokens": np.full(610, 5.0)})
    assert batch_of(trace).values[0] == pytest.approx([1.0, 1.0])
    assert batch_of(trace, "promptTokens").values[0] == pytest.approx([5.0, 5.0])


def test_a_step_that_no_day_is_a_multiple_of_is_refused() -> None:
    """Seven minutes: no season has a whole number of them."""
    with pytest.raises(ValueError, match="step of t must be whole seconds that divide a day, was 420 s"):
        batch_of(_trace([1.0] * 5, 420))


def test_horizons_are_whole_steps() -> None:
    """Of a trace in half hours five minutes is none."""
    assert horizons_of(batch_of(_trace([1.0] * 3, 1800)), [300, 1800.0, 3600]) == (1800, 3600)
