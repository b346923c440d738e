"""The trackers in arrays keep to the rules of those that are written for one series at a time."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scaler.adapters.signals.counters import CounterTracker, Increase, MotionTracker
from scaler.adapters.signals.windows import CounterWindow, MotionWindow, PartsWindow, moved
from scaler.core.values import Known, Missing, Reason

WINDOW_S, GRACE_S, PODS = 60.0, 90.0, 3
# None: the pod has no sample in this tick. Steps below 0 are a clock that was set back.
STEP = st.sampled_from((0.0, 5.0, 15.0, 15.0, 15.0, 15.0, 30.0, 70.0, 200.0, -10.0, -100.0))
SAMPLE = st.none() | st.tuples(STEP, st.integers(-40, 100))
TICKS = st.lists(st.tuples(*[SAMPLE] * PODS), min_size=1, max_size=14)


def samples(ticks: list[tuple[tuple[float, int] | None, ...]]) -> list[list[tuple[float, float] | None]]:
    """Return the samples of each tick: steps of time and of value added up, no value below 0."""
    at_s, values = [1000.0] * PODS, [500.0] * PODS
    found: list[list[tuple[float, float] | None]] = []
    for tick in ticks:
        row: list[tuple[float, float] | None] = []
        for pod, sample in enumerate(tick):
            if sample is not None:
                at_s[pod] += sample[0]
                values[pod] = max(0.0, values[pod] + sample[1])
            row.append(None if sample is None else (at_s[pod], values[pod]))
        found.append(row)
    return found


@given(TICKS)
def test_counters_rise_alike(ticks: list[tuple[tuple[float, int] | None, ...]]) -> None:
    """Resets, gaps, repeated samples, a clock that goes back: rises and their absences are the same."""
    tracker, window = CounterTracker(WINDOW_S, GRACE_S), CounterWindow(PODS, WINDOW_S, GRACE_S)
    for row in samples(ticks):
        for pod, sample in enumerate(row):
            if sample is not None:
                tracker.observe(pod, *sample)
        at_s = np.array([sample[0] if sample else -math.inf for sample in row])
        value = np.array([sample[1] if sample else math.nan for sample in row])
        rises = window.observe(at_s, value, np.array([sample is not None for sample in row]))
        for pod in range(PODS):
            expected = tracker.increase(pod)
            if isinstance(expected, Increase):
                assert (rises.known[pod], rises.amount[pod], rises.span_s[pod]) == (
                    True,
                    expected.amount,
                    expected.span_s,
                )
            else:
                assert not rises.known[pod]
                assert rises.reset[pod] == (expected == Missing(Reason.COUNTER_RESET))


@given(TICKS)
def test_motion_is_seen_alike(ticks: list[tuple[tuple[float, int] | None, ...]]) -> None:
    """For how long nothing has moved is the same, of two counters that come and go."""
    tracker, window = MotionTracker(WINDOW_S), MotionWindow(PODS, WINDOW_S)
    for number, row in enumerate(samples(ticks)):
        at_s = np.array([sample[0] if sample else -math.inf for sample in row])
        one = np.array([sample[1] if sample else math.nan for sample in row])
        other = np.where(number % 3 == 0, math.nan, one // 50)
        for pod, sample in enumerate(row):
            if sample is not None:
                both = {0: one[pod], 1: other[pod]}
                tracker.observe(pod, sample[0], {key: v for key, v in both.items() if not math.isnan(v)})
        still_s, until_s, known = window.observe(at_s, {0: one, 1: other})
        for pod in range(PODS):
            expected = tracker.still_s(pod, 0.0)
            assert known[pod] == isinstance(expected, Known)
            if isinstance(expected, Known):
                assert still_s[pod] == expected.value
                assert until_s[pod] == tracker._motions[pod].last_s


@given(TICKS, st.integers(0, 13), st.permutations(range(PODS)))
def test_what_is_remembered_goes_with_the_pods(
    ticks: list[tuple[tuple[float, int] | None, ...]], when: int, order: list[int]
) -> None:
    """Pods that are given in another order have the rises that they would have had in the old one."""
    one, other = CounterWindow(PODS, WINDOW_S, GRACE_S), CounterWindow(PODS, WINDOW_S, GRACE_S)
    positions = np.arange(PODS)
    for number, row in enumerate(samples(ticks)):
        if number == when:
            other.move(np.array(order))
            positions = np.array(order)
        at_s = np.array([sample[0] if sample else -math.inf for sample in row])
        value = np.array([sample[1] if sample else math.nan for sample in row])
        good = ~np.isnan(value)
        expected = one.observe(at_s, value, good)
        found = other.observe(at_s[positions], value[positions], good[positions])
        assert np.array_equal(found.known, expected.known[positions])
        assert np.array_equal(found.amount[found.known], expected.amount[positions][found.known])


def test_a_pod_that_is_new_has_nothing_to_remember() -> None:
    """It does not inherit what a pod had whose place it takes."""
    assert moved(np.array([1.0, 2.0]), np.array([1, -1, 0]), 0.0).tolist() == [2.0, 0.0, 1.0]
    assert moved(np.array([]), np.array([-1, -1]), 7.0).tolist() == [7.0, 7.0]


def parts(window: PartsWindow, count: float, at_s: float) -> tuple[bool, bool]:
    """Let a pod have so many parts, and return whether some are lost, and whether the number changed."""
    lost, changed = window.observe(np.array([count]), np.array([at_s]), at_s)
    return bool(lost[0]), bool(changed[0])


def test_a_part_that_is_away_is_lost_until_it_is_back_or_forgotten() -> None:
    """A rank that falls silent is missed for ten minutes; the sums of counters do not go on over either change."""
    window = PartsWindow(1)
    assert [parts(window, 2.0, at_s) for at_s in (0.0, 15.0)] == [(False, False)] * 2
    assert parts(window, 1.0, 30.0) == (True, True)
    assert parts(window, 1.0, 45.0) == (True, False)
    assert parts(window, 0.0, 60.0) == (False, False)  # not seen at all: no rank speaks for the others
    assert parts(window, 2.0, 75.0) == (False, True)
    assert parts(window, 1.0, 90.0) == (True, True)
    assert parts(window, 1.0, 75.0 + 600.0) == (True, False)
    assert parts(window, 1.0, 75.0 + 601.0) == (False, False)
