"""What a run leaves behind: its samples, scale events, settings and figures, as frozen values.

The live table, the HTML report and the result document are all made from these. Times are simulated seconds since the
run began. What was not known is None, never 0.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=0)]
Amount = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True, slots=True)
class RunSample:
    """One look at the fleet and at what it was told. Rates and quantiles cover the time since the last sample."""

    at_s: float
    arrivals_rps: float
    ready: int
    pending: int
    draining: int
    spec: int
    told: int | None  # None: KEDA got an error and held
    waiting: int
    running: int
    kv_usage: float | None  # 0..1, mean over the ready replicas
    queue_time_p95_s: float | None  # of the requests that started; None when none did
    attainment: float | None  # of the whole run so far; None before the first request
    saturation: float | None = None  # 1.0 = consumers at their target limits


@dataclass(frozen=True, slots=True)
class ScaleEvent:
    """One change of the scale target's replicas, and the reason of the decision behind it."""

    at_s: float
    before: int
    after: int
    reason: str


RunSettings = tuple[tuple[str, str], ...]
"""What a reader needs to judge or repeat a run, in the order to show it: name and value with its unit."""


class DemoResult(BaseModel):
    """The figures of a run: the document that `headway demo --json` writes. A figure that does not apply is null.

    `docs/schemas/demo.schema.json` is generated from this model.
    """

    # Closed where it is made, so that a slip in a name is an error; open where it is read, so that more can be added.
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        json_schema_extra={"additionalProperties": True},
        json_schema_serialization_defaults_required=True,
    )

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    trace: Annotated[str, Field(description="name of the recorded traffic")]
    ticks: Annotated[Count, Field(description="decisions made")]
    grpc_calls: Annotated[Count, Field(description="calls that the KEDA client made")]
    grpc_p99_ms: Annotated[Amount | None, Field(description="99th percentile of their wall time; null without calls")]
    replicas_min: Annotated[Count | None, Field(description="fewest ready replicas seen")]
    replicas_max: Annotated[Count | None, Field(description="most ready replicas seen")]
    scale_ups: Count
    scale_downs: Count
    slo_attainment: Annotated[Share | None, Field(description="share of requests that met the SLO; null without any")]
    gpu_hours: Annotated[Amount, Field(description="simulated, from a replica's creation until it is gone")]
    requests: Annotated[Count, Field(description="requests that arrived")]
    surges: Annotated[Count | None, Field(description="surges of the demand; null where they were not looked for")]
    speed: Annotated[float, Field(gt=0, description="simulated seconds per wall second")]
    simulated_s: Amount
    wall_s: Amount
    grpc_errors: Annotated[Count, Field(description="calls answered with an error, after which KEDA holds")]
    ticks_due: Annotated[Count, Field(description="decisions that the simulated time had room for")]
    tick_errors: Annotated[Count, Field(description="ticks that failed")]
    first_decision_s: Annotated[Amount | None, Field(description="wall seconds from the start; null if there was none")]
    queue_time_p50_s: Annotated[Amount | None, Field(description="of the requests that started")]
    queue_time_p99_s: Annotated[Amount | None, Field(description="of the requests that started")]
    static_peak_gpu_hours: Annotated[
        Amount | None, Field(description="the same run with a fixed fleet of `replicas_max`, known only in hindsight")
    ]
    prometheus: Annotated[bool, Field(description="whether a Prometheus server stood between the fleet and Headway")]

    def document(self) -> dict[str, Any]:
        """Return the result as JSON values, keys in the order of the contract."""
        return self.model_dump(mode="json", by_alias=True)


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A whole run. `attribution` names the source of the traffic and its licence."""

    title: str
    trace: str
    attribution: str
    speed: float  # simulated seconds per wall second
    slo_s: float  # of the queue time
    objective: float  # share of requests that must meet the SLO, 0..1
    samples: tuple[RunSample, ...]
    events: tuple[ScaleEvent, ...]
    settings: RunSettings
    result: DemoResult
    capacity_rps: float | None = None  # what one replica sustains inside the SLO; None: supply is not shown
