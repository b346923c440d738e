import io
from typing import Any

import pytest
from hypothesis import given
from rich.console import Console

from scaler.config.models import Mode
from scaler.core.plan import Plan, Recommendation
from scaler.core.published import PlanVersion
from scaler.core.values import Missing, Reason, WorkloadId
from scaler.report.explain import answer, explanation, find_workload, read_plan
from scaler.report.plan_document import PlanDocument
from scaler.report.plan_json import plan_document
from tests.core_builders import Ticker, replicas, seen, workload
from tests.plan_builders import AT_S, CHAT, PLANS, plan, recommendation, unknown


def document_of(*items: Recommendation) -> PlanDocument:
    shown = plan_document(plan(*items), version=PlanVersion(3, 41), leader=True, now_s=AT_S + 4)
    return read_plan(shown)


def answer_of(item: Recommendation) -> str:
    return answer(find_workload(document_of(item), item.workload))


def printed(document: PlanDocument, key: WorkloadId = CHAT, **console: Any) -> str:
    out = io.StringIO()
    Console(file=out, width=100, **console).print(explanation(document, find_workload(document, key)))
    return out.getvalue()


@pytest.mark.parametrize(
    ("item", "sentence"),
    [
        (recommendation(), "demo/chat has 12 because the rate of change is limited (rate: per 60 s)"),
        (
            recommendation(reason="reactive: backlog"),
            "demo/chat has 12 because the backlog has to drain within the lead time (reactive: backlog)",
        ),
        (
            recommendation(reason="calendar: launch"),
            "demo/chat has 12 because of the step calendar (calendar: launch)",
        ),
        (
            recommendation(told=9, mode="advisory"),
            "demo/chat has 9, and would have 12 in mode auto, because the rate of change is limited (rate: per 60 s)",
        ),
        (
            recommendation(told=Missing(Reason.OBSERVE_MODE), mode="observe"),
            (
                "demo/chat would have 12 because the rate of change is limited (rate: per 60 s); "
                "in mode observe KEDA is told nothing"
            ),
        ),
        (
            unknown(),
            (
                "demo/chat has no target because nothing is known (replicas: view_unavailable): "
                "KEDA gets an error, the HPA holds what is there"
            ),
        ),
    ],
)
def test_the_answer_comes_first(item: Recommendation, sentence: str) -> None:
    """One sentence says how many and why; where nothing is known it says what happens then."""
    assert answer_of(item) == sentence
    assert " ".join(printed(document_of(item)).split()).startswith(" ".join(sentence.split()))


def test_shows_what_the_answer_rests_on() -> None:
    """Bounds, replicas, every term, ages, what is missing, what to know, and the trail step by step."""
    item = recommendation(missing=("waiting: stale (1 of 8)",), notes=("frozen: 2",))
    text = printed(document_of(item))
    rows = [" ".join(line.split()) for line in text.splitlines()]
    for expected in (
        "mode auto, active",
        "bounds 2 .. 40, before any clamp 15",
        "replicas spec 10, ready 8, pending 2, gated 1",
        "saturation 1.24 (1 = at target), binding: slots",
        "kv_cache 0.62",
        "demand 42.5 per second, capacity 5 per second and replica",
        "lead time 5m30s",
        "evidence 12 s old",
        "missing waiting: stale (1 of 8)",
        "notes frozen: 2",
        "forecast absent: no_forecaster",
        "step before after reason",
        "reactive 10 15 demand",
        "rate 15 12 per 60 s",
        "plan of 2023-11-14T22:13:20.000Z, 4 s old, epoch 3, sequence 41, from the leader",
    ):
        assert expected in rows


def test_what_is_not_known_is_called_unknown() -> None:
    """An unknown number is a word, not a zero."""
    text = printed(document_of(unknown()))
    assert "spec unknown, ready unknown" in text
    assert "(1 = at target)" not in text
    for expected in ("activity unknown", "bounds 2 .. 40", "saturation unknown, binding", "demand unknown, capacity"):
        assert expected in " ".join(text.split())
    assert "no steps: there was nothing to decide from" in text


def test_colour_is_for_terminals() -> None:
    """Piped output has no escape sequences; a terminal's has."""
    assert "\x1b[" not in printed(document_of(recommendation()))
    assert "\x1b[" in printed(document_of(recommendation()), force_terminal=True, color_system="standard")


def test_text_from_the_network_cannot_drive_the_terminal() -> None:
    """Escape sequences and markup in a document are shown, not obeyed."""
    item = recommendation(reason="rate: \x1b[2J[red]x[/red]", missing=("a\nb: \x07",))
    text = printed(document_of(item))
    assert "\x1b" not in text
    assert "\\x1b[2J[red]x[/red]" in text
    assert "a\\nb" in text


def test_a_workload_that_is_not_there_is_an_error_with_a_hint() -> None:
    """The error names near workloads."""
    document = document_of(recommendation(), recommendation(WorkloadId("demo", "embed")))
    with pytest.raises(LookupError, match="workload demo/chta is not in the plan; did you mean demo/chat"):
        find_workload(document, WorkloadId("demo", "chta"))
    with pytest.raises(LookupError, match=r"is not in the plan$"):
        find_workload(document_of(), CHAT)


@pytest.mark.parametrize("document", [None, [], {"schema": 2}, {"schema": 1, "at": 5}, "<html>"])
def test_what_is_no_plan_is_refused(document: Any) -> None:
    """Anything else than a /plan document is an error that says where it differs."""
    with pytest.raises(ValueError, match="not a /plan document of schema 1: "):
        read_plan(document)


def test_reads_a_newer_controller() -> None:
    """Keys that this version does not know are passed over."""
    shown = plan_document(plan(recommendation()), version=None, leader=True, now_s=AT_S)
    shown["workloads"][0]["colour"] = "blue"
    shown["workloads"][0]["forecast"] = {"quantiles": {"0.9": 40.0}, "horizon_s": 300}
    text = printed(read_plan({**shown, "more": 1}))
    assert "forecast q0.9 40" in " ".join(text.split())


@given(PLANS)
def test_any_plan_can_be_explained(shown: Plan) -> None:
    """Whatever a plan holds, each workload has an explanation that starts with its name."""
    document = read_plan(plan_document(shown, version=None, leader=False, now_s=AT_S))
    for key in shown.recommendations:
        assert printed(document, key).startswith(str(key))


@pytest.mark.parametrize("mode", Mode)
def test_explains_what_the_decision_really_says(mode: Mode) -> None:
    """A recommendation of the engine itself, idle and overloaded, is explained by a phrase and not by a bare step."""
    ticker = Ticker(workload(mode=mode))
    for running, waiting in ((1, 0), (32, 400)):
        item = ticker.settled(seen(replicas(4, running=running, waiting=waiting)))
        sentence = answer_of(item)
        assert "of the step" not in sentence
        assert str(item.target) in sentence


def test_a_workload_that_cannot_be_used_has_its_reason() -> None:
    """Whoever asks why nothing scales is told what is wrong with the manifest, also where an older one holds."""
    bad = WorkloadId("demo", "bad")
    document = read_plan(
        plan_document(
            plan(recommendation()),
            version=None,
            leader=True,
            now_s=AT_S,
            unusable={bad: "slo: must be a duration", CHAT: "maxReplicas: must be >= 1"},
        )
    )
    with pytest.raises(LookupError, match="demo/bad is not in the plan: slo: must be a duration"):
        find_workload(document, bad)
    assert "not usable maxReplicas: must be >= 1" in " ".join(printed(document).split())


def test_before_the_first_plan_no_workload_is_said_to_be_missing() -> None:
    """A controller that waits for its cluster has no plan: that is told, and not that the workload is not in it."""
    empty: dict[str, object] = dict.fromkeys(("at", "age_s", "epoch", "sequence", "continue"))
    document = read_plan(empty | {"schema": 1, "leader": False, "workloads": [], "tenants": [], "intents": []})
    with pytest.raises(LookupError, match="there is no plan yet"):
        find_workload(document, WorkloadId("demo", "chat"))
