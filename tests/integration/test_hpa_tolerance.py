"""Whether the cluster keeps the tolerance of HPAs: read back, and taken into the settings of every workload."""

from collections.abc import Sequence
from typing import Any

import pytest

from scaler.adapters.kubernetes.tolerance import PROBLEM, RECHECK_S, REFRESH_S, REFUSED, RETRY_S, KeptTolerance
from scaler.config.models import HpaRules
from tests.api_rig import connected
from tests.api_server_double import ApiServerDouble
from tests.cluster_view_rig import Cluster, cluster, engine, put, until
from tests.kubernetes_objects import scaled_object
from tests.metrics_fakes import FixedClock

EXACT = {"scaleUp": {"tolerance": "0"}, "scaleDown": {"tolerance": "0"}}
DROPPED: dict[str, Any] = {"scaleUp": {"stabilizationWindowSeconds": 0}, "scaleDown": {}}


def exact(name: str, hpa_name: str | None = None) -> dict[str, Any]:
    """A ScaledObject that asks for no tolerance."""
    manifest = scaled_object(name)
    config = {"behavior": EXACT} | ({"name": hpa_name} if hpa_name else {})
    manifest["spec"]["advanced"] = {"horizontalPodAutoscalerConfig": config}
    return manifest


def hpa(name: str, behavior: dict[str, Any], *, named: str | None = None, owner: str | None = None) -> dict[str, Any]:
    """The HPA that KEDA makes for a ScaledObject, or one that somebody else made."""
    owners = [{"kind": "ScaledObject", "name": name, "uid": owner or f"uid-so-{name}", "controller": True}]
    labels = {"scaledobject.keda.sh/name": name}
    metadata = {"name": named or f"keda-hpa-{name}", "namespace": "tenant", "labels": labels, "ownerReferences": owners}
    spec = {"behavior": behavior}
    return {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": spec}


def tolerances(it: Cluster) -> dict[str, HpaRules | None]:
    """The tolerance of each workload, as the policy has it."""
    return {each.name: each.hpa for each in it.workloads.current().workloads}


@pytest.mark.parametrize(("behavior", "problem"), [(EXACT, ""), (DROPPED, PROBLEM)])
def test_the_field_that_comes_back_says_what_holds(behavior: dict[str, Any], problem: str) -> None:
    """Kept, what a ScaledObject asks for counts; dropped, the cluster's default does, and a person is told."""
    _, target, *pods = engine(1)
    with cluster(exact("engine"), hpa("engine", behavior), target, *pods) as it:
        until(lambda: it.server.count("get", "keda-hpa-engine"), "a look at the HPA")
        expected = HpaRules(max_replicas=10) if problem else HpaRules(tolerance_up=0, tolerance_down=0, max_replicas=10)
        until(lambda: tolerances(it) == {"engine": expected}, "what it says")
        until(lambda: (problem in it.view.problems) is bool(problem), "the word of it")


def test_an_hpa_that_is_not_there_says_nothing() -> None:
    """Not made yet, or paused: what the ScaledObject asks for holds, and only those that ask are looked at."""
    with cluster(exact("engine"), exact("other", "of-its-own"), scaled_object("plain")) as it:
        until(lambda: it.server.count("get", "keda-hpa-engine"), "a look at the HPA")
        until(lambda: it.server.count("get", "of-its-own"), "a look at the one with a name of its own")
        asked = HpaRules(tolerance_up=0, tolerance_down=0, max_replicas=10)
        assert tolerances(it) == {"engine": asked, "other": asked, "plain": HpaRules(max_replicas=10)}
        assert it.workloads.asking_tolerance() == [
            (("tenant", "keda-hpa-engine"), "uid-so-engine"),
            (("tenant", "of-its-own"), "uid-so-other"),
        ]
        assert not it.server.count("get", "keda-hpa-plain")


def judged(server: ApiServerDouble, names: Sequence[str], *looks: Sequence[dict[str, Any]]) -> tuple[list[bool], str]:
    """Return what was told after looks at HPAs, and the problem; before each look some HPAs change."""
    told: list[bool] = []
    candidates = [(("tenant", f"keda-hpa-{name}"), f"uid-so-{name}") for name in names]
    with connected(server, FixedClock()) as api:
        looking = KeptTolerance(api, lambda: candidates, told.append)
        for changed in looks:
            put(server, *changed)
            looking.look()
        return told, looking.problem


def test_one_hpa_that_has_it_outweighs_those_that_have_not() -> None:
    """Nobody can feign the field where a cluster drops it, but anybody can make an HPA without it."""
    hpas = [hpa("a", DROPPED), hpa("b", DROPPED), hpa("c", EXACT)]
    with ApiServerDouble() as server:
        assert judged(server, "abc", hpas, [], []) == ([False, False, False], "")


def test_one_look_is_no_proof_that_the_field_is_dropped() -> None:
    """A ScaledObject has just been told to ask for it: KEDA writes it in a moment."""
    with ApiServerDouble() as server:
        assert judged(server, "a", [hpa("a", DROPPED)]) == ([], "")
        assert judged(server, "a", [hpa("a", DROPPED)], [hpa("a", EXACT)]) == ([False], "")
        assert judged(server, "a", [hpa("a", DROPPED)], []) == ([True], PROBLEM)
        assert judged(server, "a", [hpa("a", DROPPED)], [], [hpa("a", EXACT)]) == ([True, False], "")


@pytest.mark.parametrize("behavior", [EXACT, DROPPED])
def test_an_hpa_of_somebody_else_proves_nothing(behavior: dict[str, Any]) -> None:
    """It has the name of KEDA's, but is not controlled by the ScaledObject."""
    with ApiServerDouble() as server:
        assert judged(server, "a", [hpa("a", behavior, owner="uid-so-b")], []) == ([], "")


def test_what_may_not_be_read_is_said_and_what_was_known_holds() -> None:
    """Without the right nothing is known; where it is taken away later, a field that was dropped still is."""
    with ApiServerDouble() as server, connected(server, FixedClock()) as api:
        told: list[bool] = []
        candidates = [(("tenant", "keda-hpa-a"), "uid-so-a")]
        looking = KeptTolerance(api, lambda: candidates, told.append)
        assert looking.look() == RETRY_S
        assert (told, looking.problem) == ([], "")
        put(server, hpa("a", DROPPED))
        server.fail("status", status=403, reason="Forbidden", path="keda-hpa-a")
        assert looking.look() == RECHECK_S
        assert (told, looking.problem) == ([], REFUSED)
        server.heal()
        assert [looking.look(), looking.look()] == [RETRY_S, RECHECK_S]
        assert (told, looking.problem) == ([True], PROBLEM)
        server.fail("status", status=403, reason="Forbidden", path="keda-hpa-a")
        assert looking.look() == RECHECK_S
        assert (told, looking.problem) == ([True], PROBLEM)
        server.heal()
        put(server, hpa("a", EXACT))
        assert looking.look() == REFRESH_S
        assert (told, looking.problem) == ([True, False], "")


def test_what_may_not_be_read_is_no_matter_once_another_has_the_field() -> None:
    """The right to one namespace was taken away; that the cluster keeps the tolerance is known all the same."""
    with ApiServerDouble() as server, connected(server, FixedClock()) as api:
        put(server, hpa("b", EXACT))
        server.fail("status", status=403, reason="Forbidden", path="keda-hpa-a")
        candidates = [(("tenant", f"keda-hpa-{name}"), f"uid-so-{name}") for name in "aaaab"]
        told: list[bool] = []
        looking = KeptTolerance(api, lambda: candidates, told.append)
        assert {(looking.look(), looking.problem) for _ in range(20)} == {(REFRESH_S, "")}  # in any order of looking
        assert not any(told)
