"""What the decision remembers between ticks: one versioned, serialisable value per workload, at most 8 KB each.

Everything is a plain number, tuple or None, so that a checkpoint is JSON and a journal can be compared byte for byte.
"""

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any

from scaler.core.members import Members
from scaler.core.plan import Change
from scaler.core.values import WorkloadId, value_class

STATE_VERSION = 1


@value_class
class WorkloadState:
    """The memory of one workload. Times are Unix seconds; histories are (time, value), oldest first."""

    first_seen_s: float  # since when this engine has decided about it: scale-downs wait from here
    target: int | None = None  # the last target; None until the scale target was seen
    unrounded: int | None = None  # the same before it was rounded for the HPA: what the next decision starts from
    wishes: tuple[tuple[float, int], ...] = ()  # recent wishes, falling: the maximum of a window is its first
    targets: tuple[tuple[float, int], ...] = ()  # recent targets, unrounded, at their changes, for rate limits
    in_system: tuple[tuple[float, float, int], ...] = ()  # running + waiting, and of how many replicas, for demand
    members: Members | None = None  # which replicas that is of, and since when
    last_evidence_s: float | None = None  # when load was last known
    changed: Change | None = None  # the last change of the target, so that a person can be told of it later


@value_class
class EngineState:
    """The memory of the engine over all workloads."""

    workloads: Mapping[WorkloadId, WorkloadState]

    @classmethod
    def empty(cls) -> "EngineState":
        """Return the state to start with where there is no checkpoint."""
        return cls({})


def resumed(state: EngineState, now_s: float) -> EngineState:
    """Return a loaded checkpoint as the state to start with: what was learned stays, what was in force does not.

    The time away is not known, so the target is taken anew (the published one, else the scale target's) and scale-
    downs wait until the windows have filled.
    """
    workloads = {
        key: replace(item, first_seen_s=now_s, target=None, unrounded=None, targets=())
        for key, item in state.workloads.items()
    }
    return EngineState(workloads)


def state_to_json(state: EngineState) -> dict[str, Any]:
    """Return the state as plain JSON values, workloads in order."""
    return {
        "version": STATE_VERSION,
        "workloads": {str(key): asdict(state.workloads[key]) for key in sorted(state.workloads)},
    }


def state_from_json(document: Any) -> EngineState:
    """Read what `state_to_json` wrote. ValueError when it is of another version or not of this shape."""
    if not isinstance(document, dict) or document.get("version") != STATE_VERSION:
        raise ValueError(f"checkpoint version must be {STATE_VERSION}")
    try:
        return EngineState({WorkloadId.parse(k): _workload_state(v) for k, v in document["workloads"].items()})
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"checkpoint is not of the expected shape: {error}") from error


def _workload_state(document: dict[str, Any]) -> WorkloadState:
    known = {f.name for f in fields(WorkloadState)}
    if unknown := set(document) - known:
        raise ValueError(f"checkpoint has unknown fields {sorted(unknown)}")
    histories = {
        name: tuple((float(at), *rest) for at, *rest in document.get(name, ()))
        for name in ("wishes", "targets", "in_system")
    }
    parts = {"changed": Change, "members": Members}
    read = {name: None if document.get(name) is None else part(**document[name]) for name, part in parts.items()}
    return WorkloadState(**{**document, **histories, **read})
