"""Ramps: a line through the last minutes, where it is one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from forecasting.ramp import GROWTH_LIMIT, fit_ramp

STEP_S = 15.0


def test_a_rise_goes_on() -> None:
    """From 100 by 1 a second: after two minutes 220."""
    rates = (100 + STEP_S * np.arange(-11.0, 1.0))[None]
    found = fit_ramp(rates, STEP_S)
    assert found.slope == pytest.approx([1.0])
    assert found.ahead(120.0) == pytest.approx([220.0])


def test_one_odd_point_and_a_gap_change_little() -> None:
    """The slope is a median."""
    rates = 100 + STEP_S * np.arange(-11.0, 1.0)
    rates[4], rates[7] = 900.0, np.nan
    assert fit_ramp(rates[None], STEP_S).slope == pytest.approx([1.0], rel=0.05)


def test_noise_is_no_ramp() -> None:
    """Of 500 series without a slope hardly any is given one; then the level is the last value."""
    rates = np.random.default_rng(1).normal(100, 10, (500, 12))
    found = fit_ramp(rates, STEP_S)
    flat = found.slope == 0
    assert flat.mean() > 0.97
    assert found.ahead(600.0)[flat] == pytest.approx(rates[flat, -1])


def test_a_fall_is_not_extrapolated() -> None:
    """A forecast may only raise."""
    rates = (300 - STEP_S * np.arange(12.0))[None]
    found = fit_ramp(rates, STEP_S)
    assert found.slope[0] < 0
    assert found.ahead(600.0) == pytest.approx(found.level)


@given(arrays(np.float64, (3, 8), elements=st.one_of(st.floats(0, 1e9), st.just(np.nan))), st.floats(0, 3600))
def test_it_is_bounded_and_never_negative(rates: np.ndarray, lead_s: float) -> None:
    """Nor anything but a number where something is known."""
    found = fit_ramp(rates, STEP_S)
    ahead = found.ahead(lead_s)
    known = np.isfinite(rates).any(axis=1)
    assert np.isfinite(ahead[known]).all()
    assert (ahead[known] >= 0).all()
    assert (ahead[known] <= GROWTH_LIMIT * np.maximum(found.level[known], 0) + 1e-9).all()
    assert np.isnan(ahead[~known]).all()
