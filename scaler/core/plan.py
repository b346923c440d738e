"""What one tick decides: recommendations with the trail of steps that led to each, and together a plan."""

from collections.abc import Mapping

from forecasting.forecast import Absent
from scaler.core.observation import ReplicaCounts
from scaler.core.values import Missing, Reading, WorkloadId, value_class


@value_class
class Step:
    """One named adjustment of a target: what it was, what it became, why."""

    name: str
    before: int
    after: int
    reason: str


@value_class
class Change:
    """The last change of a target: when (Unix seconds), from what to what, and the reason that decided it."""

    at_s: float
    before: int
    after: int
    reason: str


@value_class
class Saturation:
    """Consumer saturation: 1.0 = consumers at their target limits. `binding` names the largest corroborated term.

    `level` leaves the queue out, which enters the decision through the backlog only. It counts a silent replica as
    zero and scales up; `level_down` counts it at target and scales down.
    """

    value: Reading
    level: Reading
    level_down: Reading
    binding: str
    terms: Mapping[str, Reading]


@value_class
class Recommendation:
    """What a workload should have, and everything needed to explain it at 3 a.m.

    `target` is the decision; `told` what KEDA is given in this mode. Both are Missing when nothing is known to trust:
    then KEDA gets an error and holds. `uncapped` is the wish before any clamp.
    """

    workload: WorkloadId
    mode: str
    target: int | Missing
    told: int | Missing
    active: bool
    lower: int
    upper: int
    uncapped: int | Missing
    counts: ReplicaCounts | Missing
    saturation: Saturation
    demand: Reading  # work units per second
    capacity: Reading  # work units per second and replica
    lead_time_s: float
    evidence_age_s: float
    missing: tuple[str, ...]  # `signal: reason`, one per signal that should be known and is not
    notes: tuple[str, ...]  # conditions a person should know of: stalled, frozen, waiting_for_capacity
    forecast: Absent
    reason: str  # the step that decided this tick
    changed: Change | None  # None while this engine has not changed the target it found
    trail: tuple[Step, ...]


@value_class
class Plan:
    """The recommendations of all workloads of one tick."""

    at_s: float  # Unix time
    recommendations: Mapping[WorkloadId, Recommendation]
