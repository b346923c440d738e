"""A figure of the bench: what was measured, beside what Headway promises."""

from dataclasses import asdict, dataclass
from typing import Any

from tests.bench.arithmetic import Spread


@dataclass(frozen=True, slots=True)
class Target:
    """What a figure should be. Missing it is reported; it is no failure of the bench."""

    at_least: float | None = None
    at_most: float | None = None

    def met(self, value: float) -> bool:
        """Return whether a value is within."""
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)

    def __str__(self) -> str:
        bounds = ((">=", self.at_least), ("<=", self.at_most))
        return ", ".join(f"{sign} {bound:g}" for sign, bound in bounds if bound is not None)


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure. `group` says what it is about, `spread` how the rounds or repeats lay around it."""

    group: str
    name: str
    unit: str
    value: float
    target: Target | None = None
    spread: Spread | None = None

    @classmethod
    def of(cls, group: str, name: str, unit: str, spread: Spread, target: Target | None = None) -> "Figure":
        """Return the figure that is the median of a spread."""
        return cls(group, name, unit, spread.median, target, spread)

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without a target."""
        return None if self.target is None else self.target.met(self.value)

    def to_json(self) -> dict[str, Any]:
        """Return the figure as JSON values."""
        return {
            "group": self.group,
            "name": self.name,
            "unit": self.unit,
            "value": self.value,
            "target": None if self.target is None else asdict(self.target),
            "met": self.met,
            "low": None if self.spread is None else self.spread.low,
            "high": None if self.spread is None else self.spread.high,
            "values": None if self.spread is None else list(self.spread.values),
        }
