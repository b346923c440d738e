"""The clocks. The only module of Headway that asks the system for the time; everything else is told it."""

import math
import time
from dataclasses import dataclass


class SystemClock:
    """The time as it is."""

    def now_s(self) -> float:
        """Return Unix time in seconds."""
        return time.time()  # noqa: TID251 - the one place that may

    def monotonic_s(self) -> float:
        """Return seconds from some fixed point; never goes back."""
        return time.monotonic()  # noqa: TID251 - the one place that may

    def from_wall(self, wall_s: float) -> float:
        """Return `wall_s`: this clock is the wall's."""
        return wall_s

    def wall_duration(self, duration_s: float) -> float:
        """Return `duration_s`: this clock runs as fast as the wall's."""
        return duration_s


@dataclass(frozen=True, slots=True)
class ScaledClock:
    """The time of a rehearsal, which runs `speed` times faster than the wall's.

    At the wall's Unix time `wall_origin_s` this clock shows `origin_s`. Nothing else enters, so that all processes of a
    rehearsal that are given the same three numbers agree on the time.
    """

    speed: float
    wall_origin_s: float
    origin_s: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.speed) and self.speed > 0):
            raise ValueError(f"speed must be a finite number > 0, was {self.speed}")

    def now_s(self) -> float:
        """Return the Unix time of the rehearsal in seconds."""
        return self.from_wall(time.time())  # noqa: TID251 - the one place that may

    def monotonic_s(self) -> float:
        """Return seconds of the rehearsal from some fixed point; never goes back."""
        return time.monotonic() * self.speed  # noqa: TID251 - the one place that may

    def from_wall(self, wall_s: float) -> float:
        """Return the rehearsal's time at the wall's Unix time `wall_s`."""
        return self.origin_s + (wall_s - self.wall_origin_s) * self.speed

    def wall_duration(self, duration_s: float) -> float:
        """Return how many seconds of the wall `duration_s` of the rehearsal lasts."""
        return duration_s / self.speed
