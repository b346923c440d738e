"""Tells which of a plan's conditions began or ended: what a person should see among a workload's Events.

Transitions only. A target that moves is Headway's daily work and no news. It is pure: no I/O, no clock. What the
cluster says of a workload's settings is noticed where they are read, in `workloads.py`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Final

from scaler.config.models import Mode
from scaler.core.plan import Plan, Recommendation
from scaler.core.values import WorkloadId
from scaler.ports import Notice

MAX_MESSAGE_CHARS: Final = 900  # an Event has room for 1024
WAITING: Final = "waiting_for_capacity"

# What a condition is at a workload: the message where it holds, "" where it does not, None where that cannot be told.
Judge = Callable[[Recommendation, float], str | None]


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition and how its beginning and end are called. Its beginning has a message of its own."""

    began: str
    ended: str
    ended_message: str
    warning: bool
    judge: Judge


def _evidence(item: Recommendation, stale_after_s: float) -> str:
    if item.evidence_age_s <= stale_after_s:
        return ""
    since = f"for {item.evidence_age_s:.0f} s" if isfinite(item.evidence_age_s) else "so far"
    return (
        f"there was no usable evidence {since}, and nothing is scaled down: {', '.join(item.missing) or 'all is old'}"
    )


def _waiting(item: Recommendation, _: float) -> str:
    note = next((note for note in item.notes if note.partition(":")[0] == WAITING), "")
    count = note.partition(":")[2].strip()
    return f"{count or 'some'} of its pods cannot be placed; more replicas would not help" if note else ""


def _bounded(item: Recommendation, _: float) -> str | None:
    if not isinstance(item.target, int) or not isinstance(item.uncapped, int):
        return None
    if item.target < item.upper or item.uncapped <= item.upper:
        return ""
    return f"it would need {item.uncapped} replicas, and its upper bound is {item.upper}"


def _observed(item: Recommendation, _: float) -> str:
    return "Headway recommends and exports, and scales nothing" if item.mode == Mode.OBSERVE else ""


CONDITIONS: Final = (
    Condition("EvidenceStopped", "EvidenceBack", "there is usable evidence again", True, _evidence),
    Condition("WaitingForCapacity", "CapacityFound", "no pod waits for a place any more", True, _waiting),
    Condition("UpperBoundReached", "UpperBoundLeft", "what it needs is within its bounds", True, _bounded),
    Condition("ObserveModeEntered", "ObserveModeLeft", "Headway scales it", False, _observed),
)


class PlanTransitions:
    """Remembers which conditions held, and tells what changed from plan to plan.

    The first plan is where one comes in: it tells nothing, so that a start and a change of leader do not repeat what is
    known. A standby that follows its own plans knows what held when it begins to lead.
    """

    def __init__(self) -> None:
        self._held: dict[WorkloadId, tuple[bool | None, ...]] | None = None

    def of(self, plan: Plan, *, stale_after_s: float) -> tuple[Notice, ...]:
        """Return what began or ended since the last plan. A workload that is new begins with no condition."""
        first, before = self._held is None, self._held or {}
        held: dict[WorkloadId, tuple[bool | None, ...]] = {}
        notices: list[Notice] = []
        for key, item in plan.recommendations.items():
            messages = [condition.judge(item, stale_after_s) for condition in CONDITIONS]
            was = before.get(key, (None,) * len(CONDITIONS))
            # What cannot be told now is as it was: the next plan that can tell is compared with that.
            now = tuple(old if text is None else bool(text) for old, text in zip(was, messages, strict=True))
            if now != was and not first:
                notices += _told(key, was, now, messages)
            held[key] = now
        self._held = held
        return tuple(notices)


def _told(
    key: WorkloadId, was: tuple[bool | None, ...], now: tuple[bool | None, ...], messages: list[str | None]
) -> Iterator[Notice]:
    for condition, before, after, text in zip(CONDITIONS, was, now, messages, strict=True):
        if after and not before:
            yield Notice(key, condition.began, (text or "")[:MAX_MESSAGE_CHARS], condition.warning)
        elif before and not after:
            yield Notice(key, condition.ended, condition.ended_message)
