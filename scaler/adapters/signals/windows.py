"""What counters need between ticks, for all pods of a preset at once: the trackers of `counters` and `parts` in arrays.

The rules are those of `CounterTracker`, `MotionTracker` and `PartsMemory`, which are written to be read; a test holds
the two against each other. Here a pod is a position in arrays, and each rule one pass over all of them.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from scaler.adapters.signals.parts import REMEMBERED_S

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.intp]  # for each pod, where it was before; -1 where it was not
_Scalar = TypeVar("_Scalar", bound=np.generic)
_MOST_POINTS = 256  # ticks that a window can hold; of one with more, the oldest are forgotten


@dataclass(frozen=True, slots=True)
class Rises:
    """How much a counter of each pod rose, over how many seconds; where `known`. `reset` says why it is not."""

    amount: Floats
    span_s: Floats
    known: Flags
    reset: Flags


@dataclass(slots=True)
class _Point:
    """What was sampled in one tick. NaN: nothing new."""

    number: int
    at_s: Floats
    value: Floats


class CounterWindow:
    """The samples of one counter of many pods over a window. See `CounterTracker` for what counts as a reset."""

    def __init__(self, pods: int, window_s: float, grace_s: float) -> None:
        """Keep `window_s` of samples, and one that is up to `grace_s` older, so that a rate spans the window."""
        self._window_s = window_s
        self._grace_s = grace_s
        self._number = 0
        self._points: deque[_Point] = deque(maxlen=_MOST_POINTS)
        self._last_s = np.full(pods, -np.inf)
        self._last = np.full(pods, np.nan)
        self._since = np.zeros(pods, dtype=np.int64)  # the number of the first point that counts
        self._reset = np.zeros(pods, dtype=np.bool_)
        self._anew = np.zeros(pods, dtype=np.bool_)  # the next sample has nothing to do with those before it

    def restart(self, where: Flags) -> None:
        """Let the next good sample of these pods, whenever it comes, have nothing to do with those before it."""
        self._anew = self._anew | where

    def observe(self, at_s: Floats, value: Floats, good: Flags) -> Rises:
        """Take a sample of each pod, where it is `good`, and return how much each rose over the window."""
        self._number += 1
        first = good & ((self._last_s == -np.inf) | (at_s < self._last_s - self._window_s))
        new = good & ((at_s > self._last_s) | first)
        fell = new & ~first & ((value < self._last) | self._anew)
        self._anew = self._anew & ~new
        self._since[first | fell] = self._number
        self._reset = fell | (self._reset & ~first)
        self._last_s = np.where(new, at_s, self._last_s)
        self._last = np.where(new, value, self._last)
        self._points.append(_Point(self._number, np.where(new, at_s, np.nan), np.where(new, value, np.nan)))
        rises = self._rises()
        self._reset = self._reset & ~rises.known
        return rises

    def _rises(self) -> Rises:
        start_s, start = self._last_s.copy(), self._last.copy()
        earliest_s = self._last_s - self._window_s
        before_s, before = np.full_like(start_s, -np.inf), np.full_like(start, np.nan)
        for point in reversed(self._points):
            counts = point.number >= self._since  # and it is no NaN, for which the comparisons below are false
            within = counts & (point.at_s >= earliest_s) & (point.at_s < start_s)
            start_s, start = np.where(within, point.at_s, start_s), np.where(within, point.value, start)
            older = counts & (point.at_s < earliest_s) & (point.at_s >= earliest_s - self._grace_s)
            older &= point.at_s > before_s
            before_s, before = np.where(older, point.at_s, before_s), np.where(older, point.value, before)
        short = (before_s > -np.inf) & (start_s > earliest_s)  # without it the rate would span less than the window
        start_s, start = np.where(short, before_s, start_s), np.where(short, before, start)
        span_s = np.subtract(self._last_s, start_s, out=np.zeros_like(start_s), where=self._last_s > -np.inf)
        return Rises(self._last - start, span_s, span_s > 0, self._reset)

    def forget(self, before_s: float) -> None:
        """Drop points that no rate of a sample after `before_s` can start from."""
        while len(self._points) > 1 and not np.any(self._points[0].at_s >= before_s):
            self._points.popleft()

    def move(self, positions: Positions) -> None:
        """Follow the pods to their new positions."""
        for point in self._points:
            point.at_s, point.value = moved(point.at_s, positions, np.nan), moved(point.value, positions, np.nan)
        self._last_s = moved(self._last_s, positions, -np.inf)
        self._last = moved(self._last, positions, np.nan)
        self._since = moved(self._since, positions, 0)
        self._reset = moved(self._reset, positions, False)
        self._anew = moved(self._anew, positions, False)


class MotionWindow:
    """When any progress counter of each pod last moved. See `MotionTracker`."""

    def __init__(self, pods: int, window_s: float) -> None:
        self._window_s = window_s
        self._first_s = np.full(pods, -np.inf)
        self._last_s = np.full(pods, -np.inf)
        self._moved_s = np.full(pods, -np.inf)
        self._values: dict[int, Floats] = {}  # by column; NaN where a pod had none

    def observe(self, at_s: Floats, values: Mapping[int, Floats]) -> tuple[Floats, Floats, Flags]:
        """Take the values of progress counters, by column; NaN where there is none.

        Return for how long nothing has moved, up to which sample, and where there were two samples to tell by.
        """
        pods = len(at_s)
        seen, shared, differs = (np.zeros(pods, dtype=np.bool_) for _ in range(3))
        for column, value in values.items():
            seen |= ~np.isnan(value)
            before = self._values.get(column)
            if before is not None:
                both = ~np.isnan(value) & ~np.isnan(before)
                shared |= both
                differs |= both & (value != before)
        first = seen & ((self._last_s == -np.inf) | (at_s < self._last_s - self._window_s))
        new = seen & ((at_s > self._last_s) | first)
        self._first_s = np.where(first, at_s, self._first_s)
        self._moved_s = np.where(first | (new & (differs | ~shared)), at_s, self._moved_s)
        self._last_s = np.where(new, at_s, self._last_s)
        for column in self._values.keys() | values.keys():
            value = values.get(column, np.full(pods, np.nan))
            self._values[column] = np.where(new, value, self._values.get(column, np.full(pods, np.nan)))
        known = self._last_s > self._first_s
        still_s = np.subtract(self._last_s, self._moved_s, out=np.zeros_like(self._last_s), where=known)
        return still_s, self._last_s, known

    def move(self, positions: Positions) -> None:
        """Follow the pods to their new positions."""
        self._first_s, self._last_s, self._moved_s = (
            moved(times, positions, -np.inf) for times in (self._first_s, self._last_s, self._moved_s)
        )
        self._values = {column: moved(value, positions, np.nan) for column, value in self._values.items()}


class PartsWindow:
    """How many parts each pod had a while ago. See `PartsMemory`: of parts that are only counted, the most count."""

    def __init__(self, pods: int) -> None:
        self._most = np.zeros(pods)
        self._at_s = np.full(pods, -np.inf)  # when it last had as many
        self._before = np.zeros(pods)
        self._sampled_s = np.full(pods, -np.inf)

    def observe(self, parts: Floats, at_s: Floats, now_s: float) -> tuple[Flags, Flags]:
        """Take how many parts each pod has (0: not seen). Return where some are lost, and where the number changed."""
        seen = parts > 0
        new = seen & (at_s > self._sampled_s)
        changed = new & (self._before > 0) & (parts != self._before)
        self._before = np.where(new, parts, self._before)
        # A server that was ahead for a moment must not hide what happens until that moment comes.
        self._sampled_s = np.where(new, np.minimum(at_s, now_s), self._sampled_s)
        expired = np.abs(now_s - self._at_s) > REMEMBERED_S
        whole = seen & ((parts >= self._most) | expired)
        self._most = np.where(whole, parts, self._most)
        self._at_s = np.where(whole, now_s, self._at_s)
        return seen & (parts < self._most), changed

    def several(self) -> Flags:
        """Return which pods have, or had a while ago, more than one part."""
        return self._most > 1

    def move(self, positions: Positions) -> None:
        """Follow the pods to their new positions."""
        self._most, self._before = moved(self._most, positions, 0.0), moved(self._before, positions, 0.0)
        self._at_s, self._sampled_s = moved(self._at_s, positions, -np.inf), moved(self._sampled_s, positions, -np.inf)


def moved(values: npt.NDArray[_Scalar], positions: Positions, new: object) -> npt.NDArray[_Scalar]:
    """Return values in the order of new positions, and `new` for pods that were not there."""
    if len(values) == 0:
        return np.full(len(positions), new, dtype=values.dtype)
    return np.where(positions < 0, np.asarray(new, dtype=values.dtype), values[positions])
