from typing import Any

import pytest

from scaler.config.grants import Broker, Grants, grant_problems, matches, meet
from scaler.config.metadata import MetadataErrors, parse_metadata
from scaler.config.models import SourceRef
from scaler.config.profiles import QueryProfile
from scaler.config.settings import demand_source
from scaler.config.sources import SourceSection

ISTIO = {"destination_service_namespace": "demo", "destination_service_name": "chat"}
LAG = {"waiting": {"query": "sum by (group, topic) (lag)"}}
RUNNING = {"running": {"query": "sum by (namespace, pod) (running)"}}
PROFILES: list[dict[str, Any]] = [
    {"name": "kafka", "kind": "queue", "labels": ["group", "topic"], "namespaces": ["team-*"], "signals": LAG},
    {"name": "own", "kind": "pod", "namespaces": ["demo"], "signals": RUNNING},
]
SOURCES: list[dict[str, Any]] = [
    {"name": "jobs", "namespaces": ["team-a"], "queue": {"queue": "a-jobs", "share": 0.25, "prefetch": 4}},
    {"name": "jobs", "namespaces": ["team-b", "demo"], "queue": {"queue": "b-jobs", "vhost": "b"}},
    {"name": "chat", "namespaces": ["*"], "route": {"gateway": "istio", "labels": ISTIO}},
    {"name": "audio", "namespaces": ["team-*"], "profile": {"name": "kafka", "labels": {"topic": "t", "group": "g"}}},
]


@pytest.fixture(scope="module")
def grants() -> Grants:
    sources = [SourceSection.model_validate(source) for source in SOURCES]
    return Grants.of(sources, [QueryProfile.model_validate(p) for p in PROFILES], Broker(vhost="main", prefetch=9))


def source(grants: Grants, namespace: str, **metadata: str) -> SourceRef | None:
    return demand_source(namespace, parse_metadata(metadata), grants)


def refusal(grants: Grants, namespace: str, **metadata: str) -> str:
    with pytest.raises(MetadataErrors) as caught:
        source(grants, namespace, **metadata)
    (problem,) = caught.value.problems
    return problem


def test_a_name_means_what_was_granted_to_the_namespace(grants: Grants) -> None:
    """One name is another queue in another namespace; what an entry does not say, the broker's section does."""
    rabbit = {"engine": "rabbitmq", "source": "jobs"}
    assert source(grants, "team-a", **rabbit) == SourceRef(
        preset="rabbitmq", identity=("main", "a-jobs"), share=0.25, prefetch=4
    )
    assert source(grants, "team-b", **rabbit) == SourceRef(preset="rabbitmq", identity=("b", "b-jobs"), prefetch=9)
    route = SourceRef(preset="istio", identity=("demo", "chat"))
    assert source(grants, "anything", engine="vllm", source="chat") == route
    audio = SourceRef(preset="profile:kafka", identity=("g", "t"))
    assert source(grants, "team-x", engine="profile:kafka", source="audio") == audio
    assert source(grants, "demo", engine="profile:own", source="chat") == route
    assert source(grants, "demo") is None


def test_unknown_and_not_granted_are_the_same_words(grants: Grants) -> None:
    """A tenant cannot tell what others have from what there is not."""
    unknown = refusal(grants, "team-c", engine="rabbitmq", source="nothing")
    assert unknown == "source must be a source that the platform granted to namespace team-c, was 'nothing'"
    assert refusal(grants, "team-c", engine="rabbitmq", source="jobs") == unknown.replace("nothing", "jobs")
    unknown = refusal(grants, "demo", engine="profile:nothing")
    assert unknown == "engine must be a profile that the platform granted to namespace demo, was 'profile:nothing'"
    assert refusal(grants, "demo", engine="profile:kafka") == unknown.replace("nothing", "kafka")
    assert refusal(Grants(), "demo", engine="profile:own") == unknown.replace("nothing", "own")


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"engine": "rabbitmq", "source": "chat"}, "source must be a queue with engine rabbitmq, was 'chat'"),
        ({"engine": "vllm", "source": "jobs"}, "source must be a gateway's route with engine vllm, was 'jobs'"),
        ({"source": "audio"}, "source must be a gateway's route with engine vllm, was 'audio'"),
        (
            {"engine": "profile:kafka"},
            "source must be a queue of profile kafka with engine profile:kafka, was not given",
        ),
        (
            {"engine": "profile:kafka", "source": "jobs"},
            "source must be a queue of profile kafka with engine profile:kafka, was 'jobs'",
        ),
    ],
)
def test_a_source_goes_with_its_engine(grants: Grants, metadata: dict[str, str], message: str) -> None:
    """A queue's consumers are seen by the queue's preset alone; the pods of other engines are behind a gateway."""
    assert refusal(grants, "team-a", **metadata) == message


def test_both_refusals_are_told_at_once(grants: Grants) -> None:
    """A profile and a source that are not granted are two problems."""
    with pytest.raises(MetadataErrors) as caught:
        source(grants, "team-a", engine="profile:none", source="none")
    assert [problem.key for problem in caught.value.details] == ["engine", "source"]


@pytest.mark.parametrize(
    ("pattern", "namespace", "expected"),
    [
        ("*", "demo", True),
        ("team-*", "team-a", True),
        ("team-*", "team-", True),
        ("team-*", "steam-a", False),
        ("*-prod", "a-prod", True),
        ("*-prod", "a-production", False),
        ("a*b*c", "a-b-c", True),
        ("a*b*c", "a-c-b", False),
        ("demo", "demo", True),
        ("demo", "demo2", False),
    ],
)
def test_a_star_is_any_text(pattern: str, namespace: str, *, expected: bool) -> None:
    """A pattern means whole names; without a star it means itself alone."""
    assert matches(pattern, namespace) is expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("a*", "*b", True),
        ("a*", "b*", False),
        ("*a", "*b", False),
        ("team-*-prod", "*-prod", True),
        ("a*c", "ab*", True),
        ("a*x*c", "ab*d", False),
        ("**", "*", True),
        ("a", "a", True),
        ("a", "*b", False),
    ],
)
def test_two_patterns_meet_where_a_name_is_meant_by_both(one: str, other: str, *, expected: bool) -> None:
    """It is decided by the patterns alone, whatever namespaces there are today."""
    assert meet(one, other) is expected
    assert meet(other, one) is expected


def entry(name: str, *namespaces: str) -> dict[str, Any]:
    return {"name": name, "namespaces": list(namespaces), "queue": {"queue": "q"}}


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ([entry("a", "x"), entry("a", "y"), entry("b", "x")], []),
        ([entry("a", "x", "*")], []),
        ([entry("a", "x"), entry("a", "y", "x")], ["sources[1].namespaces[1] must not meet x of sources[0]"]),
        ([entry("a", "x-*"), entry("a", "x-1")], ["sources[1].namespaces[0] must not meet x-* of sources[0]"]),
        ([entry("a", "x-1"), entry("a", "x-*")], ["sources[1].namespaces[0] must not meet x-1 of sources[0]"]),
        ([entry("a", "x-*"), entry("a", "*-y")], ["sources[1].namespaces[0] must not meet x-* of sources[0]"]),
        ([entry("a", "*"), 7, {"name": 1, "namespaces": ["x"]}, {"name": "a", "namespaces": [1]}], []),
    ],
)
def test_one_name_never_means_two_things_in_a_namespace(sources: list[Any], expected: list[str]) -> None:
    """Two grants of a name that meet are an error of the file, at the later one."""
    found = [str(problem) for problem in grant_problems({"sources": sources})]
    assert [problem.partition(", which")[0] for problem in found] == expected


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        ({"name": "kafka", "labels": {"group": "g", "topic": "t"}}, []),
        ({"name": "kafk", "labels": {}}, ["name must be one of the file's profiles, was kafk; did you mean kafka?"]),
        ({"name": "own", "labels": {}}, ["name must be a profile of kind queue, was own of kind pod"]),
        (
            {"name": "kafka", "labels": {"group": "g", "topics": "t"}},
            [
                "labels.topics must be group and topic with profile kafka; did you mean topic?",
                "labels.topic must be given with profile kafka",
            ],
        ),
    ],
)
def test_a_source_of_a_profile_is_checked_against_it(profile: dict[str, Any], expected: list[str]) -> None:
    """The profile must be there, see queues, and be asked for by its own labels."""
    document = {"profiles": PROFILES, "sources": [{"name": "s", "namespaces": ["a"], "profile": profile}]}
    found = [str(problem).removeprefix("sources[0].profile.") for problem in grant_problems(document)]
    assert found == expected


def test_two_profiles_of_one_name_are_an_error() -> None:
    """A name leads to one profile."""
    (problem,) = grant_problems({"profiles": [PROFILES[0], PROFILES[0]]})
    assert str(problem) == "profiles[1].name must be unique, was kafka as in profiles[0]"
