"""The controller's own metrics, rendered at scrape time from one frozen snapshot: no gauge is set anywhere else.

What is not known has no series, never 0 or NaN; `headway_workload_missing` says why. Labels are bounded, and a workload
has at most `MAX_SERIES_PER_WORKLOAD` series. docs/metrics.md is generated from `METRICS`.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from scaler.adapters.collection import CollectionStats
from scaler.core.plan import Plan, Recommendation
from scaler.core.published import PlanVersion
from scaler.core.values import Missing, Reading, value_of

MAX_SERIES_PER_WORKLOAD = 25
MAX_MISSING = 3  # signals named; when there are more, the last series says `other`
MAX_CONDITIONS = 3
TERMS = ("slots", "kv_cache", "queue_time", "gpu_activity")
_WORKLOAD = ("namespace", "workload")


class Kind(StrEnum):
    """The two kinds of metrics that are exported."""

    GAUGE = "gauge"
    COUNTER = "counter"


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One metric: its name as exposed, its labels and what it says."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str

    def family(self) -> Metric:
        """Return an empty family of this metric."""
        if self.kind is Kind.COUNTER:
            return CounterMetricFamily(self.name.removesuffix("_total"), self.help, labels=self.labels)
        return GaugeMetricFamily(self.name, self.help, labels=self.labels)


def _gauge(name: str, text: str, *labels: str) -> MetricSpec:
    return MetricSpec(name, Kind.GAUGE, labels, text)


RECOMMENDED = _gauge(
    "headway_recommendation_replicas",
    "Replicas recommended: target is the decision, told what KEDA is given, lower and upper its bounds, uncapped the"
    " wish before any clamp.",
    *_WORKLOAD,
    "kind",
)
REPLICAS = _gauge("headway_replicas", "Replicas that there are, by state.", *_WORKLOAD, "state")
ACTIVE = _gauge("headway_active", "Whether the workload is to have at least one replica.", *_WORKLOAD)
SATURATION = _gauge(
    "headway_saturation_ratio", "Consumer saturation; 1 = consumers at their target limits.", *_WORKLOAD
)
TERM = _gauge(
    "headway_saturation_term_ratio", "Consumer saturation by term, before the largest is taken.", *_WORKLOAD, "term"
)
DEMAND = _gauge("headway_demand_per_second", "Work units that arrive per second, before any queue.", *_WORKLOAD)
CAPACITY = _gauge(
    "headway_capacity_per_second", "Work units per second that one replica sustains inside its SLO.", *_WORKLOAD
)
LEAD_TIME = _gauge("headway_lead_time_seconds", "Time from a change in demand to a replica that serves it.", *_WORKLOAD)
EVIDENCE_AGE = _gauge("headway_evidence_age_seconds", "Time since the load was last known.", *_WORKLOAD)
MISSING = _gauge(
    "headway_workload_missing",
    "1 for a signal that should be known and is not, with the reason; signal=other stands for all further ones.",
    *_WORKLOAD,
    "signal",
    "reason",
)
CONDITION = _gauge(
    "headway_workload_condition",
    "Replicas that a condition concerns (1 where it concerns the whole workload); condition=other stands for all"
    " further ones.",
    *_WORKLOAD,
    "condition",
)
LEADER = _gauge("headway_leader", "Whether this controller publishes plans.")
WORKLOADS = _gauge("headway_workloads", "Workloads in the latest plan.")
EPOCH = _gauge("headway_plan_epoch", "Epoch of the published plan.")
SEQUENCE = _gauge("headway_plan_sequence", "Sequence of the published plan within its epoch.")
TICK_DURATION = _gauge("headway_tick_duration_seconds", "Wall time that the latest tick took.")
TICK_AGE = _gauge("headway_last_tick_age_seconds", "Time since the latest completed tick.")
TICKS = MetricSpec("headway_ticks_total", Kind.COUNTER, (), "Ticks completed.")
TICK_ERRORS = MetricSpec("headway_tick_errors_total", Kind.COUNTER, (), "Ticks that failed.")
TICKS_SKIPPED = MetricSpec(
    "headway_ticks_skipped_total", Kind.COUNTER, (), "Ticks left out because the one before still ran."
)
SOURCE_FETCHES = MetricSpec("headway_source_fetches_total", Kind.COUNTER, (), "Fetches from metrics sources.")
SOURCE_FAILURES = MetricSpec(
    "headway_source_failures_total",
    Kind.COUNTER,
    ("what", "reason"),
    "Fetches that failed (what is the preset), views of the cluster that failed (what=cluster), answers that could not"
    " be read (reason=invalid_value) or were incomplete (reason=partial_answer).",
)
COLLECTION_DURATION = _gauge("headway_collection_seconds", "Wall time that the latest tick took to collect and read.")
SIGNAL_MATCHED = _gauge(
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


# A metric, the labels after namespace and workload, and the value.
_Row = tuple[MetricSpec, tuple[str, ...], float]


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
        return [spec.family() for spec in METRICS]

    def collect(self) -> Iterator[Metric]:
        """Render the snapshot as it is now."""
        snapshot = self._snapshot()
        families = {spec.name: spec.family() for spec in METRICS}
        for spec, value in _controller_rows(snapshot, self._now_s()):
            _add(families, spec, (), value)
        if self._collection is not None:
            for spec, labels, value in _collection_rows(self._collection()):
                _add(families, spec, labels, value)
        if snapshot.leading and snapshot.plan is not None:
            for key, item in sorted(snapshot.plan.recommendations.items()):
                identity = (key.namespace, key.name)
                for spec, labels, value in workload_rows(item):
                    _add(families, spec, (*identity, *labels), value)
        yield from families.values()


def _add(families: dict[str, Metric], spec: MetricSpec, labels: tuple[str, ...], value: float) -> None:
    families[spec.name].add_sample(spec.name, dict(zip(spec.labels, labels, strict=True)), value)


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


def _collection_rows(stats: CollectionStats) -> Iterator[_Row]:
    """Yield the series of collecting: labels are presets, reasons, signals and their candidate names, no others."""
    yield SOURCE_FETCHES, (), float(stats.fetches_total)
    for (what, reason), count in sorted(stats.failures_total.items()):
        yield SOURCE_FAILURES, (what, reason.value), float(count)
    if stats.seconds is not None:
        yield COLLECTION_DURATION, (), stats.seconds
    for signal, names in stats.matched.items():
        for name in names:
            yield SIGNAL_MATCHED, (signal, name), 1.0


def workload_rows(item: Recommendation) -> Iterator[_Row]:
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


def _recommended(item: Recommendation) -> Iterator[_Row]:
    counts = {"target": item.target, "told": item.told, "lower": item.lower, "upper": item.upper}
    for kind, count in (*counts.items(), ("uncapped", item.uncapped)):
        if not isinstance(count, Missing):
            yield RECOMMENDED, (kind,), float(count)


def _known(spec: MetricSpec, labels: tuple[str, ...], reading: Reading) -> Iterator[_Row]:
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


def metrics_table() -> str:
    """Return the Markdown table of all metrics, as docs/metrics.md has it."""
    rows = (f"| `{m.name}` | {m.kind} | {', '.join(f'`{label}`' for label in m.labels)} | {m.help} |" for m in METRICS)
    return "\n".join(["| metric | kind | labels | meaning |", "|---|---|---|---|", *rows])
