"""Whether the cluster keeps the tolerance of HPAs: read back, and taken into the settings of every workload."""

from typing import Any

import pytest

from scaler.adapters.kubernetes.tolerance import PROBLEM
from scaler.config.models import HpaRules
from scaler.core.values import WorkloadId
from tests.cluster_view_rig import Cluster, cluster, engine, until
from tests.kubernetes_objects import scaled_object

EXACT = {"scaleUp": {"tolerance": "0"}, "scaleDown": {"tolerance": "0"}}
DROPPED: dict[str, Any] = {"scaleUp": {"stabilizationWindowSeconds": 0}, "scaleDown": {}}


def exact(name: str, namespace: str = "tenant") -> dict[str, Any]:
    """A ScaledObject that asks for no tolerance."""
    manifest = scaled_object(name, namespace=namespace)
    manifest["spec"]["advanced"] = {"horizontalPodAutoscalerConfig": {"behavior": EXACT}}
    return manifest


def hpa(name: str, behavior: dict[str, Any], namespace: str = "tenant") -> dict[str, Any]:
    """The HPA that KEDA makes for it."""
    metadata = {"name": f"keda-hpa-{name}", "namespace": namespace, "labels": {"scaledobject.keda.sh/name": name}}
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


def test_one_hpa_that_has_it_outweighs_those_that_have_not() -> None:
    """Nobody can feign the field where a cluster drops it, but anybody can make an HPA without it."""
    names = ("a", "b", "c")
    hpas = (hpa("a", DROPPED), hpa("b", DROPPED), hpa("c", EXACT))
    with cluster(*(exact(name) for name in names), *hpas) as it:
        until(lambda: it.server.count("get", "keda-hpa-c"), "a look at the one that has it")
        assert not any(PROBLEM in line for line in it.view.problems)
        assert it.workloads.asking_tolerance() == [("tenant", f"keda-hpa-{name}") for name in names]


def test_an_hpa_that_is_not_there_says_nothing() -> None:
    """Not made yet, paused, or of another name: what the ScaledObject asks for holds."""
    with cluster(exact("engine"), scaled_object("plain")) as it:
        until(lambda: it.server.count("get", "keda-hpa-engine"), "a look at the HPA")
        assert tolerances(it) == {
            "engine": HpaRules(tolerance_up=0, tolerance_down=0, max_replicas=10),
            "plain": HpaRules(max_replicas=10),
        }
        assert it.workloads.asking_tolerance() == [("tenant", "keda-hpa-engine")]
        assert WorkloadId("tenant", "engine") not in it.view.explanations or it.view.problems
