"""Rates of counters, for all histories."""

from collections.abc import Hashable

from hypothesis import given
from hypothesis import strategies as st

from scaler.adapters.signals.counters import CounterTracker, Increase, MotionTracker
from scaler.core.values import Known, Missing, Reason

WINDOW_S, GRACE_S = 60.0, 90.0
gaps = st.lists(st.integers(1, 100).map(float), min_size=1, max_size=30)
values = st.floats(0, 1e15, allow_nan=False)


def _times(steps: list[float]) -> list[float]:
    at_s, times = 1000.0, [1000.0]
    for step in steps:
        at_s += step
        times.append(at_s)
    return times


@given(gaps, st.data())
def test_a_rate_is_never_negative(steps: list[float], data: st.DataObject) -> None:
    """Whatever a counter does (falls, repeats, stands still), its rate is absent or at least 0."""
    tracker = CounterTracker(WINDOW_S, GRACE_S)
    for at_s in _times(steps):
        tracker.observe("c", at_s, data.draw(values))
        rate = tracker.rate("c", at_s)
        assert isinstance(rate, Missing) or (isinstance(rate, Known) and rate.value >= 0)


@given(gaps, st.data())
def test_a_rising_counter_s_rate_is_its_rise_over_its_time(steps: list[float], data: st.DataObject) -> None:
    """The rise is that between its newest sample and an older one; the window is spanned wherever it can be."""
    tracker = CounterTracker(WINDOW_S, GRACE_S)
    history: dict[float, int] = {}
    total = 0
    for at_s in _times(steps):
        total += data.draw(st.integers(0, 10**9))
        history[at_s] = total
        tracker.observe("c", at_s, total)
        increase = tracker.increase("c")
        if not isinstance(increase, Increase):
            assert increase == Missing(Reason.TOO_FEW_SAMPLES)
            assert not [t for t in history if at_s - WINDOW_S - GRACE_S <= t < at_s]
            continue
        start_s = at_s - increase.span_s
        assert increase.amount == total - history[start_s]
        assert tracker.rate("c", at_s) == Known(increase.amount / increase.span_s)
        if increase.span_s < WINDOW_S:  # nothing older could have been used
            assert not [t for t in history if at_s - WINDOW_S - GRACE_S <= t < start_s]
        else:  # and nothing younger spans the window
            assert not [t for t in history if start_s < t <= at_s - WINDOW_S]


@given(gaps, st.lists(st.integers(0, 100), min_size=31, max_size=31), st.integers(0, 30))
def test_samples_that_are_no_news_change_nothing(steps: list[float], rises: list[int], again: int) -> None:
    """Repeated samples, and late ones within the window, leave the rate as it was."""
    tracker = CounterTracker(WINDOW_S, GRACE_S)
    seen: list[tuple[float, int]] = []
    total = 0
    for at_s, rise in zip(_times(steps), rises, strict=False):
        total += rise
        seen.append((at_s, total))
        tracker.observe("c", at_s, total)
    before = tracker.increase("c")
    late = [point for point in seen if point[0] >= seen[-1][0] - WINDOW_S]
    at_s, value = late[again % len(late)]
    tracker.observe("c", at_s, value)
    tracker.observe("c", at_s, 0)
    assert tracker.increase("c") == before


@given(gaps, st.data())
def test_an_engine_is_still_since_its_last_movement(steps: list[float], data: st.DataObject) -> None:
    """Stillness is the time from the last sample that differed to the newest one, and never counts unseen time."""
    tracker = MotionTracker(WINDOW_S)
    moved_s, value = 1000.0, 0
    for i, at_s in enumerate(_times(steps)):
        rise = data.draw(st.sampled_from([0, 0, 1])) if i else 0
        moved_s, value = (at_s, value + rise) if rise else (moved_s, value)
        tracker.observe("pod", at_s, {"tokens": value})
        expected = Known(at_s - moved_s) if i else Missing(Reason.TOO_FEW_SAMPLES)
        assert tracker.still_s("pod", at_s) == expected


def test_a_restart_is_movement() -> None:
    """Counters that start again, under the same or other names, end a stillness."""
    restarts: list[dict[Hashable, float]] = [{"tokens": 0.0}, {"tokens_of_another_model": 0.0}]
    for after in restarts:
        tracker = MotionTracker(WINDOW_S)
        for at_s in (0.0, 15.0, 30.0):
            tracker.observe("pod", at_s, {"tokens": 5.0})
        tracker.observe("pod", 45.0, after)
        tracker.observe("pod", 60.0, after)
        assert tracker.still_s("pod", 60.0) == Known(15.0)


def test_series_that_come_and_go_are_no_movement() -> None:
    """A series that is missing from a scrape or comes back does not hide that nothing moves."""
    tracker = MotionTracker(WINDOW_S)
    lone: dict[Hashable, float] = {"tokens": 5.0}
    for tick in range(6):
        tracker.observe("pod", 15.0 * tick, lone if tick % 2 else lone | {"rare": 1.0})
    assert tracker.still_s("pod", 75.0) == Known(75.0)


@given(gaps, st.floats(61, 1e6))
def test_a_clock_that_is_set_back_starts_a_counter_anew(steps: list[float], back_s: float) -> None:
    """What was seen at a time that is yet to come is no part of a rate, nor of a stillness."""
    counters, motion = CounterTracker(WINDOW_S, GRACE_S), MotionTracker(WINDOW_S)
    times = _times(steps)
    for at_s in times:
        counters.observe("c", at_s, 7.0)
        motion.observe("c", at_s, {"c": 7.0})
    set_s = times[-1] - back_s
    counters.observe("c", set_s, 10.0)
    motion.observe("c", set_s, {"c": 10.0})
    assert counters.rate("c", set_s) == motion.still_s("c", set_s) == Missing(Reason.TOO_FEW_SAMPLES)
    counters.observe("c", set_s + 16, 18.0)
    motion.observe("c", set_s + 16, {"c": 18.0})
    increase = counters.increase("c")
    assert isinstance(increase, Increase)
    assert increase.amount == 8.0
    assert motion.still_s("c", set_s + 16) == Known(0.0)
