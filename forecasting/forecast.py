"""The result of forecasting. An absent forecast is a value with a reason, never 0."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Absent:
    """There is no forecast, and why. What reads it acts as if nothing were foreseen: it never lowers anything."""

    reason: str
