"""The adaptive correction: what was really said is held against what came."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from forecasting.tracking import LEAST, MOST, RATE, SLOWER_A_STEP, Origin, Tracker

OFFSET, BOUND = np.zeros(1), np.array([1e6])
SAID = np.array([[[10.0], [20.0], [40.0]]])
CALM, RISING = Origin(np.array([False]), 0.5), Origin(np.array([True]), 0.5)
NIGHT = Origin(np.array([False]), 0.01)
_OF_A_STEP = RATE[0] / (1 + SLOWER_A_STEP)
STEP_S = 300


def _told(actual: float, origin: Origin = CALM) -> Tracker:
    """Return the state of one who said SAID from an origin, and heard what came a step later."""
    state, _ = Tracker.new(1, (1,), STEP_S).say(SAID, origin, OFFSET, BOUND)
    return state.hear(np.array([[actual]]))


def _says(state: Tracker, origin: Origin = CALM) -> np.ndarray:
    return np.asarray(state.say(SAID, origin, OFFSET, BOUND)[1])


def test_who_has_heard_nothing_corrects_nothing() -> None:
    """A new series is told what the fit says."""
    assert _says(Tracker.new(1, (1,), STEP_S)) == pytest.approx(SAID)


def test_a_miss_raises_by_nine_times_what_a_hit_lowers() -> None:
    """At 0.9 the two are even when one in ten is missed."""
    assert _told(30.0).corrections[0, 0, :, 0] == pytest.approx(_OF_A_STEP * [0.5, 0.9, -0.01])
    assert _told(5.0).corrections[0, 0, :, 0] == pytest.approx(_OF_A_STEP * [-0.5, -0.1, -0.01])


def test_what_was_not_measured_or_not_said_teaches_nothing() -> None:
    """A gap in the metrics is no hit."""
    assert not _told(float("nan")).corrections.any()
    assert not Tracker.new(1, (1,), STEP_S).hear(np.array([[1e9]])).corrections.any()


def test_a_lesson_of_one_hour_counts_most_at_that_hour() -> None:
    """What was missed at noon is corrected at noon by two parts, at night by one."""
    state = _told(30.0)
    noon, night = _says(state)[0, 1, 0], _says(state, NIGHT)[0, 1, 0]
    assert noon - 20 == pytest.approx(2 * (night - 20))
    assert night > 20


def test_a_lesson_of_rising_demand_counts_most_when_it_rises() -> None:
    """And one of calm demand says nothing special of rising demand."""
    taught = _told(30.0, RISING)
    assert _says(taught, RISING)[0, 1, 0] - 20 == pytest.approx(1.5 * (_says(taught)[0, 1, 0] - 20))
    assert _says(_told(30.0), RISING) == pytest.approx(_says(_told(30.0)))


def test_after_a_surprise_an_hour_is_corrected_by_its_own_kind() -> None:
    """What came above the 0.99 quantile makes the next hour another group, that learns apart, and then it is over."""
    state = _told(50.0)
    assert state.surprised.tolist() == [12]
    state, _ = state.say(SAID, CALM, OFFSET, BOUND)
    state = state.hear(np.array([[39.0]]))  # a miss of 0.9, no surprise
    assert state.surprised.tolist() == [11]
    calm = replace(state, surprised=np.array([0]))
    assert _says(state)[0, 1, 0] > _says(calm)[0, 1, 0] > 20


def test_an_outcome_belongs_to_the_forecast_made_for_it() -> None:
    """What comes is held against the near horizon of the last origin, and against the far one of the origin before."""
    state = Tracker.new(1, (1, 2), STEP_S)
    low, high = np.full((1, 3, 2), 1.0), np.full((1, 3, 2), 9.0)
    state, _ = state.say(high, CALM, OFFSET, BOUND)
    state, _ = state.hear(np.array([[np.nan, np.nan]])).say(low, CALM, OFFSET, BOUND)
    state = state.hear(np.array([[5.0, 5.0]]))
    assert (state.corrections[0, 0, :, 0] > 0).all()  # 1 was said for it a step ago
    assert (state.corrections[0, 0, :, 1] < 0).all()  # 9 was said for it two steps ago


def test_in_the_long_run_the_share_of_misses_is_the_nominal_one() -> None:
    """A forecast that is always half of what it should be covers nine in ten after a while all the same."""
    rng = np.random.default_rng(1)
    state, covered = Tracker.new(1, (1,), STEP_S), []
    for _ in range(4000):
        state, said = state.say(SAID / 2, CALM, OFFSET, BOUND)
        actual = rng.lognormal(np.log(10), np.log(2) / 1.2816)
        covered.append(actual <= said[0, :, 0])
        state = state.hear(np.array([[actual]]))
    assert np.mean(covered[1000:], axis=0)[:2] == pytest.approx([0.5, 0.9], abs=0.02)


@given(
    arrays(np.float64, (1, 3, 1), elements=st.floats(0, 1e9)), arrays(np.float64, 3, elements=st.floats(LEAST, MOST))
)
def test_corrected_quantiles_are_in_order_and_within_bounds(said: np.ndarray, always: np.ndarray) -> None:
    """Whatever was said, and whatever the corrections are."""
    state = Tracker.new(1, (1,), STEP_S)
    state.corrections[0, 0, :, 0] = always
    found = state.say(said, CALM, OFFSET, BOUND)[1][0, :, 0]
    assert (np.diff(found) >= 0).all()
    assert found.min() >= 0
    assert found.max() <= BOUND[0]
