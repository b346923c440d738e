"""What can be read back of a workload: series on a grid of UTC, by signal."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from forecasting.series import Grid, Series
from scaler.core.values import WorkloadId


class HistorySignal(StrEnum):
    """What can be read back of a workload."""

    DEMAND = "demand"  # mean of the step, work units per second
    DEMAND_PEAK = "demand_peak"  # the largest 1-minute mean within the step
    REPLICAS = "replicas"  # mean number of ready replicas
    CAPACITY = "capacity"  # work units per second and replica
    LEAD_TIME = "lead_time"  # seconds


@dataclass(frozen=True, slots=True)
class HistoryBatch:
    """Series of workloads on one grid: one for each that was asked for, all unknown where nothing was found.

    `problems` says which parts are missing because a source failed; they are worth asking again.
    """

    grid: Grid
    series: Mapping[WorkloadId, Series]
    problems: tuple[str, ...] = ()
