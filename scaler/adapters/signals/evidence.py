"""What a tick has of a preset's pods: how a value is judged by it, and what becomes of a signal.

Why something is not known is a code in a column, beside its values and their ages, until readings are made of it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import repeat
from typing import Final

import numpy as np

from scaler.adapters.signals.aggregates import Asked, Option
from scaler.adapters.signals.candidates import Kind
from scaler.adapters.signals.columns import ABSENT, FIRST_REASON, KNOWN, REASONS, STALE, Codes, Table, code_of
from scaler.adapters.signals.windows import Flags, Floats
from scaler.core.values import Known, Missing, Reading, Reason, Stale

_MISSING: Final = tuple(map(Missing, REASONS))
_MOST: Final = 1e18  # no signal comes near it
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Column:
    """One signal of all pods: what is known, how old it is, and why it is not."""

    value: Floats
    age_s: Floats
    code: Codes

    def replaced(self, where: Flags, other: "Column") -> "Column":
        """Return this column with another's pods in some places."""
        return Column(
            np.where(where, other.value, self.value),
            np.where(where, other.age_s, self.age_s),
            np.where(where, other.code, self.code),
        )

    def readings(self) -> list[Reading]:
        """Return one reading for each pod."""
        if not len(self.code):
            return []
        first = int(self.code[0])
        if np.all(self.code == first) and first != STALE:
            if first >= FIRST_REASON:
                return list(repeat(_MISSING[first - FIRST_REASON], len(self.code)))
            return list(map(Known, self.value.tolist(), self.age_s.tolist()))
        return list(map(_reading, self.value.tolist(), self.age_s.tolist(), self.code.tolist()))


def _reading(value: float, age_s: float, code: int) -> Reading:
    if code == KNOWN:
        return Known(value, age_s)
    return Stale(age_s) if code == STALE else _MISSING[code - FIRST_REASON]


@dataclass(frozen=True, slots=True)
class Taken:
    """What one candidate says, of the pods that have it."""

    present: Flags
    column: Column


@dataclass(slots=True)
class Evidence:
    """What holds for all signals of a tick: when each pod was sampled, and why there may be nothing to read."""

    table: Table
    now_s: float
    stale_after_s: float
    at_s: Floats  # -inf where not known
    absent: Codes  # why there is nothing, where there is nothing
    lost: Codes  # why gauges are not the whole pod's, where they are not
    halved: Flags  # of which an incomplete answer may hold some parts only
    asked: Flags  # whose histograms have been asked for
    age_s: Floats = field(init=False)
    _by_age: Codes = field(init=False)

    def __post_init__(self) -> None:
        """Judge the ages, once for all signals."""
        age_s = self.now_s - self.at_s
        by_age = np.where(age_s > self.stale_after_s, STALE, KNOWN)
        # From the future: such a sample would look fresh for as long as it is ahead.
        by_age = np.where(age_s < -self.stale_after_s, code_of(Reason.INVALID_VALUE), by_age)
        by_age = np.where(self.halved, code_of(Reason.PARTIAL_ANSWER), by_age)
        self._by_age = np.where(np.isfinite(self.at_s), by_age, self.absent)
        self.age_s = np.maximum(0.0, age_s)

    def column(self, number: int) -> Floats | None:
        """Return a column's values; None where no pod has one."""
        values = self.table.columns.get(number)
        return None if values is None else array_of(values, len(values))

    def judge(self, value: Floats, present: Flags, limit: float) -> Codes:
        """Return whether values can be believed, and why not."""
        code = np.where(value < 0, code_of(Reason.NEGATIVE), self._by_age)
        bad = ~np.isfinite(value) | (value > min(limit, _MOST) * (1 + _ROUNDING))
        return np.where(present, np.where(bad, code_of(Reason.INVALID_VALUE), code), self.absent)

    def gauge(self, asked: Asked, option: Option) -> Taken | None:
        """Return a gauge, scaled. With parts that were there a while ago and are not, it is not the whole pod's."""
        value = self.column(option.column)
        if value is None:
            return None
        present = value != ABSENT
        largest = None if option.largest is None else self.column(option.largest)
        if largest is not None:
            value = np.where((largest != ABSENT) & np.isfinite(value), largest, value)
        value = divided(value, np.full_like(value, option.candidate.divisor), present)
        code = self.judge(value, present, asked.signal.limit)
        return Taken(present, Column(value, self.age_s, np.where(present & (self.lost != KNOWN), self.lost, code)))

    def first(self, asked: Asked, found: Iterable[Taken]) -> Column:
        """Return for each pod what the first candidate says that it has."""
        absence = Column(np.zeros(len(self.at_s)), self.age_s, self._absence(asked))
        result, taken = absence, np.zeros(len(self.at_s), dtype=np.bool_)
        for one in found:
            use = one.present & ~taken
            result = one.column if use.all() else result.replaced(use, one.column)
            taken |= use
        return result

    def _absence(self, asked: Asked) -> Codes:
        no_series = self.absent == code_of(Reason.NO_SERIES)
        if asked.signal.optional:
            return np.where(no_series & self.table.seen(), code_of(Reason.NOT_EXPORTED), self.absent)
        if any(option.kind is Kind.HISTOGRAM for option in asked.options):  # until it is asked, for a new pod
            return np.where(no_series & ~self.asked, code_of(Reason.TOO_FEW_SAMPLES), self.absent)
        return self.absent


def array_of(values: list[float] | None, count: int) -> Floats:
    """Return a column as an array; of one that did not come, as many as there are pods."""
    return np.full(count, ABSENT) if values is None else np.array(values)


def divided(above: Floats, below: Floats, where: Flags) -> Floats:
    """Return quotients where they are wanted, and 0 elsewhere."""
    return np.divide(above, below, out=np.zeros_like(above), where=where)
