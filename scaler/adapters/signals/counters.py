"""What counters need between ticks: rates over a window, resets, and for how long nothing has moved.

Everything goes by the time stamps of samples. The same sample seen again is no new information.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from scaler.core.values import Known, Missing, Reading, Reason


@dataclass(frozen=True, slots=True)
class Increase:
    """How much a counter rose, over how long, until when."""

    amount: float
    span_s: float
    until_s: float


@dataclass(slots=True)
class _Series:
    points: list[tuple[float, float]]  # (time, value), oldest first, none decreasing
    reset: bool = False  # the series fell; nothing is known until two samples after the fall


class CounterTracker:
    """Remembers the samples of counters over a window and tells their rates. Memory is bounded by `forget`.

    A fall is a reset: what was counted before it is dropped, and the rate is Missing until there are two samples after
    it. The Prometheus way of adding the value after a reset guesses that the counter restarted at 0 just after the
    previous sample.
    """

    def __init__(self, window_s: float, grace_s: float) -> None:
        """Keep `window_s` of samples, and one that is up to `grace_s` older, so that a rate spans the window."""
        self._window_s = window_s
        self._grace_s = grace_s
        self._series: dict[Hashable, _Series] = {}

    def __len__(self) -> int:
        return len(self._series)

    def observe(self, key: Hashable, at_s: float, value: float) -> None:
        """Take a sample of a counter: finite and not negative. One that is not newer than the last is ignored.

        One that is older by more than the window tells that the clock was set back: the series starts anew.
        """
        series = self._series.get(key)
        if series is None or at_s < series.points[-1][0] - self._window_s:
            self._series[key] = _Series([(at_s, value)])
            return
        last_s, last = series.points[-1]
        if at_s <= last_s:
            return
        if value < last:
            series.points, series.reset = [(at_s, value)], True
            return
        series.points.append((at_s, value))
        series.points = self._within_window(series.points)
        series.reset = series.reset and len(series.points) < 2

    def increase(self, key: Hashable) -> Increase | Missing:
        """Return how much the counter rose over its window, or why that is not known."""
        series = self._series.get(key)
        if series is None:
            return Missing(Reason.NO_SERIES)
        if len(series.points) < 2:
            return Missing(Reason.COUNTER_RESET if series.reset else Reason.TOO_FEW_SAMPLES)
        (start_s, start), (end_s, end) = series.points[0], series.points[-1]
        return Increase(end - start, end_s - start_s, end_s)

    def rate(self, key: Hashable, now_s: float) -> Reading:
        """Return the rise per second over the window; its age is that of the newest sample."""
        increase = self.increase(key)
        if isinstance(increase, Missing):
            return increase
        return Known(increase.amount / increase.span_s, max(0.0, now_s - increase.until_s))

    def forget(self, before_s: float) -> None:
        """Drop series that have not been seen since `before_s`."""
        self._series = {key: series for key, series in self._series.items() if series.points[-1][0] >= before_s}

    def _within_window(self, points: list[tuple[float, float]]) -> list[tuple[float, float]]:
        newest_s = points[-1][0]
        start_s = newest_s - self._window_s
        first = next(i for i, (at_s, _) in enumerate(points) if at_s >= start_s)
        if first > 0 and points[first][0] > start_s and points[first - 1][0] >= start_s - self._grace_s:
            first -= 1  # without it the rate would span less than the window
        return points[first:]


@dataclass(slots=True)
class _Motion:
    first_s: float
    last_s: float
    moved_s: float
    values: Mapping[Hashable, float] = field(default_factory=dict)


class MotionTracker:
    """Remembers per owner when any of its progress counters last moved, to tell a frozen engine from an idle one.

    Series that come and go are no movement, unless nothing of what was there is left: then the engine restarted, and
    stillness is counted from there. A counter that fell has moved.
    """

    def __init__(self, window_s: float) -> None:
        """Take a sample that is older than the newest by more than `window_s` as that of a clock that was set back."""
        self._window_s = window_s
        self._motions: dict[Hashable, _Motion] = {}

    def __len__(self) -> int:
        return len(self._motions)

    def observe(self, owner: Hashable, at_s: float, values: Mapping[Hashable, float]) -> None:
        """Take the values of an owner's progress counters, sampled at `at_s`."""
        motion = self._motions.get(owner)
        if motion is None or at_s < motion.last_s - self._window_s:
            self._motions[owner] = _Motion(at_s, at_s, at_s, values)
            return
        if at_s <= motion.last_s:
            return
        shared = motion.values.keys() & values.keys()
        if not shared or any(motion.values[key] != values[key] for key in shared):
            motion.moved_s = at_s
        motion.last_s, motion.values = at_s, values

    def still_s(self, owner: Hashable, now_s: float) -> Reading:
        """Return for how long nothing has moved, up to the newest sample; a lower bound until something has."""
        motion = self._motions.get(owner)
        if motion is None:
            return Missing(Reason.NO_SERIES)
        if motion.last_s == motion.first_s:
            return Missing(Reason.TOO_FEW_SAMPLES)
        return Known(motion.last_s - motion.moved_s, max(0.0, now_s - motion.last_s))

    def forget(self, before_s: float) -> None:
        """Drop owners that have not been seen since `before_s`."""
        self._motions = {key: motion for key, motion in self._motions.items() if motion.last_s >= before_s}
