"""Surges, from demand alone."""

import numpy as np
import pytest

from scaler.traces.surges import surge_starts

LEAD_S = 240.0


def flat(level: float = 600.0, minutes: int = 60) -> np.ndarray:
    """A level for so many minutes."""
    return np.full(minutes, level)


def test_a_step_is_one_surge_at_its_first_minute() -> None:
    """From 600 to 1200 a minute at minute 60; the four minutes that compare with before it are one surge."""
    assert surge_starts(np.concatenate([flat(), flat(1200)]), LEAD_S) == [60]


def test_two_steps_are_two_surges() -> None:
    """An hour apart."""
    assert surge_starts(np.concatenate([flat(), flat(1200), flat(2400)]), LEAD_S) == [60, 120]


def test_a_rise_below_a_third_is_none() -> None:
    """Twenty-five per cent, however significant."""
    assert surge_starts(np.concatenate([flat(60_000), flat(75_000)]), LEAD_S) == []


def test_a_rise_among_little_traffic_is_none() -> None:
    """Doubling at a tenth of the peak."""
    assert surge_starts(np.concatenate([flat(1200), flat(50), flat(100)]), LEAD_S) == []


@pytest.mark.parametrize("seed", range(20))
def test_a_rise_within_the_noise_is_hardly_ever_one(seed: int) -> None:
    """Five hours of a level far more dispersed than a Poisson process: four sigma leave at most one by chance."""
    noise = np.random.default_rng(seed).negative_binomial(5, 5 / 105, 300).astype(float)
    assert len(surge_starts(noise, LEAD_S)) <= 1


def test_what_is_unknown_begins_no_surge() -> None:
    """A gap, and a file of gaps."""
    counts = np.concatenate([flat(), flat(1200)])
    counts[55:61] = np.nan
    assert 60 not in surge_starts(counts, LEAD_S)
    assert surge_starts(np.full(100, np.nan), LEAD_S) == []
    assert surge_starts(np.array([1.0, 2.0]), LEAD_S) == []


@pytest.mark.parametrize("lead_s", [1.0, 60.0, 900.0])
def test_any_lead_time_is_taken(lead_s: float) -> None:
    """Below a minute it is one."""
    assert surge_starts(np.concatenate([flat(), flat(1200)]), lead_s) == [60]
