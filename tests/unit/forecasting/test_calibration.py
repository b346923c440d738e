"""Calibration: quantiles from what an expert was off by."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from forecasting.calibration import LEAST, Shifts, Windows, after_shift, residual_quantiles


def test_windows_are_a_day_and_five_and_never_a_handful() -> None:
    """At 5 minutes 288 and 1,440 points, of which every third is replayed; at an hour no fewer than 100 and 500."""
    assert Windows.of(288) == Windows(288, 1440)
    assert Windows.of(288, stride=3) == Windows(96, 480)
    assert Windows.of(24) == Windows(100, 500)


def test_too_few_residuals_say_nothing() -> None:
    """A quantile of a handful would be a guess."""
    few = np.arange(LEAST - 1, dtype=float)
    assert np.isnan(residual_quantiles(few, (0.9,), Windows(100, 500))).all()
    assert np.isfinite(residual_quantiles(np.append(few, 0.0), (0.9,), Windows(100, 500))).all()


def test_the_rank_is_that_of_a_new_residual() -> None:
    """Of 99 residuals the 90th is passed by a new one with probability 0.1: rank q (n + 1)."""
    found = residual_quantiles(np.arange(1.0, 100.0), (0.5, 0.9, 0.99), Windows(99, 99))
    assert found == pytest.approx([50.0, 90.0, 99.0])


def test_unknown_residuals_are_left_out() -> None:
    """A gap is neither a small error nor a large one."""
    known = np.arange(1.0, 100.0)
    gaps = np.insert(known, [10, 40, 80], np.nan)
    windows = Windows(200, 200)
    assert residual_quantiles(gaps, (0.9,), windows) == pytest.approx(residual_quantiles(known, (0.9,), windows))


@given(st.integers(0, 10_000))
def test_what_is_calibrated_covers(seed: int) -> None:
    """New errors of the same kind stay below the 0.9 quantile nine times in ten, whatever the bias of the expert."""
    rng = np.random.default_rng(seed)
    actual = rng.gamma(2.0, size=3000)
    predicted = np.full((1, 1, 1, 2000), np.log(0.1))  # far below what comes
    windows = Windows(2000, 2000)
    shifts = Shifts.fit(predicted, np.log(actual[None, None, :2000]), np.zeros(1), (0.5, 0.9, 0.99), windows)
    by_ratio, by_amount = shifts.candidates(np.exp(predicted[..., :1]), np.zeros(1), 1)[0, :, 0, 0]
    for bound in (by_ratio, by_amount):
        assert (actual[2000:] <= bound).mean() == pytest.approx(0.9, abs=0.05)


def test_a_ratio_scales_and_an_amount_stays() -> None:
    """Of an expert that was a tenth too low at a level of 100, at 1000 the ratio says 1100 and the amount 1010."""
    predicted = np.full((1, 1, 1, 50), np.log(100.0))
    shifts = Shifts.fit(predicted, np.full((1, 1, 50), np.log(110.0)), np.zeros(1), (0.5,), Windows(50, 50))
    found = shifts.candidates(np.array([[[[1000.0]]]]), np.zeros(1), 0)[0, :, 0, 0]
    assert found == pytest.approx([1100.0, 1010.0])


LEVELS = (0.5, 0.9)


def _shifted(since: int) -> NDArray[np.float64]:
    """Return what is added to the median and the 0.9 quantile when the last `since` of 400 residuals are 2 higher."""
    residuals = np.random.default_rng(2).normal(0, 0.1, (1, 1, 400, 2))
    residuals[:, :, 400 - since :] += 2.0
    found: NDArray[np.float64] = after_shift(residuals, np.array([since]), LEVELS, Windows(100, 400))
    return np.asarray(found[0, 0])


def test_without_a_shift_all_residuals_count() -> None:
    """As in any other calibration."""
    assert _shifted(0) == pytest.approx([0.0, 0.13], abs=0.05)


def test_after_a_shift_only_what_came_since_counts() -> None:
    """Two hundred origins later nothing is left of the time before."""
    assert _shifted(200) == pytest.approx([2.0, 2.13], abs=0.06)


def test_just_after_a_shift_the_centre_moves_and_what_is_above_widens() -> None:
    """Of six origins a quantile cannot be known, but that the series is 2 higher can."""
    middle, upper = _shifted(6)
    assert middle == pytest.approx(2.0, abs=0.1)
    assert upper == pytest.approx(4.13, abs=0.2)
