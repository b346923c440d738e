"""Frozen values that steer the decision. Parsed once, at the edge; the core reads them as they are.

The configuration file of a process (addresses, sources, stores) is in `process.py`, trigger metadata in `metadata.py`.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

PositiveSeconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, le=1)]


class Mode(StrEnum):
    """How far Headway's word goes for a workload."""

    OBSERVE = "observe"  # recommends and exports only
    REACTIVE = "reactive"  # no forecast acts
    ADVISORY = "advisory"  # KEDA is told the reactive value, the forecast is exported
    AUTO = "auto"


class Unit(StrEnum):
    """The work unit that demand and capacity are counted in."""

    REQUESTS = "requests"
    PROMPT_TOKENS = "promptTokens"
    OUTPUT_TOKENS = "outputTokens"


class SloMetric(StrEnum):
    """What the SLO bounds."""

    QUEUE_TIME = "queueTime"
    TTFT = "ttft"


class Frozen(BaseModel):
    """Base of all configuration values: immutable, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class RateLimit(Frozen):
    """How far a target may move within a period, from what it was at its start; the larger allowance counts.

    None for both allowances means no limit in that direction.
    """

    up_replicas: Annotated[int, Field(ge=1)] | None = None
    up_share: Annotated[float, Field(gt=0)] | None = None
    down_replicas: Annotated[int, Field(ge=1)] | None = 1
    down_share: Annotated[float, Field(gt=0, le=1)] | None = 0.5
    period_s: PositiveSeconds = 60.0


class DecisionSettings(Frozen):
    """The platform's settings of the decision, the same for all workloads unless a workload says otherwise."""

    utilisation_target: Annotated[float, Field(ge=0.05, le=1)] = 0.85
    hold_s: Annotated[float, Field(ge=0)] = 300.0  # a scale-down waits until the maximum of this window has fallen
    rate_window_s: PositiveSeconds = 60.0  # what demand and completion rates are measured over
    stale_after_s: PositiveSeconds = 90.0  # an older sample is not evidence; six scrapes at 15 s
    frozen_after_s: PositiveSeconds = 60.0  # a gauge that claims work this long without any counter moving
    gpu_busy_above: Share = 0.2  # GPU activity above this vetoes a scale-down of an engine that says idle
    gpu_idle_below: Share = 0.05
    silent_hold_share: Annotated[float, Field(ge=0, le=1)] = 0.1  # more silent replicas than this hold a scale-down
    level_step_max: Annotated[float, Field(gt=1)] = 2.0  # a saturation level may at most double the replicas at once
    default_lead_time_s: PositiveSeconds = 300.0
    control_delays_s: Annotated[float, Field(ge=0)] = 90.0  # scrape + rate window + tick + KEDA and HPA period
    view_stale_after_s: PositiveSeconds = 180.0  # a cluster view that heard nothing for longer is no view
    hpa_tolerance: Annotated[float, Field(ge=0, lt=1)] = 0.1  # of HPAs that have none of their own: the cluster's flag
    evidence_ttl_s: PositiveSeconds = 900.0  # without evidence for this long KEDA gets an error, and holds
    rate: RateLimit = RateLimit()


class SourceRef(Frozen):
    """Where a workload's work is seen before it reaches a replica: a broker's queue or a gateway's route.

    The platform grants it. `identity` are the values of the two labels that name it among the series of its preset.
    """

    preset: str  # of a queue (rabbitmq), of a gateway, or profile:<name>
    identity: tuple[str, str]
    share: Share = 1.0  # of what is there: the part of this cluster, where several consume one queue
    prefetch: Annotated[int, Field(ge=1)] | None = None  # messages that one consumer of the queue may hold


class HpaRules(Frozen):
    """What the HPA that passes a workload's target on makes of it by itself.

    Tolerances are shares of 1; None: the cluster's default. Above `max_replicas` it goes down whatever its tolerance.
    """

    tolerance_up: Annotated[float, Field(ge=0)] | None = None
    tolerance_down: Annotated[float, Field(ge=0)] | None = None
    max_replicas: int | None = None


class WorkloadSettings(Frozen):
    """What is set for one workload. None means: use the platform's default, or what is measured."""

    namespace: str
    name: str
    engine: str = "vllm"
    unit: Unit = Unit.REQUESTS
    slo_s: PositiveSeconds = 1.0
    slo_metric: SloMetric = SloMetric.QUEUE_TIME
    objective: Annotated[float, Field(ge=0.5, le=0.99999)] = 0.99
    slots_per_replica: Annotated[int, Field(ge=1)] | None = None
    active_ratio_target: Annotated[float, Field(ge=0.05, le=1)] | None = None
    kv_target: Annotated[float, Field(ge=0.05, le=1)] = 0.8
    capacity_per_replica: Annotated[float, Field(gt=0)] | None = None  # work units per second
    gpus_per_replica: Annotated[float, Field(gt=0)] = 1.0
    lead_time_s: PositiveSeconds | None = None
    mode: Mode = Mode.AUTO
    min_replicas: Annotated[int, Field(ge=0)] = 1
    max_replicas: Annotated[int, Field(ge=0)] = 100
    source: str | None = None  # the name under which the platform grants `demand_source`
    demand_source: SourceRef | None = None
    timezone: str = "UTC"
    hpa: HpaRules | None = None  # None: no HPA is known to stand between the target and the replicas


class Policy(Frozen):
    """Everything that steers `step`: the platform's settings and the workloads' own."""

    decision: DecisionSettings = DecisionSettings()
    workloads: tuple[WorkloadSettings, ...] = ()
