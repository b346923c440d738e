"""KEDA calls Headway and the HPA moves a Deployment: what is recommended is what there is."""

from pathlib import Path
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from tests.cluster.chat import chatting
from tests.cluster.conftest import Tenant
from tests.cluster.processes import until
from tests.cluster.watching import samples, stays
from tests.cluster.workloads import deployment, scaled_object

PAUSED = "autoscaling.keda.sh/paused"


def test_a_deployment_follows_the_recommendation_up_and_down(tenant: Tenant, tmp_path: Path) -> None:
    """1 -> 20 -> 21 -> 1 replicas, each exactly: the HPA's tolerance swallows nothing."""
    with chatting(tenant, tmp_path) as chat:
        for replicas in (20, 21, 1):
            chat.load_for(replicas)
            chat.reaches(replicas)


def test_kubectl_shows_the_metric(tenant: Tenant, tmp_path: Path) -> None:
    """`kubectl get hpa` shows a value beside the target: a metric goes all the way through the aggregation layer."""
    with chatting(tenant, tmp_path, replicas=2) as chat:
        kubectl = tenant.cluster.objects.kubectl
        until(lambda: "1/1 (avg)" in kubectl("get", "hpa", "--namespace", tenant.namespace), "the metric in the table")
        described = kubectl("describe", "hpa", "keda-hpa-chat", "--namespace", tenant.namespace)
        assert '"s0-headway-replicas" (target average value):  1 / 1' in described
        assert chat.replicas() == 2


def test_the_webhook_admits_the_template_and_refuses_a_second_one(tenant: Tenant) -> None:
    """KEDA takes the recommended ScaledObject, also at zero; that it looks shows in the refusal of a second one."""
    objects, namespace = tenant.cluster.objects, tenant.namespace
    objects.apply(deployment(namespace, "chat", replicas=0), deployment(namespace, "jobs", replicas=0))
    objects.apply(scaled_object(namespace, "chat", "headway.test:6000"))
    objects.apply(scaled_object(namespace, "jobs", "headway.test:6000", least=0))
    second = scaled_object(namespace, "second", "headway.test:6000")
    second["spec"]["scaleTargetRef"] = {"name": "chat"}
    with pytest.raises(ApiException, match="already managed by the ScaledObject 'chat'"):
        objects.apply(second)


def test_a_paused_scaled_object_is_left_alone(tenant: Tenant, tmp_path: Path) -> None:
    """While it is paused the load may do what it will; afterwards the Deployment follows again."""
    with chatting(tenant, tmp_path, replicas=2) as chat:
        chat.annotate(**{PAUSED: "true"})
        until(lambda: chat.hpa() is None, "KEDA to take its HPA away")
        chat.load_for(6)
        until(lambda: chat.target() not in (None, 2), "a recommendation for the new load")
        stays(chat.replicas, 2, for_s=5)
        chat.annotate(**{PAUSED: None})
        chat.reaches(6)


def test_a_rollout_does_not_drift(tenant: Tenant, tmp_path: Path) -> None:
    """While a new image rolls out, with surge pods that become ready late, the Deployment is told 20 and only 20."""
    with chatting(tenant, tmp_path, replicas=20, ready_after="3s") as chat:
        chat.settles()
        new = deployment(tenant.namespace, "chat", replicas=20, ready_after="3s", image="engine:2")
        del new["spec"]["replicas"]
        tenant.cluster.objects.patch("Deployment", "apps/v1", tenant.namespace, "chat", {"spec": new["spec"]})
        seen = samples(lambda: _told_and_there(tenant), lambda: _rolled_out(_deployment(tenant)), within_s=60)
        assert _rolled_out(_deployment(tenant))
        assert {told for told, _ in seen} == {20}
        assert max(there for _, there in seen) > 20  # surge pods, which a tolerance would have made the HPA keep
        stays(chat.replicas, 20, for_s=5)


def _deployment(tenant: Tenant) -> dict[str, Any]:
    found = tenant.cluster.objects.get(f"/apis/apps/v1/namespaces/{tenant.namespace}/deployments/chat")
    assert found is not None
    return found


def _told_and_there(tenant: Tenant) -> tuple[int, int]:
    found = _deployment(tenant)
    return found["spec"]["replicas"], found["status"].get("replicas", 0)


def _rolled_out(found: dict[str, Any]) -> bool:
    status = found["status"]
    if status.get("observedGeneration", 0) < found["metadata"]["generation"]:
        return False
    return bool(status.get("updatedReplicas", 0) == status.get("replicas", 0) == status.get("readyReplicas", 0))
