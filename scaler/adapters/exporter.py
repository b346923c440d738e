"""The controller's own metrics, rendered at scrape time from one frozen snapshot: no gauge is set anywhere else.

What is not known has no series, never 0 or NaN; `headway_workload_missing` says why. Labels are bounded, and a workload
has at most `MAX_SERIES_PER_WORKLOAD` series. docs/metrics.md is generated from `METRICS`.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from scaler.adapters.collection import CollectionStats
from scaler.adapters.metric_specs import MetricSpec, Row, counter, families_of, gauge
from scaler.core.plan import Plan, Recommendation
from scaler.core.published import PlanVersion
from scaler.core.values import Missing, Reading, value_of

MAX_SERIES_PER_WORKLOAD = 25
MAX_MISSING = 3  # signals named; when there are more, the last series says `other`
MAX_CONDITIONS = 3
TERMS = ("slots", "kv_cache", "queue_time", "gpu_activity")
_WORKLOAD = ("namespace", "workload")


RECOMMENDED = gauge(
    "headway_recommendation_replicas",
    "Replicas recommended: target is the decision, told what KEDA is given, lower and upper its bounds, uncapped the"
    " wish before any clamp.",
    *_WORKLOAD,
    "kind",
)
REPLICAS = gauge("headway_replicas", "Replicas that there are, by state.", *_WORKLOAD, "state")
ACTIVE = gauge("headway_active", "Whether the workload is to have at least one replica.", *_WORKLOAD)
SATURATION = gauge("headway_saturation_ratio", "Consumer saturation; 1 = consumers at their target limits.", *_WORKLOAD)
TERM = gauge(
    "headway_saturation_term_ratio", "Consumer saturation by term, before the largest is taken.", *_WORKLOAD, "term"
)
DEMAND = gauge("headway_demand_per_second", "Work units that arrive per second, before any queue.", *_WORKLOAD)
CAPACITY = gauge(
    "headway_capacity_per_second", "Work units per second that one replica sustains inside its SLO.", *_WORKLOAD
)
LEAD_TIME = gauge("headway_lead_time_seconds", "Time from a change in demand to a replica that serves it.", *_WORKLOAD)
EVIDENCE_AGE = gauge("headway_evidence_age_seconds", "Time since the load was last known.", *_WORKLOAD)
MISSING = gauge(
    "headway_workload_missing",
    "1 for a signal that should be known and is not, with the reason; signal=other stands for all further ones.",
    *_WORKLOAD,
    "signal",
    "reason",
)
CONDITION = gauge(
    "headway_workload_condition",
    "Replicas that a condition concerns (1 where it concerns the whole workload); condition=other stands for all"
    " further ones.",
    *_WORKLOAD,
    "condition",
)
LEADER = gauge("headway_leader", "Whether this controller publishes plans.")
WORKLOADS = gauge("headway_workloads", "Workloads in the latest plan.")
EPOCH = gauge("headway_plan_epoch", "Epoch of the published plan.")
SEQUENCE = gauge("headway_plan_sequence", "Sequence of the published plan within its epoch.")
TICK_DURATION = gauge("headway_tick_duration_seconds", "Wall time that the latest tick took.")
TICK_AGE = gauge("headway_last_tick_age_seconds", "Time since the latest completed tick.")
TICKS = counter("headway_ticks_total", "Ticks completed.")
TICK_ERRORS = counter("headway_tick_errors_total", "Ticks that failed.")
TICKS_SKIPPED = counter("headway_ticks_skipped_total", "Ticks left out because the one before still ran.")
SOURCE_FETCHES = counter("headway_source_fetches_total", "Fetches from metrics sources.")
SOURCE_FAILURES = counter(
    "headway_source_failures_total",
    "Fetches that failed (what is the preset), views of the cluster that failed (what=cluster), answers that could not"
    " be read (reason=invalid_value) or were incomplete (reason=partial_answer).",
    "what",
    "reason",
)
COLLECTION_DURATION = gauge("headway_collection_seconds", "Wall time that the latest tick took to collect and read.")
SIGNAL_MATCHED = gauge(
    "headway_signal_matched", "1 for each metric name that carried a signal in the latest tick.", "signal", "metric"
)

WORKLOAD_METRICS = (
    RECOMMENDED,
    REPLICAS,
    ACTIVE,
    SATURATION,
    TERM,
    DEMAND,
    CAPACITY,
    LEAD_TIME,
    EVIDENCE_AGE,
    MISSING,
    CONDITION,
)
CONTROLLER_METRICS = (
    LEADER,
    WORKLOADS,
    EPOCH,
    SEQUENCE,
    TICK_DURATION,
    TICK_AGE,
    TICKS,
    TICK_ERRORS,
    TICKS_SKIPPED,
)
COLLECTION_METRICS = (SOURCE_FETCHES, SOURCE_FAILURES, COLLECTION_DURATION, SIGNAL_MATCHED)
METRICS = (*WORKLOAD_METRICS, *CONTROLLER_METRICS, *COLLECTION_METRICS)


@dataclass(frozen=True, slots=True)
class ControllerSnapshot:
    """What a scrape shows: the latest plan, and how the ticking goes."""

    plan: Plan | None  # None before the first tick
    version: PlanVersion | None  # of what is published
    leading: bool
    ticks: int
    tick_errors: int
    ticks_skipped: int
    tick_duration_s: float | None


class ControllerCollector(Collector):
    """Renders a controller's snapshot. Workloads are shown by the leader only, so that each has one set of series."""

    def __init__(
        self,
        snapshot: Callable[[], ControllerSnapshot],
        now_s: Callable[[], float],
        collection: Callable[[], CollectionStats] | None = None,
    ) -> None:
        """Render what `snapshot` returns, and, where it is given, what `collection` tells of the metrics sources."""
        self._snapshot = snapshot
        self._now_s = now_s
        self._collection = collection

    def describe(self) -> Iterable[Metric]:
        """Return the families without samples, so that a registry sees a name that is taken."""
        return families_of(METRICS)

    def collect(self) -> Iterator[Metric]:
        """Render the snapshot as it is now."""
        yield from families_of(METRICS, self._rows(self._snapshot()))

    def _rows(self, snapshot: ControllerSnapshot) -> Iterator[Row]:
        for spec, value in _controller_rows(snapshot, self._now_s()):
            yield spec, (), value
        if self._collection is not None:
            yield from _collection_rows(self._collection())
        if snapshot.leading and snapshot.plan is not None:
            for key, item in sorted(snapshot.plan.recommendations.items()):
                for spec, labels, value in workload_rows(item):
                    yield spec, (key.namespace, key.name, *labels), value


def _controller_rows(snapshot: ControllerSnapshot, now_s: float) -> Iterator[tuple[MetricSpec, float]]:
    yield LEADER, float(snapshot.leading)
    yield TICKS, float(snapshot.ticks)
    yield TICK_ERRORS, float(snapshot.tick_errors)
    yield TICKS_SKIPPED, float(snapshot.ticks_skipped)
    if snapshot.plan is not None:
        yield WORKLOADS, float(len(snapshot.plan.recommendations))
        yield TICK_AGE, max(0.0, now_s - snapshot.plan.at_s)
    if snapshot.version is not None:
        yield EPOCH, float(snapshot.version.epoch)
        yield SEQUENCE, float(snapshot.version.sequence)
    if snapshot.tick_duration_s is not None:
        yield TICK_DURATION, snapshot.tick_duration_s


def _collection_rows(stats: CollectionStats) -> Iterator[Row]:
    """Yield the series of collecting: labels are presets, reasons, signals and their candidate names, no others."""
    yield SOURCE_FETCHES, (), float(stats.fetches_total)
    for (what, reason), count in sorted(stats.failures_total.items()):
        yield SOURCE_FAILURES, (what, reason.value), float(count)
    if stats.seconds is not None:
        yield COLLECTION_DURATION, (), stats.seconds
    for signal, names in stats.matched.items():
        for name in names:
            yield SIGNAL_MATCHED, (signal, name), 1.0


def workload_rows(item: Recommendation) -> Iterator[Row]:
    """Yield the series of one workload, at most `MAX_SERIES_PER_WORKLOAD`; what is not known is left out."""
    yield from _recommended(item)
    if not isinstance(item.counts, Missing):
        for state in ("spec", "ready", "pending", "blocked"):
            yield REPLICAS, (state,), float(getattr(item.counts, state))
    yield ACTIVE, (), float(item.active)
    yield from _known(SATURATION, (), item.saturation.value)
    for term in TERMS:
        if term in item.saturation.terms:
            yield from _known(TERM, (term,), item.saturation.terms[term])
    yield from _known(DEMAND, (), item.demand)
    yield from _known(CAPACITY, (), item.capacity)
    yield LEAD_TIME, (), item.lead_time_s
    yield EVIDENCE_AGE, (), item.evidence_age_s
    for signal, reason in _first(MAX_MISSING, map(_split, item.missing), ("other", "see_plan")):
        yield MISSING, (signal, reason), 1.0
    for condition, count in _first(MAX_CONDITIONS, map(_split, item.notes), ("other", "1")):
        yield CONDITION, (condition,), float(count) if count.isdigit() else 1.0


def _recommended(item: Recommendation) -> Iterator[Row]:
    counts = {"target": item.target, "told": item.told, "lower": item.lower, "upper": item.upper}
    for kind, count in (*counts.items(), ("uncapped", item.uncapped)):
        if not isinstance(count, Missing):
            yield RECOMMENDED, (kind,), float(count)


def _known(spec: MetricSpec, labels: tuple[str, ...], reading: Reading) -> Iterator[Row]:
    value = value_of(reading)
    if value is not None and math.isfinite(value):
        yield spec, labels, value


def _split(text: str) -> tuple[str, str]:
    """Split `running: stale (2 of 3)` into `running` and `stale`."""
    name, _, rest = text.partition(": ")
    return name, rest.partition(" (")[0]


def _first(limit: int, items: Iterable[tuple[str, str]], rest: tuple[str, str]) -> list[tuple[str, str]]:
    """Return the items, or the first of them and `rest` for all others."""
    unique = list(dict(items).items())  # a name once: two samples of equal labels are no exposition
    return unique if len(unique) <= limit else [*unique[: limit - 1], rest]
