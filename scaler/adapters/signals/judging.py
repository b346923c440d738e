"""From columns to readings: what `reader` does for one pod and signal, for all pods of a preset at once.

The rules are the same and are written to be read there: nothing that cannot be believed becomes a number, and of the
parts of a pod either all are known or the whole is not. A test holds the two against each other.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from scaler.adapters.signals.aggregates import Asked, Option, Plan, Role
from scaler.adapters.signals.candidates import Kind
from scaler.adapters.signals.columns import ABSENT, KNOWN, STALE, Codes, Pods, Table, code_of
from scaler.adapters.signals.evidence import Column, Evidence, Taken, array_of, divided
from scaler.adapters.signals.windows import (
    CounterWindow,
    Flags,
    Floats,
    MotionWindow,
    PartsWindow,
    Positions,
    Rises,
    moved,
)
from scaler.config.models import DecisionSettings
from scaler.core.values import Reason

_MOTION: Final = -1  # the column of counters that were asked for as one sum


@dataclass(frozen=True, slots=True)
class Judged:
    """The signals of a tick by field, and which metric names carried them."""

    columns: Mapping[str, Column]
    matched: Mapping[str, tuple[str, ...]]


class _Movable(Protocol):
    def move(self, positions: Positions) -> None: ...


class Judge:
    """Makes readings of a preset's tables, tick by tick, and remembers what they need."""

    def __init__(self, decision: DecisionSettings) -> None:
        self._decision = decision
        self._pods = Pods()
        self._counters: dict[int, CounterWindow] = {}
        self._motion = MotionWindow(0, decision.rate_window_s)
        self._parts = PartsWindow(0)
        self._quantiles: dict[int, _Quantiles] = {}
        self._asked: Flags = np.zeros(0, dtype=np.bool_)  # whose histograms have been asked for

    def judged(self, plan: Plan, table: Table, now_s: float) -> Judged:
        """Return each signal of the plan, and `still_s`."""
        self._follow(table.pods)
        tick = self._tick(table, now_s)
        columns, matched = {}, {}
        for asked in plan.signals:
            found = [(option, taken) for option in asked.options if (taken := self._taken(tick, asked, option))]
            columns[asked.signal.field] = tick.first(asked, [taken for _, taken in found])
            matched[asked.signal.field] = tuple(option.candidate.name for option, _ in found)
        columns["still_s"] = self._still(tick, plan)
        for counter in self._counters.values():
            counter.forget(now_s - self._decision.rate_window_s - 2 * self._decision.stale_after_s)
        return Judged(columns, matched)

    def _follow(self, pods: Pods) -> None:
        """Take the pods of a tick; what is remembered of those that were there goes with them."""
        if pods is not self._pods:
            positions = pods.positions_in(self._pods)
            kept: list[_Movable] = [*self._counters.values(), *self._quantiles.values(), self._motion, self._parts]
            for one in kept:
                one.move(positions)
            self._asked = moved(self._asked, positions, False)
        self._pods = pods

    def _tick(self, table: Table, now_s: float) -> Evidence:
        at_s = array_of(table.beside.get(Role.TIMES), len(table.pods))
        dated = at_s != ABSENT
        parts = array_of(table.beside.get(Role.PARTS), len(table.pods))
        parts = np.where(dated, np.where(parts == ABSENT, 1.0, parts), 0.0)
        at_s = np.where(dated, at_s, -np.inf)
        lost, changed = self._parts.observe(parts, at_s, now_s)
        # Also of counters that this tick cannot read: the first sample after it is of other parts.
        for counter in self._counters.values():
            counter.restart(changed)
        no_series = code_of(Reason.NO_SERIES)
        lost_code = np.where(table.absent == no_series, code_of(Reason.SOURCE_DOWN), table.absent)
        absent = table.absent.copy()
        absent[(absent == no_series) & table.down] = code_of(Reason.SOURCE_DOWN)
        self._asked |= table.asked
        return Evidence(
            table,
            now_s,
            self._decision.stale_after_s,
            at_s,
            absent,
            np.where(lost, lost_code, KNOWN),
            table.partial & self._parts.several(),
            self._asked,
        )

    def _taken(self, tick: Evidence, asked: Asked, option: Option) -> Taken | None:
        """Return what one candidate says; None where no pod has it."""
        match option.kind:
            case Kind.GAUGE:
                return tick.gauge(asked, option)
            case Kind.COUNTER:
                return self._rate(tick, option)
            case Kind.RATIO:
                return self._ratio(tick, option)
            case Kind.HISTOGRAM:
                return self._quantile(tick, option)

    def _rate(self, tick: Evidence, option: Option) -> Taken | None:
        risen = self._risen(tick, option.column)
        if risen is None:
            return None
        present, code, rises = risen
        rate = divided(rises.amount, rises.span_s * option.candidate.divisor, code == KNOWN)
        return Taken(present, Column(rate, tick.age_s, code))

    def _ratio(self, tick: Evidence, option: Option) -> Taken | None:
        above = self._risen(tick, option.column)
        below = None if option.per is None else self._risen(tick, option.per)
        if above is None:
            return None
        present, code, rises = above
        if below is None:
            return Taken(present, Column(rises.amount, tick.age_s, tick.absent))
        code = np.where(code == KNOWN, np.where(below[0], below[1], tick.absent), code)
        code = np.where((code == KNOWN) & (below[2].amount <= 0), code_of(Reason.NO_COMPLETIONS), code)
        ratio = divided(rises.amount, below[2].amount * option.candidate.divisor, code == KNOWN)
        return Taken(present, Column(ratio, tick.age_s, code))

    def _risen(self, tick: Evidence, number: int) -> tuple[Flags, Codes, Rises] | None:
        """Let a counter's window see what can be believed, and return where it is present, judged, and how it rose."""
        value = tick.column(number)
        if value is None:
            return None
        present = value != ABSENT
        code = tick.judge(value, present, np.inf)
        rises = self._window(number).observe(tick.at_s, value, code == KNOWN)
        short = np.where(rises.reset, code_of(Reason.COUNTER_RESET), code_of(Reason.TOO_FEW_SAMPLES))
        return present, np.where((code == KNOWN) & ~rises.known, short, code), rises

    def _window(self, number: int) -> CounterWindow:
        if number not in self._counters:
            grace_s = self._decision.stale_after_s
            self._counters[number] = CounterWindow(len(self._pods), self._decision.rate_window_s, grace_s)
        return self._counters[number]

    def _quantile(self, tick: Evidence, option: Option) -> Taken | None:
        """Return what a histogram said when it was last asked, as old as that is."""
        if option.column not in self._quantiles:
            self._quantiles[option.column] = _Quantiles(len(self._pods))
        kept = self._quantiles[option.column]
        kept.take(array_of(tick.table.quantiles.get(option.column), len(self._pods)), tick.at_s, tick.table.asked)
        present = kept.value != ABSENT
        if not present.any():
            return None
        age_s = np.maximum(0.0, tick.now_s - kept.at_s)
        value = divided(kept.value, np.full_like(kept.value, option.candidate.divisor), present)
        code = tick.judge(value, present, np.inf)
        code = np.where(present & np.isnan(value), code_of(Reason.NO_COMPLETIONS), code)
        code = np.where((code == KNOWN) & (age_s > tick.stale_after_s), STALE, code)
        return Taken(present, Column(value, age_s, code))

    def _still(self, tick: Evidence, plan: Plan) -> Column:
        nothing = np.zeros(len(self._pods))
        if not plan.preset.progress():
            return Column(nothing, tick.age_s, np.full(len(self._pods), code_of(Reason.NOT_EXPORTED)))
        values = {number: value for number in plan.progress if (value := tick.column(number)) is not None}
        if Role.MOTION in tick.table.beside:
            values[_MOTION] = array_of(tick.table.beside[Role.MOTION], len(self._pods))
        good = {
            number: np.where(tick.judge(value, value != ABSENT, np.inf) == KNOWN, value, np.nan)
            for number, value in values.items()
        }
        seen = np.any([~np.isnan(value) for value in good.values()], axis=0) if good else nothing > 0
        still_s, until_s, known = self._motion.observe(tick.at_s, good)
        code = np.where(known, KNOWN, code_of(Reason.TOO_FEW_SAMPLES))
        return Column(still_s, np.maximum(0.0, tick.now_s - until_s), np.where(seen, code, tick.absent))


class _Quantiles:
    """What a histogram of each pod said when it was last asked."""

    def __init__(self, pods: int) -> None:
        self.value = np.full(pods, ABSENT)
        self.at_s = np.full(pods, -np.inf)  # when that was sampled

    def take(self, value: Floats, at_s: Floats, asked: Flags) -> None:
        self.value = np.where(asked, value, self.value)
        self.at_s = np.where(asked, at_s, self.at_s)

    def move(self, positions: Positions) -> None:
        self.value, self.at_s = moved(self.value, positions, ABSENT), moved(self.at_s, positions, -np.inf)
