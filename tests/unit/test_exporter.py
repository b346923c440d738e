from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from scaler.adapters.collection import CollectionStats
from scaler.adapters.exporter import (
    COLLECTION_METRICS,
    MAX_SERIES_PER_WORKLOAD,
    METRICS,
    WORKLOAD_METRICS,
    ControllerCollector,
    ControllerSnapshot,
)
from scaler.adapters.metric_specs import metrics_table
from scaler.adapters.view_metrics import VIEW_METRICS, ViewCollector, ViewFigures
from scaler.core.plan import Plan
from scaler.core.published import PlanVersion
from scaler.core.values import Known, Reason, WorkloadId
from tests.plan_builders import AT_S, PLANS, plan, recommendation, saturation, unknown

ALL_METRICS = (*METRICS, *VIEW_METRICS)
DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"
SNAPSHOT = ControllerSnapshot(
    plan=plan(recommendation()),
    version=PlanVersion(3, 41),
    leading=True,
    ticks=7,
    tick_errors=2,
    ticks_skipped=1,
    tick_duration_s=0.25,
)
WORKLOAD_NAMES = {spec.name for spec in WORKLOAD_METRICS}

Series = tuple[str, tuple[tuple[str, str], ...]]


def scrape(
    snapshot: ControllerSnapshot, now_s: float = AT_S + 4, collection: CollectionStats | None = None
) -> dict[Series, float]:
    """Render and parse as a Prometheus would; a series that occurs twice fails."""
    registry = CollectorRegistry()
    told = None if collection is None else lambda: collection
    registry.register(ControllerCollector(lambda: snapshot, lambda: now_s, told))
    samples: dict[Series, float] = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in samples
            samples[key] = sample.value
    return samples


def series(name: str, **labels: str) -> Series:
    return name, tuple(sorted(labels.items()))


def of_workloads(samples: dict[Series, float]) -> dict[Series, float]:
    return {key: value for key, value in samples.items() if key[0] in WORKLOAD_NAMES}


def with_plan(shown: Plan | None) -> ControllerSnapshot:
    return replace(SNAPSHOT, plan=shown)


def test_shows_the_recommendation_and_what_it_rests_on() -> None:
    """Each number of a recommendation is a series in base units, of the workload's own labels."""
    missing, notes = ("waiting: stale (1 of 8)",), ("frozen: 2", "rollout")
    samples = scrape(with_plan(plan(recommendation(missing=missing, notes=notes))))
    chat = {"namespace": "demo", "workload": "chat"}
    recommended = "headway_recommendation_replicas"
    assert of_workloads(samples) == {
        series(recommended, kind="target", **chat): 12,
        series(recommended, kind="told", **chat): 12,
        series(recommended, kind="lower", **chat): 2,
        series(recommended, kind="upper", **chat): 40,
        series(recommended, kind="uncapped", **chat): 15,
        series("headway_replicas", state="spec", **chat): 10,
        series("headway_replicas", state="ready", **chat): 8,
        series("headway_replicas", state="pending", **chat): 2,
        series("headway_replicas", state="blocked", **chat): 1,
        series("headway_active", **chat): 1,
        series("headway_saturation_ratio", **chat): 1.24,
        series("headway_saturation_term_ratio", term="slots", **chat): 1.24,
        series("headway_saturation_term_ratio", term="kv_cache", **chat): 0.62,
        series("headway_saturation_term_ratio", term="queue_time", **chat): pytest.approx(1.24 / 3),
        series("headway_saturation_term_ratio", term="gpu_activity", **chat): pytest.approx(1.24 / 6),
        series("headway_demand_per_second", **chat): 42.5,
        series("headway_capacity_per_second", **chat): 5,
        series("headway_lead_time_seconds", **chat): 330,
        series("headway_evidence_age_seconds", **chat): 12,
        series("headway_workload_missing", signal="waiting", reason="stale", **chat): 1,
        series("headway_workload_condition", condition="frozen", **chat): 2,
        series("headway_workload_condition", condition="rollout", **chat): 1,
    }


def test_shows_how_the_ticking_goes() -> None:
    """The controller's own series count ticks and tell the age of the latest one."""
    samples = scrape(SNAPSHOT)
    assert {key: value for key, value in samples.items() if key not in of_workloads(samples)} == {
        series("headway_leader"): 1,
        series("headway_workloads"): 1,
        series("headway_plan_epoch"): 3,
        series("headway_plan_sequence"): 41,
        series("headway_tick_duration_seconds"): 0.25,
        series("headway_last_tick_age_seconds"): 4,
        series("headway_ticks_total"): 7,
        series("headway_tick_errors_total"): 2,
        series("headway_ticks_skipped_total"): 1,
    }


def test_shows_how_the_collecting_goes() -> None:
    """Failures by source and reason, and which metric names carried the signals, also on a standby."""
    told = CollectionStats(
        at_s=AT_S,
        seconds=0.5,
        matched={"running": ("ray_vllm_num_requests_running", "vllm:num_requests_running")},
        fetches_total=12,
        failures_total={("vllm", Reason.SOURCE_DOWN): 3, ("cluster", Reason.VIEW_UNAVAILABLE): 1},
    )
    samples = scrape(replace(SNAPSHOT, leading=False), collection=told)
    names = {spec.name for spec in COLLECTION_METRICS}
    assert {key: value for key, value in samples.items() if key[0] in names} == {
        series("headway_source_fetches_total"): 12,
        series("headway_source_failures_total", what="vllm", reason="source_down"): 3,
        series("headway_source_failures_total", what="cluster", reason="view_unavailable"): 1,
        series("headway_collection_seconds"): 0.5,
        series("headway_signal_matched", signal="running", metric="ray_vllm_num_requests_running"): 1,
        series("headway_signal_matched", signal="running", metric="vllm:num_requests_running"): 1,
    }


def test_before_anything_was_collected_only_the_count_is_known() -> None:
    """No fetch yet is 0 fetches; how long one takes is not known."""
    names = {name for name, _ in scrape(SNAPSHOT, collection=CollectionStats())}
    assert names & {spec.name for spec in COLLECTION_METRICS} == {"headway_source_fetches_total"}


def test_what_is_not_known_has_no_series() -> None:
    """Without a view there is no target, no replica count and no saturation, and a reason instead."""
    names = {name for name, _ in of_workloads(scrape(with_plan(plan(unknown()))))}
    assert names == {
        "headway_recommendation_replicas",  # of the bounds
        "headway_active",
        "headway_lead_time_seconds",
        "headway_evidence_age_seconds",
        "headway_workload_missing",
    }
    kinds = {dict(labels).get("kind") for _, labels in of_workloads(scrape(with_plan(plan(unknown()))))}
    assert kinds - {None} == {"lower", "upper"}


def test_before_the_first_tick_there_is_nothing_to_show() -> None:
    """A controller that has not ticked shows that, and no number that it does not have."""
    empty = ControllerSnapshot(None, None, leading=False, ticks=0, tick_errors=0, ticks_skipped=0, tick_duration_s=None)
    assert {name for name, _ in scrape(empty)} == {
        "headway_leader",
        "headway_ticks_total",
        "headway_tick_errors_total",
        "headway_ticks_skipped_total",
    }


def test_a_standby_shows_no_workloads() -> None:
    """Only the leader exports workloads: two sets of series of one workload would add up in every sum."""
    assert of_workloads(scrape(replace(SNAPSHOT, leading=False))) == {}


def test_each_scrape_shows_the_snapshot_of_its_time() -> None:
    """The same collector shows the newer plan when there is one, and nothing of the older."""
    snapshots = iter([with_plan(plan(recommendation())), with_plan(plan(recommendation(WorkloadId("demo", "new"))))])
    registry = CollectorRegistry()
    registry.register(ControllerCollector(lambda: next(snapshots), lambda: AT_S))
    assert b'workload="chat"' in generate_latest(registry)
    second = generate_latest(registry)
    assert b'workload="new"' in second
    assert b'workload="chat"' not in second


def test_the_fullest_workload_has_exactly_its_budget() -> None:
    """With every number known and more absences and conditions than are named, a workload has 25 series."""
    fullest = recommendation(
        missing=tuple(f"signal_{i}: stale (1 of 8)" for i in range(9)),
        notes=tuple(f"condition_{i}: {i}" for i in range(9)),
        saturation=saturation(),
        demand=Known(1.0),
    )
    samples = of_workloads(scrape(with_plan(plan(fullest))))
    assert len(samples) == MAX_SERIES_PER_WORKLOAD == 25
    labels = [dict(labels) for _, labels in samples]
    assert [it["signal"] for it in labels if "signal" in it] == ["signal_0", "signal_1", "other"]
    assert [it["condition"] for it in labels if "condition" in it] == ["condition_0", "condition_1", "other"]


@given(PLANS)
def test_no_plan_breaks_the_exposition_or_the_budget(shown: Plan) -> None:
    """Whatever a plan holds: unique series, finite values, and no workload above its budget."""
    samples = of_workloads(scrape(with_plan(shown)))
    assert all(abs(value) < float("inf") for value in samples.values())
    for key in shown.recommendations:
        own = [k for k in samples if {("namespace", key.namespace), ("workload", key.name)} <= set(k[1])]
        assert len(own) <= MAX_SERIES_PER_WORKLOAD


def test_the_documentation_has_every_metric() -> None:
    """docs/metrics.md holds the table that the code generates."""
    assert metrics_table(ALL_METRICS) in DOCS.read_text()


def test_metrics_are_named_by_convention() -> None:
    """Names start with headway_, counters end in _total, every metric has a help text, and a name occurs once."""
    assert len({spec.name for spec in ALL_METRICS}) == len(ALL_METRICS)
    for spec in ALL_METRICS:
        assert spec.name.startswith("headway_")
        assert (spec.kind == "counter") == spec.name.endswith("_total")
        assert spec.help.endswith(".")


def test_a_registry_sees_that_the_names_are_taken() -> None:
    """A second collector of the same names is refused when it is registered, not at the first scrape."""
    registry = CollectorRegistry()
    registry.register(ControllerCollector(lambda: SNAPSHOT, lambda: AT_S))
    with pytest.raises(ValueError, match="Duplicated"):
        registry.register(ControllerCollector(lambda: SNAPSHOT, lambda: AT_S))


def test_a_view_says_how_old_it_is_and_what_it_cannot_use() -> None:
    """The figures come out under their names; the age has no sample while there is no view."""
    figures = ViewFigures(12.5, {"pods": 2}, {"pods": 900}, {"pods": 1}, refused=3, absent=4)
    samples = {
        (sample.name, sample.labels.get("kind")): sample.value
        for family in ViewCollector(lambda: figures).collect()
        for sample in family.samples
    }
    assert samples == {
        ("headway_view_age_seconds", None): 12.5,
        ("headway_view_lists_total", "pods"): 2,
        ("headway_view_events_total", "pods"): 900,
        ("headway_view_odd_objects_total", "pods"): 1,
        ("headway_workloads_refused", None): 3,
        ("headway_workloads_absent", None): 4,
    }
    unseen = ViewFigures(None, {}, {}, {}, refused=0, absent=0)
    assert not [s for f in ViewCollector(lambda: unseen).collect() for s in f.samples if "age" in s.name]
