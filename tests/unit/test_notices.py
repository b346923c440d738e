"""What is told of a plan: what began and what ended, once each."""

from typing import Any

import pytest

from scaler.adapters.kubernetes.notices import MAX_MESSAGE_CHARS, PlanTransitions
from scaler.core.plan import Recommendation
from scaler.core.values import Missing, Reason, WorkloadId
from scaler.ports import Notice
from tests.plan_builders import CHAT, plan, recommendation

STALE_AFTER_S = 60.0


def told(*items: Recommendation) -> list[list[Notice]]:
    """What each plan of one workload after the first one tells."""
    transitions = PlanTransitions()
    notices = [list(transitions.of(plan(item), stale_after_s=STALE_AFTER_S)) for item in items]
    assert notices[0] == []
    return notices[1:]


def reasons(*items: Recommendation) -> list[list[str]]:
    return [[notice.reason for notice in notices] for notices in told(*items)]


CONDITIONS = [
    ({"evidence_age_s": 61.0, "missing": ("running: silent",)}, "EvidenceStopped", "EvidenceBack"),
    ({"notes": ("rollout", "waiting_for_capacity: 3")}, "WaitingForCapacity", "CapacityFound"),
    ({"target": 40, "uncapped": 55}, "UpperBoundReached", "UpperBoundLeft"),
    ({"mode": "observe"}, "ObserveModeEntered", "ObserveModeLeft"),
]


@pytest.mark.parametrize(("fields", "began", "ended"), CONDITIONS)
def test_a_condition_begins_and_ends_once(fields: dict[str, Any], began: str, ended: str) -> None:
    """It is told when it begins and when it ends, and not while it lasts."""
    with_it, without = recommendation(**fields), recommendation()
    assert reasons(without, with_it, with_it, without, without) == [[began], [], [ended], []]


def test_a_target_that_moves_is_no_news() -> None:
    """Nothing is told of targets, rates and reasons."""
    assert reasons(
        recommendation(target=12), recommendation(target=30, reason="reactive"), recommendation(target=3)
    ) == [[], []]


def test_messages_name_the_numbers() -> None:
    """A person reads what is missing and by how much."""
    ((stopped,),) = told(recommendation(), recommendation(evidence_age_s=320.0, missing=("running: silent",)))
    assert stopped.workload == CHAT
    assert stopped.warning
    assert "for 320 s" in stopped.message
    assert "running: silent" in stopped.message
    ((bound,),) = told(recommendation(), recommendation(target=40, uncapped=55))
    assert bound.message == "it would need 55 replicas, and its upper bound is 40"
    ((waiting,),) = told(recommendation(), recommendation(notes=("waiting_for_capacity: 3",)))
    assert waiting.message.startswith("3 of its pods")


def test_what_was_never_seen_has_no_age() -> None:
    """An infinite age is said in words."""
    ((notice,),) = told(recommendation(), recommendation(evidence_age_s=float("inf")))
    assert "so far" in notice.message
    assert "inf" not in notice.message


def test_a_long_message_is_cut() -> None:
    """A message fits into an Event."""
    ((notice,),) = told(recommendation(), recommendation(evidence_age_s=90.0, missing=("x: silent",) * 500))
    assert len(notice.message) <= MAX_MESSAGE_CHARS


def test_a_bound_that_is_asked_for_exactly_is_no_condition() -> None:
    """At its upper bound without wishing for more it has what it needs."""
    assert reasons(recommendation(), recommendation(target=40, uncapped=40)) == [[]]


def test_not_knowing_ends_nothing() -> None:
    """While the target is unknown the bound is as it was; then it is compared with what was last known."""
    unknown = Missing(Reason.VIEW_UNAVAILABLE)
    blind = recommendation(target=unknown, uncapped=unknown)
    bound = recommendation(target=40, uncapped=55)
    assert reasons(bound, blind, bound, blind, recommendation()) == [[], [], [], ["UpperBoundLeft"]]


def test_a_workload_that_is_new() -> None:
    """It begins with no condition, so one that holds is told; one that is gone tells nothing."""
    transitions, other = PlanTransitions(), WorkloadId("demo", "other")
    transitions.of(plan(recommendation()), stale_after_s=STALE_AFTER_S)
    told_of = transitions.of(plan(recommendation(), recommendation(other, mode="observe")), stale_after_s=STALE_AFTER_S)
    assert [(notice.workload, notice.reason) for notice in told_of] == [(other, "ObserveModeEntered")]
    assert transitions.of(plan(recommendation()), stale_after_s=STALE_AFTER_S) == ()
