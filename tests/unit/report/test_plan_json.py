import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.core.plan import Plan, Saturation
from scaler.core.published import PlanVersion
from scaler.core.values import Known, Missing, Reading, Reason, WorkloadId
from scaler.report.plan_document import PlanDocument
from scaler.report.plan_json import plan_document
from tests.plan_builders import AT_S, NAMED_PLANS, PLANS, plan, recommendation, unknown

VERSION = PlanVersion(3, 41)


def test_the_document_is_the_contract() -> None:
    """Every figure of a recommendation is where the contract has it; parts that do not exist yet are null or empty."""
    notes, missing = ("frozen: 2",), ("waiting: stale (1 of 8)",)
    terms: dict[str, Reading] = {"slots": Known(1.24), "queue_time": Missing(Reason.NO_COMPLETIONS)}
    known = Known(1.24)
    item = recommendation(notes=notes, missing=missing, saturation=Saturation(known, known, known, "slots", terms))
    assert plan_document(plan(item), version=VERSION, leader=True, now_s=AT_S + 4.5) == {
        "schema": 1,
        "at": "2023-11-14T22:13:20.000Z",
        "age_s": 4.5,
        "epoch": 3,
        "sequence": 41,
        "leader": True,
        "workloads": [
            {
                "namespace": "demo",
                "name": "chat",
                "tenant": None,
                "mode": "auto",
                "target": 12,
                "told": 12,
                "active": True,
                "lower": 2,
                "upper": 40,
                "uncapped": 15,
                "wanted": None,
                "granted": None,
                "bound": None,
                "replicas": {"spec": 10, "ready": 8, "pending": 2, "gated": 1},
                "saturation": {"value": 1.24, "binding": "slots", "terms": {"slots": 1.24, "queue_time": None}},
                "demand": 42.5,
                "capacity": 5.0,
                "lead_time_s": 330.0,
                "evidence_age_s": 12.0,
                "missing": ["waiting: stale (1 of 8)"],
                "notes": ["frozen: 2"],
                "forecast": {"absent": "no_forecaster"},
                "reason": "rate: per 60 s",
                "changed": {
                    "at": "2023-11-14T22:12:50.000Z",
                    "before": 10,
                    "after": 12,
                    "reason": "rate: per 60 s",
                },
                "trail": [
                    {"step": "reactive", "before": 10, "after": 15, "reason": "demand"},
                    {"step": "rate", "before": 15, "after": 12, "reason": "per 60 s"},
                ],
            }
        ],
        "tenants": [],
        "intents": [],
        "unusable": [],
        "problems": [],
        "continue": None,
    }


def test_what_cannot_be_used_is_told_to_whom_it_concerns() -> None:
    """Workloads that are not in the plan have their reason; problems, which may name anybody, are for who sees all."""
    unusable = {WorkloadId("demo", "bad"): "slo: must be a duration", WorkloadId("other", "worse"): "no target"}
    problems = ("cluster: view_stale",)
    shown = plan(recommendation())
    whole = plan_document(shown, version=VERSION, leader=True, now_s=AT_S, unusable=unusable, problems=problems)
    assert [it["name"] for it in whole["unusable"]] == ["bad", "worse"]
    assert whole["problems"] == ["cluster: view_stale"]
    part = plan_document(
        shown, version=VERSION, leader=True, now_s=AT_S, unusable=unusable, problems=problems, namespace="demo"
    )
    assert part["unusable"] == [{"namespace": "demo", "name": "bad", "reason": "slo: must be a duration"}]
    assert part["problems"] == []


def test_what_is_not_known_is_null() -> None:
    """Without a view nothing is 0: target, replicas and saturation are null."""
    (entry,) = plan_document(plan(unknown()), version=VERSION, leader=True, now_s=AT_S)["workloads"]
    assert (entry["target"], entry["told"], entry["uncapped"], entry["demand"]) == (None, None, None, None)
    assert (entry["active"], entry["trail"], entry["lower"]) == (None, [], 2)
    assert entry["replicas"] == {"spec": None, "ready": None, "pending": None, "gated": None}
    assert entry["saturation"] == {"value": None, "binding": "none", "terms": {}}
    assert entry["missing"] == ["replicas: view_unavailable"]


def test_before_the_first_tick_there_is_an_empty_document() -> None:
    """A controller that has not ticked says so with nulls."""
    document = plan_document(None, version=None, leader=False, now_s=AT_S)
    assert document["workloads"] == []
    assert {document[key] for key in ("at", "age_s", "epoch", "sequence", "continue")} == {None}
    PlanDocument.model_validate(document)


def test_filters_by_namespace_and_name() -> None:
    """Each filter alone and both together select exactly the workloads that they name."""
    names = [("a", "chat"), ("a", "embed"), ("b", "chat")]
    shown = plan(*(recommendation(WorkloadId(*name)) for name in names))

    def selected(namespace: str | None = None, name: str | None = None) -> list[tuple[str, str]]:
        document = plan_document(shown, version=VERSION, leader=True, now_s=AT_S, namespace=namespace, name=name)
        return [(w["namespace"], w["name"]) for w in document["workloads"]]

    assert selected() == names
    assert selected(namespace="a") == names[:2]
    assert selected(name="chat") == [names[0], names[2]]
    assert selected("b", "chat") == [names[2]]
    assert selected("b", "embed") == []


@pytest.mark.parametrize("cursor", ["", "x", "!!", "ZGVtbw==", "/w==", "ä", "a" * 5000])
def test_refuses_a_cursor_that_is_not_its_own(cursor: str) -> None:
    """A `continue` that no answer had is an error, not a first page."""
    with pytest.raises(ValueError, match="continue must be"):
        plan_document(plan(), version=VERSION, leader=True, now_s=AT_S, continue_=cursor)


def test_refuses_a_page_without_room() -> None:
    """A limit below 1 is an error that shows it."""
    with pytest.raises(ValueError, match="limit must be >= 1, was 0"):
        plan_document(plan(), version=VERSION, leader=True, now_s=AT_S, limit=0)


def page_through(shown: Plan, limit: int, *, then: Plan | None = None) -> list[tuple[str, str]]:
    """Return the workloads of all pages; `then` takes the place of the plan after the first page."""
    seen: list[tuple[str, str]] = []
    cursor: str | None = None
    while True:
        document = plan_document(shown, version=VERSION, leader=True, now_s=AT_S, limit=limit, continue_=cursor)
        assert len(document["workloads"]) <= limit
        seen += [(w["namespace"], w["name"]) for w in document["workloads"]]
        cursor, shown = document["continue"], then or shown
        if cursor is None:
            return seen


@given(NAMED_PLANS, st.integers(1, 10))
def test_pages_are_a_partition(shown: Plan, limit: int) -> None:
    """Whatever the limit, the pages hold every workload once, in order."""
    assert page_through(shown, limit) == [(key.namespace, key.name) for key in sorted(shown.recommendations)]


@given(NAMED_PLANS, NAMED_PLANS, st.integers(1, 3))
def test_a_new_plan_between_pages_loses_and_repeats_nothing(first: Plan, second: Plan, limit: int) -> None:
    """A workload that is in both plans is on exactly one page, whatever came or went between the pages."""
    seen = page_through(first, limit, then=second)
    assert len(seen) == len(set(seen))
    both = {(key.namespace, key.name) for key in first.recommendations.keys() & second.recommendations.keys()}
    assert both <= set(seen)


@given(PLANS)
def test_every_document_is_of_the_published_shape(shown: Plan) -> None:
    """Any plan gives JSON that the published model reads back to the same values."""
    document = plan_document(shown, version=VERSION, leader=False, now_s=AT_S)
    text = json.dumps(document, allow_nan=False)
    assert PlanDocument.model_validate_json(text).model_dump(mode="json") == json.loads(text)


def test_an_infinite_reading_is_null() -> None:
    """JSON has no infinity: such a number is not known."""
    item = replace(recommendation(), demand=Known(float("inf")))
    (entry,) = plan_document(plan(item), version=VERSION, leader=True, now_s=AT_S)["workloads"]
    assert entry["demand"] is None
