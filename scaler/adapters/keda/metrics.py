"""The scaler's own metrics. Labelled by RPC and status only: a label per workload would not be worth its series."""

from collections.abc import Iterator

import grpc
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from scaler.adapters.keda.holder import PlanHolder

# An answer takes microseconds; what is above a millisecond is the interpreter busy with something else.
_BUCKETS_S = (5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 0.1, 0.25, 1.0)


class RpcMeter:
    """Counts the calls of one RPC. Its label children are looked up once, not per call."""

    def __init__(self, rpc: str, calls: Counter, seconds: Histogram, streams: Gauge) -> None:
        self._calls = {code: calls.labels(rpc, code.name) for code in _CODES}
        self._seconds = seconds.labels(rpc)
        self.open_streams = streams.labels(rpc)

    def count(self, code: grpc.StatusCode) -> None:
        """Count a call that ended with this status."""
        self._calls[code].inc()

    def observe(self, seconds: float) -> None:
        """Record how long an answer took."""
        self._seconds.observe(seconds)


# What the servicer ends a call with; UNKNOWN is grpc's word for an exception.
_CODES = (
    grpc.StatusCode.OK,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNAVAILABLE,
)


class ScalerMetrics:
    """All metrics of a scaler in one registry."""

    def __init__(self, registry: CollectorRegistry, holder: PlanHolder) -> None:
        self._calls = Counter(
            "headway_scaler_rpcs", "Calls of KEDA's RPCs, by status.", ("rpc", "code"), registry=registry
        )
        self._seconds = Histogram(
            "headway_scaler_rpc_seconds", "Time to answer a call.", ("rpc",), buckets=_BUCKETS_S, registry=registry
        )
        self._streams = Gauge("headway_scaler_open_streams", "Streams that are open.", ("rpc",), registry=registry)
        self.invalid_metadata = Counter(
            "headway_scaler_invalid_metadata",
            "Calls whose trigger metadata is malformed, of workloads that keep their last valid settings.",
            registry=registry,
        )
        registry.register(_HolderCollector(holder))

    def rpc(self, name: str) -> RpcMeter:
        """Return the meter of an RPC."""
        return RpcMeter(name, self._calls, self._seconds, self._streams)


class _HolderCollector(Collector):
    """Reads the holder when it is scraped."""

    def __init__(self, holder: PlanHolder) -> None:
        self._holder = holder

    def collect(self) -> Iterator[Metric]:
        holder = self._holder
        refused = "Plans that were older than the one held, or did not fit their heartbeat."
        yield CounterMetricFamily("headway_scaler_plans_refused", refused, value=holder.refused_plans)
        errors = "Reads of the plan store that failed."
        yield CounterMetricFamily("headway_scaler_plan_store_errors", errors, value=holder.store_errors)
        yield GaugeMetricFamily("headway_scaler_workloads", "Workloads in the plan held.", value=holder.workloads)
        version, age_s = holder.version, holder.heartbeat_age_s()
        if version is None or age_s is None:  # no plan has no age: the series is absent, not 0
            return
        yield GaugeMetricFamily("headway_scaler_plan_epoch", "Epoch of the plan held.", value=version.epoch)
        yield GaugeMetricFamily("headway_scaler_plan_sequence", "Sequence of the plan held.", value=version.sequence)
        age = "Age of the last heartbeat of the plan held."
        yield GaugeMetricFamily("headway_scaler_heartbeat_age_seconds", age, value=age_s)
