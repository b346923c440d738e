"""Surges, ramps and shifts: what must be seen, and what must not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecasting.detection import (
    RAMP_LIMIT,
    RAMP_SLACK,
    Cusum,
    Dispersion,
    fit_dispersion,
    is_surge,
    ramping,
    shifted_since,
    surge_floor,
    surges,
)
from scaler.traces.surges import surge_starts

POISSON = Dispersion(np.array([1 / 60]), np.array([0.0]))


def _is_surge(now: float, before: float, floor: float = 0.0, dispersion: Dispersion = POISSON) -> bool:
    return bool(is_surge(np.array([now]), np.array([before]), np.array([floor]), dispersion)[0])


def test_a_surge_is_a_rise_that_matters_and_is_no_noise() -> None:
    """Doubling from 100 a second is one; a rise of a fifth is not, nor one below the floor, nor 6 requests after 3."""
    assert _is_surge(200, 100)
    assert not _is_surge(120, 100)
    assert not _is_surge(200, 100, floor=300)
    assert not _is_surge(6 / 60, 3 / 60)


def test_crowds_vary_more_than_a_poisson_process() -> None:
    """What is a surge of independent users is noise of a service that swings by a third each minute."""
    assert not _is_surge(200, 100, dispersion=Dispersion(np.array([1 / 60]), np.array([0.33])))


@pytest.mark.parametrize(("now", "before"), [(np.nan, 100.0), (200.0, np.nan), (0.0, 0.0)])
def test_what_is_not_known_is_no_surge(now: float, before: float) -> None:
    """Nor is nothing after nothing."""
    assert not _is_surge(now, before)


@pytest.mark.parametrize(("linear", "relative"), [(1 / 60, 0.0), (0.2, 0.0), (1 / 60, 0.2), (0.1, 0.1)])
def test_the_dispersion_of_a_series_is_found(linear: float, relative: float) -> None:
    """Its standard deviation within a fifth at the mean level, from two days of minutes with a season and surges."""
    rng = np.random.default_rng(8)
    mean = 20 + 15 * np.sin(np.arange(2880) / 2880 * 4 * np.pi)
    true = Dispersion(np.array([linear]), np.array([relative]))
    rates = rng.normal(mean, np.sqrt(true.variance(mean)))
    rates[500:520] *= 4
    found = fit_dispersion(rates[None], 60)
    level = np.array([20.0])
    assert np.sqrt(found.variance(level)) == pytest.approx(np.sqrt(true.variance(level)), rel=0.2)


def test_it_is_never_below_a_poisson_process() -> None:
    """A constant is no proof of order."""
    found = fit_dispersion(np.full((1, 500), 5.0), 60)
    assert found.linear[0] == pytest.approx(1 / 60)
    assert found.relative[0] == 0


def test_it_agrees_with_the_offline_definition() -> None:
    """Of counts of a minute with surges, each start that the definition names is in a surge here."""
    rng = np.random.default_rng(9)
    rates = np.full(2000, 10.0)
    rates[700:760] = 30.0
    rates[1500:1540] = 25.0
    counts = rng.poisson(60 * rates)
    starts = surge_starts(counts.astype(float), 300.0)
    found = surges(counts[None] / 60, 5, fit_dispersion(counts[None] / 60, 60), surge_floor(counts[None] / 60))[0]
    assert len(starts) == 2
    assert found[starts].all()
    assert found.sum() < 40


def test_a_slow_ramp_is_seen_and_noise_is_rarely() -> None:
    """A drift of one standard deviation is seen within a dozen points; noise raises an alarm less than once in 500."""
    rng = np.random.default_rng(10)
    state, seen = Cusum.new(1), -1
    for step in range(30):
        state = state.after(np.array([1.0]), RAMP_SLACK, RAMP_LIMIT)
        if ramping(state)[0]:
            seen = step
            break
    assert 0 < seen <= 12
    state, alarms = Cusum.new(50), 0
    for residual in rng.normal(size=(2000, 50)):
        state = state.after(residual, RAMP_SLACK, RAMP_LIMIT)
        alarms += int(ramping(state).sum())
        state = Cusum(np.where(ramping(state), 0.0, state.up), state.down, state.up_since, state.down_since)
    assert alarms < 2000 * 50 / 500


@pytest.mark.parametrize("size", [3.0, -3.0])
def test_a_shift_is_found_with_its_onset(size: float) -> None:
    """Of three standard deviations, up or down, 20 points ago: to within a few points."""
    residuals = np.random.default_rng(11).normal(size=(20, 300))
    residuals[:, 280:] += size
    found = shifted_since(residuals)
    assert ((found >= 18) & (found <= 26)).all()


def test_noise_is_no_shift() -> None:
    """A day of points of 200 series: none."""
    assert not shifted_since(np.random.default_rng(12).normal(size=(200, 288))).any()


@given(st.lists(st.one_of(st.floats(-10, 10), st.just(np.nan)), min_size=1, max_size=40))
def test_what_is_unknown_changes_no_sum(residuals: list[float]) -> None:
    """A gap in between is as if the points had not been."""
    with_gaps, without = Cusum.new(1), Cusum.new(1)
    for residual in residuals:
        with_gaps = with_gaps.after(np.array([residual]), RAMP_SLACK, RAMP_LIMIT)
        if np.isfinite(residual):
            without = without.after(np.array([residual]), RAMP_SLACK, RAMP_LIMIT)
    assert with_gaps.up == pytest.approx(without.up)
    assert with_gaps.down == pytest.approx(without.down)
