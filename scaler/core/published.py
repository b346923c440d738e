"""The part of a plan that travels to the scalers: one answer per workload, a version, and a heartbeat.

A plan that does not change is not written again. The heartbeat, once a minute, says that it still holds, and names the
workloads whose evidence has stopped; so an answer is as fresh as the heartbeat unless it is named there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scaler.core.plan import Plan, Recommendation
from scaler.core.values import Missing, WorkloadId

PUBLISHED_SCHEMA = 1


@dataclass(frozen=True, slots=True, order=True)
class PlanVersion:
    """Orders plans: the epoch is the Lease's transition count, the sequence counts publications within it."""

    epoch: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What KEDA is to be told about one workload: replicas, or None and the reason why nothing is known to trust.

    With replicas the reason is empty: it would change, and with it the plan be written, while no answer does.
    """

    replicas: int | None
    reason: str
    active: bool
    present: bool  # the scale target had replicas when this was published


@dataclass(frozen=True, slots=True)
class PublishedPlan:
    """All answers of one publication."""

    version: PlanVersion
    answers: Mapping[WorkloadId, Answer]


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """That the plan still holds, when that was said, and since when the evidence of which workloads has stopped."""

    version: PlanVersion  # of the plan it vouches for
    at_s: float
    stopped: Mapping[WorkloadId, float]  # Unix time of the last evidence


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """What a plan store holds."""

    plan: PublishedPlan
    heartbeat: Heartbeat


def answers_of(plan: Plan) -> dict[WorkloadId, Answer]:
    """Project a plan to what the scalers answer."""
    return {key: _answer(item) for key, item in plan.recommendations.items()}


def _answer(item: Recommendation) -> Answer:
    told, reason = (None, item.told.reason.value) if isinstance(item.told, Missing) else (item.told, "")
    present = not isinstance(item.counts, Missing) and item.counts.asked > 0
    return Answer(replicas=told, reason=reason, active=item.active, present=present)


def stopped_evidence(plan: Plan, stale_after_s: float) -> dict[WorkloadId, float]:
    """Return the workloads whose evidence is older than `stale_after_s`, with the time of their last evidence."""
    return {
        key: plan.at_s - item.evidence_age_s
        for key, item in plan.recommendations.items()
        if item.evidence_age_s > stale_after_s
    }


def plan_to_json(plan: PublishedPlan) -> dict[str, Any]:
    """Return the plan as JSON values, grouped by namespace, in order."""
    namespaces: dict[str, dict[str, list[Any]]] = {}
    for key in sorted(plan.answers):
        a = plan.answers[key]
        namespaces.setdefault(key.namespace, {})[key.name] = [a.replicas, a.reason, a.active, a.present]
    version = plan.version
    return {
        "schema": PUBLISHED_SCHEMA,
        "epoch": version.epoch,
        "sequence": version.sequence,
        "answers": namespaces,
    }


def plan_from_json(document: Any) -> PublishedPlan:
    """Read what `plan_to_json` wrote. ValueError if it is not of this shape."""
    try:
        _check_schema(document)
        answers = {
            WorkloadId(namespace, name): _answer_from_json(row)
            for namespace, rows in document["answers"].items()
            for name, row in rows.items()
        }
        return PublishedPlan(PlanVersion(int(document["epoch"]), int(document["sequence"])), answers)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"published plan is not of the expected shape: {error}") from error


def _answer_from_json(row: list[Any]) -> Answer:
    replicas, reason, active, present = row
    if replicas is not None and not (isinstance(replicas, int) and replicas >= 0):
        raise ValueError(f"replicas must be null or an int >= 0, was {replicas!r}")
    return Answer(replicas, str(reason), bool(active), bool(present))


def heartbeat_to_json(beat: Heartbeat) -> dict[str, Any]:
    """Return the heartbeat as JSON values."""
    stopped = {str(key): beat.stopped[key] for key in sorted(beat.stopped)}
    version = beat.version
    return {
        "schema": PUBLISHED_SCHEMA,
        "epoch": version.epoch,
        "sequence": version.sequence,
        "at_s": beat.at_s,
        "stopped": stopped,
    }


def heartbeat_from_json(document: Any) -> Heartbeat:
    """Read what `heartbeat_to_json` wrote. ValueError if it is not of this shape."""
    try:
        _check_schema(document)
        stopped = {WorkloadId.parse(key): float(at) for key, at in document["stopped"].items()}
        version = PlanVersion(int(document["epoch"]), int(document["sequence"]))
        return Heartbeat(version, float(document["at_s"]), stopped)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"heartbeat is not of the expected shape: {error}") from error


def _check_schema(document: Any) -> None:
    if document["schema"] != PUBLISHED_SCHEMA:
        raise ValueError(f"schema must be {PUBLISHED_SCHEMA}, was {document['schema']!r}")
