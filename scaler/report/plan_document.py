"""The shape of `/plan`: what a controller tells people and scripts about its latest plan.

`docs/schemas/plan.schema.json` is generated from these models. A number that is not known is null, never 0. Figures of
parts that do not exist yet (tenants, node intents, a forecast) are null or empty, so that scripts stay as they are.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

PLAN_SCHEMA = 1


class Part(BaseModel):
    """Base of all parts of the document: immutable, with finite numbers only.

    A reader passes over keys that it does not know, so that a newer controller can be read.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False, serialize_by_alias=True)


class ReplicaFigures(Part):
    """How many replicas there are; `gated` ones are unschedulable or held back. All null without a cluster view."""

    spec: int | None
    ready: int | None
    pending: int | None
    gated: int | None


class SaturationFigures(Part):
    """1.0 = consumers at their target limits. `binding` names the largest corroborated term."""

    value: float | None
    binding: str
    terms: dict[str, float | None]


class ForecastQuantiles(Part):
    """Demand over the horizon, in work units per second, by quantile."""

    quantiles: dict[str, float]


class ForecastAbsent(Part):
    """Why there is no forecast."""

    absent: str


class TrailStep(Part):
    """One named adjustment of the target."""

    step: str
    before: int
    after: int
    reason: str


class LastChange(Part):
    """When and why the target last changed."""

    at: str  # ISO-8601, UTC
    before: int
    after: int
    reason: str


class WorkloadEntry(Part):
    """One workload's recommendation. `target` is the decision, `told` what KEDA is given; null: KEDA gets an error."""

    namespace: str
    name: str
    tenant: str | None
    mode: str
    target: int | None
    told: int | None
    active: bool | None  # null with the target
    lower: int
    upper: int
    uncapped: int | None
    wanted: int | None
    granted: int | None
    bound: str | None
    replicas: ReplicaFigures
    saturation: SaturationFigures
    demand: float | None  # work units per second
    capacity: float | None  # work units per second and replica
    lead_time_s: float
    evidence_age_s: float
    missing: list[str]
    notes: list[str]
    forecast: ForecastQuantiles | ForecastAbsent
    reason: str
    changed: LastChange | None  # null while this controller has not changed the target it found
    trail: list[TrailStep]


class UnusableWorkload(Part):
    """A workload that is not in the plan, or only by what its manifest said before; or without a view of its target."""

    namespace: str
    name: str
    reason: str


class PlanDocument(Part):
    """The whole answer of `/plan`. `at` is null before the first tick; `continue` asks for the next page.

    `problems` are what kept the last tick from seeing all; they are left out of an answer about one namespace.
    """

    schema_: Annotated[Literal[1], Field(alias="schema")]
    at: str | None  # ISO-8601, UTC
    age_s: float | None
    epoch: int | None
    sequence: int | None
    leader: bool
    workloads: list[WorkloadEntry]
    tenants: list[dict[str, object]]
    intents: list[dict[str, object]]
    unusable: list[UnusableWorkload] = []
    problems: list[str] = []
    continue_: Annotated[str | None, Field(alias="continue")]


class ExplainDocument(Part):
    """What `headway explain --json` writes: the entry of the workload that was asked about."""

    schema_: Annotated[Literal[1], Field(alias="schema")]
    workload: WorkloadEntry
