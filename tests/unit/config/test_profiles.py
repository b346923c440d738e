from dataclasses import fields
from typing import Any

import pytest
from pydantic import ValidationError

from scaler.adapters.signals import presets
from scaler.config.fields import camel_key
from scaler.config.metadata import ENGINES, QUEUE_ENGINES
from scaler.config.problems import problems_of
from scaler.config.profiles import FIELDS, NEEDED, ProfileKind, ProfileSignals, QueryProfile
from scaler.core.observation import QueueReading, ReplicaReading

GOOD: dict[str, Any] = {
    "name": "own",
    "kind": "pod",
    "signals": {"running": {"query": "sum by (namespace, pod) (my_running)"}},
}


def problems(**changes: Any) -> list[str]:
    """Return what is wrong with a profile that is right but for some changes."""
    try:
        QueryProfile.model_validate(GOOD | changes)
    except ValidationError as error:
        return [str(problem) for problem in problems_of(error, QueryProfile)]
    return []


def test_the_engines_are_the_presets() -> None:
    """What a ScaledObject may name is what there is a preset for, of queues and of pods."""
    assert set(presets.ENGINES) == ENGINES
    assert set(presets.PER_QUEUE) == QUEUE_ENGINES


def test_the_words_are_the_fields_of_the_readings() -> None:
    """Every signal of a replica and of a queue can come from a query, and nothing else can."""
    assert set(FIELDS[ProfileKind.POD].values()) == {field.name for field in fields(ReplicaReading)} - {"pod"}
    assert set(FIELDS[ProfileKind.QUEUE].values()) == {field.name for field in fields(QueueReading)}
    words = {word for kind in ProfileKind for word in FIELDS[kind]}
    assert {camel_key(name) for name in ProfileSignals.model_fields} == words
    assert all(NEEDED[kind] in FIELDS[kind] for kind in ProfileKind)


def test_a_profile_gives_its_signals_by_the_field_that_each_fills() -> None:
    """Words become fields; the scale travels with the query."""
    by = "sum by (namespace, pod)"
    signals = GOOD["signals"] | {"queueTime": {"query": f"{by} (wait_ms)", "scale": 0.001}}
    profile = QueryProfile.model_validate(GOOD | {"signals": signals})
    assert profile.preset == "profile:own"
    assert profile.labels == ("namespace", "pod")
    assert {field: (signal.query, signal.scale) for field, signal in profile.readings.items()} == {
        "running": (f"{by} (my_running)", 1.0),
        "queue_time_s": (f"{by} (wait_ms)", 0.001),
    }


@pytest.mark.parametrize(
    "query",
    [
        "sum by (namespace, pod) (x)",
        "sum(x) by (pod,namespace)",
        "histogram_quantile(0.9, sum BY(namespace, pod, le) (rate(x_bucket[2m])))",
        "max by (namespace, pod) (\n  label_replace(x, 'pod', '$1', 'p(od', '(.*)') # it is ( called so\n)\n",
        'sum by (namespace, pod) (x{path=~"/v1/[a-z]{2"})',
    ],
)
def test_what_can_be_right_is_accepted(query: str) -> None:
    """PromQL is the server's to judge; brackets in texts and comments are no brackets."""
    assert problems(signals={"running": {"query": query}}) == []


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("", "must be a query in PromQL, was empty"),
        ("  \n", "must be a query in PromQL, was empty"),
        ("my_running", "must group by both labels, such as sum by (namespace, pod) (...), was 'my_running'"),
        ("sum by (namespace) (x)", "must group by both labels"),
        ("sum(x) # by (namespace, pod)", "must group by both labels"),
        ('sum(x{y="by (namespace, pod)"})', "must group by both labels"),
        ("sum by (namespace, pod) (x", "must close every bracket that it opens"),
        ("sum by (namespace, pod) (x])", "must close every bracket that it opens"),
        ("sum by (namespace, pod) (x)\x00", "must be printable text"),
        ("x" * 5000, "must be a query in PromQL of at most 4096 characters"),
        (7, "must be a query in PromQL of at most 4096 characters, was 7"),
    ],
)
def test_an_obviously_wrong_query_is_an_error_at_its_key(query: Any, message: str) -> None:
    """Its answer would name no owner, or the server would refuse it."""
    (problem,) = problems(signals={"running": {"query": query}})
    assert problem.startswith(f"signals.running.query {message}")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "Own"}, "name must be a name: at most 63 of a-z, 0-9 and '-', was 'Own'"),
        ({"kind": "pods"}, "kind must be one of pod, queue, was 'pods'"),
        ({"labels": ["a"]}, "labels[1] must be given"),
        ({"labels": ["a", "b", "c"]}, "labels must be the names of two labels, was a list"),
        ({"labels": ["a", "b c"]}, "labels[1] must be the name of a label, was 'b c'"),
        ({"labels": "a"}, "labels must be the names of two labels, was 'a'"),
        ({"namespaces": ["Team"]}, "namespaces[0] must be a namespace, or a pattern of namespaces such as team-*"),
        ({"sampledAt": "timestamp(x)"}, "sampledAt must group by both labels"),
        ({"signals": {}}, "signals.running must be given with kind pod"),
        ({"signals": {**GOOD["signals"], "unacked": GOOD["signals"]["running"]}}, "signals.unacked must be left out"),
        ({"signals": {**GOOD["signals"], "waitin": {}}}, "signals.waitin is not a known key; did you mean waiting?"),
        (
            {"signals": {"running": {**GOOD["signals"]["running"], "scale": 0}}},
            "signals.running.scale must be a number",
        ),
    ],
)
def test_each_mistake_is_named(changes: dict[str, Any], message: str) -> None:
    """A mistake is one error, at its key, with what would be right."""
    (problem,) = problems(**changes)
    assert problem.startswith(message)


def test_each_kind_needs_the_signal_that_dates_the_rest() -> None:
    """A queue without `waiting` is out of sight, whatever else is known of it."""
    labels = {"kind": "queue", "labels": ["group", "topic"]}
    query = {"query": "sum by (group, topic) (lag)"}
    assert problems(**labels, signals={"waiting": query}) == []
    assert problems(**labels, signals={"arrivals": query}) == ["signals.waiting must be given with kind queue"]
