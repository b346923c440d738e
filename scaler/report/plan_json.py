"""The latest plan as the JSON document of `/plan`, filtered and in pages."""

import base64
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from scaler.core.observation import ReplicaCounts
from scaler.core.plan import Change, Plan, Recommendation, Saturation, Step
from scaler.core.published import PlanVersion
from scaler.core.values import Missing, Reading, WorkloadId, value_of
from scaler.report.plan_document import PLAN_SCHEMA


def plan_document(
    plan: Plan | None,
    *,
    version: PlanVersion | None,
    leader: bool,
    now_s: float,
    unusable: Mapping[WorkloadId, str] | None = None,
    problems: Sequence[str] = (),
    namespace: str | None = None,
    name: str | None = None,
    limit: int | None = None,
    continue_: str | None = None,
) -> dict[str, Any]:
    """Return the document of `/plan` as JSON values; `now_s` is Unix seconds of the clock that made the plan.

    Workloads come in order of namespace and name, at most `limit` of them (None: all). `continue_` is the `continue`
    of the page before; a plan that changed in between neither repeats nor skips a workload that is in both. ValueError
    for a limit below 1 or a `continue_` that this function did not make.

    `unusable` says why workloads are not in the plan, or only by what their manifests said before; `problems` what kept
    the last tick from seeing all. They may name anybody, so who asks about one namespace does not get the problems.
    """
    if limit is not None and limit < 1:
        raise ValueError(f"limit must be >= 1, was {limit}")
    after = None if continue_ is None else _decode_cursor(continue_)
    recommendations = {} if plan is None else plan.recommendations
    chosen = sorted(key for key in recommendations if _selected(key, namespace, name, after))
    page = list(islice(chosen, limit))
    return {
        "schema": PLAN_SCHEMA,
        "at": None if plan is None else _iso(plan.at_s),
        "age_s": None if plan is None else max(0.0, now_s - plan.at_s),
        "epoch": version.epoch if version else None,
        "sequence": version.sequence if version else None,
        "leader": leader,
        "workloads": [_entry(recommendations[key]) for key in page],
        "tenants": [],
        "intents": [],
        "unusable": [
            {"namespace": key.namespace, "name": key.name, "reason": reason}
            for key, reason in sorted((unusable or {}).items())
            if _selected(key, namespace, name, None)
        ],
        "problems": [] if namespace or name else list(problems),
        "continue": _encode_cursor(page[-1]) if len(page) < len(chosen) else None,
    }


def _selected(key: WorkloadId, namespace: str | None, name: str | None, after: WorkloadId | None) -> bool:
    return (
        (namespace is None or key.namespace == namespace)
        and (name is None or key.name == name)
        and (after is None or key > after)
    )


def _entry(item: Recommendation) -> dict[str, Any]:
    return {
        "namespace": item.workload.namespace,
        "name": item.workload.name,
        "tenant": None,
        "mode": item.mode,
        "target": _count(item.target),
        "told": _count(item.told),
        "active": None if isinstance(item.target, Missing) else item.active,
        "lower": item.lower,
        "upper": item.upper,
        "uncapped": _count(item.uncapped),
        "wanted": None,  # these three are an arbitration's
        "granted": None,
        "bound": None,
        "replicas": _replicas(item.counts),
        "saturation": _saturation(item.saturation),
        "demand": _number(item.demand),
        "capacity": _number(item.capacity),
        "lead_time_s": item.lead_time_s,
        "evidence_age_s": item.evidence_age_s,
        "missing": list(item.missing),
        "notes": list(item.notes),
        "forecast": {"absent": item.forecast.reason},
        "reason": item.reason,
        "changed": _changed(item.changed),
        "trail": _trail(item.trail),
    }


def _replicas(counts: ReplicaCounts | Missing) -> dict[str, int | None]:
    if isinstance(counts, Missing):
        return dict.fromkeys(("spec", "ready", "pending", "gated"))
    return {"spec": counts.spec, "ready": counts.ready, "pending": counts.pending, "gated": counts.blocked}


def _saturation(saturation: Saturation) -> dict[str, Any]:
    return {
        "value": _number(saturation.value),
        "binding": saturation.binding,
        "terms": {name: _number(reading) for name, reading in saturation.terms.items()},
    }


def _trail(steps: Iterable[Step]) -> list[dict[str, Any]]:
    return [{"step": s.name, "before": s.before, "after": s.after, "reason": s.reason} for s in steps]


def _changed(change: Change | None) -> dict[str, Any] | None:
    if change is None:
        return None
    return {"at": _iso(change.at_s), "before": change.before, "after": change.after, "reason": change.reason}


def _count(count: int | Missing) -> int | None:
    return None if isinstance(count, Missing) else count


def _number(reading: Reading) -> float | None:
    value = value_of(reading)
    return value if value is not None and math.isfinite(value) else None  # JSON has no infinity


def _iso(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# A cursor is the last workload of a page, so it needs no memory here and outlives a new plan.
def _encode_cursor(key: WorkloadId) -> str:
    return base64.urlsafe_b64encode(str(key).encode()).decode()


def _decode_cursor(cursor: str) -> WorkloadId:
    try:
        return WorkloadId.parse(base64.b64decode(cursor.encode(), altchars=b"-_", validate=True).decode())
    except ValueError:
        raise ValueError("continue must be the `continue` of a previous answer") from None
