"""The arithmetic of the bench: percentiles, ratios of paired rounds, orders of rounds, schedules fixed in advance."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Spread:
    """Several measurements of one figure: their median, and how far they lie apart."""

    median: float
    low: float
    high: float
    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Return the spread of some values; ValueError for none."""
        if not values:
            raise ValueError("values must have at least 1 entry, had 0")
        return cls(median(values), min(values), max(values), tuple(values))


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least `share` of the values do not exceed (nearest rank).

    Nothing is interpolated: the answer is a latency that a call really had. ValueError for no values, or a share that
    is not in (0, 1].
    """
    if not values:
        raise ValueError("values must have at least 1 entry, had 0")
    if not 0 < share <= 1:
        raise ValueError(f"share must be > 0 and <= 1, was {share}")
    return sorted(values)[math.ceil(share * len(values)) - 1]


def paired_ratios(measured: Sequence[float], reference: Sequence[float]) -> Spread:
    """Return the ratios of measurements to those taken right beside them.

    A ratio per round, and then their median: what slows the machine for a minute slows both sides of a round.
    ValueError when the rounds do not pair up or a reference is not > 0.
    """
    if any(not value > 0 for value in reference):
        raise ValueError(f"reference must be > 0 in every round, was {list(reference)}")
    return Spread.of([a / b for a, b in zip(measured, reference, strict=True)])


def alternating(rounds: int, sides: tuple[str, str]) -> list[str]:
    """Return the order of measurements: A B, B A, A B... so that a drift of the machine does not favour a side."""
    if rounds < 1:
        raise ValueError(f"rounds must be >= 1, was {rounds}")
    return [side for number in range(rounds) for side in (sides if number % 2 == 0 else sides[::-1])]


def schedule(rate_rps: float, seconds: float) -> list[float]:
    """Return when calls are due, in seconds from the start.

    It is fixed before the first call: one that is sent late because an earlier one was slow still counts from when it
    was due, so a stall is not hidden by the calls that it kept from being made.
    """
    if not rate_rps > 0 or not seconds > 0:
        raise ValueError(f"rate_rps and seconds must be > 0, were {rate_rps} and {seconds}")
    return [number / rate_rps for number in range(max(1, round(rate_rps * seconds)))]
