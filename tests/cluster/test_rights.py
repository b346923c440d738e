"""The rights that `headway rights` prints are enough, and none of them is idle: a real API server is the judge."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from tests.cluster.audit import FORBIDDEN, Audit, table
from tests.cluster.chat import Chat, chatting
from tests.cluster.conftest import Tenant
from tests.cluster.headway import Headway
from tests.cluster.objects import Objects
from tests.cluster.processes import until
from tests.cluster.workloads import deployment, scaled_object

Right = tuple[str, str, str]  # verb, group, resource
ROLES = ("controller", "scaler")
RBAC = "rbac.authorization.k8s.io/v1"
SCALES: Right = ("get", "*", "*/scale")
READ = (
    "/api/v1/{}/pods",
    "/apis/apps/v1/{}/deployments",
    "/apis/apps/v1/{}/statefulsets",
    "/apis/keda.sh/v1alpha1/{}/scaledobjects",
    "/apis/autoscaling/v2/{}/horizontalpodautoscalers",
)


def test_every_right_is_needed_and_none_is_missing(tenant: Tenant, tmp_path: Path) -> None:
    """Through a workload's life, two leaders, refused settings, a target of another kind: no 403, no right unused."""
    audit = Audit(tenant.cluster.plane.audit_log)
    with chatting(tenant, tmp_path, replicas=2) as chat:
        _live_through_everything(chat)
        users = {role: _user(chat.headway, role) for role in ROLES}
        granted = {role: _granted(chat.headway, user) for role, user in users.items()}
        until(lambda: _idle(audit, users, granted) == {}, "every right to be used, which leaves none idle")
        print(f"\n{table(audit.calls(users.values()))}")  # noqa: T201  # the closing figures
        assert {role: _used(audit, user) for role, user in users.items()} == granted
        assert audit.refused(users.values()) == []


def _live_through_everything(chat: Chat) -> None:
    """Two leaders one after the other, a load that changes, settings refused twice, and a ReplicaSet to scale."""
    first = chat.headway.roles[0]
    chat.headway.controller()
    objects, namespace = chat.tenant.cluster.objects, chat.tenant.namespace
    objects.apply(_replica_set(namespace), _scaling_it(namespace, chat.headway.address))
    first.program.stop()
    for slo in ("never", "1s", "never", "1s"):
        _set(chat, slo)
    chat.load_for(4)
    chat.reaches(4)


def _set(chat: Chat, slo: str) -> None:
    """Give the workload an SLO, and wait until Headway has said what it thinks of it."""
    objects, namespace = chat.tenant.cluster.objects, chat.tenant.namespace
    before = _events(chat)
    objects.apply(scaled_object(namespace, "chat", chat.headway.address, slo=slo))
    until(lambda: _events(chat) != before, f"an Event on the SLO {slo}")


def _events(chat: Chat) -> list[tuple[str, int]]:
    found = chat.tenant.cluster.objects.items(f"/apis/events.k8s.io/v1/namespaces/{chat.tenant.namespace}/events")
    ours = [each for each in found if each["reason"] in {"SettingsRefused", "SettingsAccepted"}]
    return sorted((each["reason"], (each.get("series") or {}).get("count", 1)) for each in ours)


def _replica_set(namespace: str) -> dict[str, Any]:
    whole = deployment(namespace, "bare")
    return {**whole, "kind": "ReplicaSet"}


def _scaling_it(namespace: str, address: str) -> dict[str, Any]:
    whole = scaled_object(namespace, "bare", address)
    whole["spec"]["scaleTargetRef"] = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "bare"}
    return whole


def _user(headway: Headway, role: str) -> str:
    return f"system:serviceaccount:{headway.namespace}:headway-{role}"


def _granted(headway: Headway, user: str) -> set[Right]:
    """Return what the roles bound to a user grant, by the objects that the API server has."""
    objects = headway.cluster.objects
    found: set[Right] = set()
    for binding in _bindings(headway, user):
        kind, name = binding["roleRef"]["kind"], binding["roleRef"]["name"]
        where = "" if kind == "ClusterRole" else f"namespaces/{binding['metadata']['namespace']}/"
        role = objects.get(f"/apis/{RBAC}/{where}{kind.lower()}s/{name}")
        assert role is not None
        for rule in role["rules"]:
            found |= {(v, g, r) for v in rule["verbs"] for g in rule["apiGroups"] for r in rule["resources"]}
    return found


def _bindings(headway: Headway, user: str) -> list[dict[str, Any]]:
    base = f"/apis/{RBAC}"
    every = [
        each
        for kind in ("rolebindings", "clusterrolebindings")
        for each in headway.cluster.objects.items(f"{base}/{kind}")
    ]
    account = user.rpartition(":")[2]
    subject = {"kind": "ServiceAccount", "name": account, "namespace": headway.namespace}
    return [each for each in every if subject in each.get("subjects", [])]


def _idle(audit: Audit, users: dict[str, str], granted: dict[str, set[Right]]) -> dict[str, set[Right]]:
    """Return the rights of each role that it has not used."""
    found = {role: rights - _used(audit, users[role]) for role, rights in granted.items()}
    return {role: idle for role, idle in found.items() if idle}


def _used(audit: Audit, user: str) -> set[Right]:
    """Return the rights that a user's requests have used, a scale's by the wildcard that grants it."""
    return {SCALES if call.resource.endswith("/scale") else call.right for call in audit.calls({user})}


def test_a_namespace_taken_from_the_list_cannot_be_read(tenant: Tenant, tmp_path: Path) -> None:
    """Its binding is deleted: each read there is refused, and a controller that tries it all the same serves the rest.

    That the refusals are found in the log shows that the test above would find one.
    """
    objects, left = tenant.cluster.objects, f"{tenant.namespace}-left"
    with chatting(tenant, tmp_path) as chat:
        longer = {"kubernetes": {"namespaces": [tenant.namespace, left]}}
        binding = f"headway-controller.workloads.{chat.headway.namespace}"
        objects.namespace(left)
        objects.apply(_binding_in(chat, binding, left))
        reader = Objects(chat.headway.kubeconfigs["controller"])
        until(lambda: _answers(reader, left) == {200}, "the right to read the second namespace")
        objects.delete("RoleBinding", RBAC, left, binding)
        until(lambda: _answers(reader, left) == {FORBIDDEN}, "the right to be gone")
        assert _answers(reader, tenant.namespace) == {200}

        audit, user = Audit(tenant.cluster.plane.audit_log), _user(chat.headway, "controller")
        chat.headway.roles[0].program.stop()
        chat.headway.controller(cluster=longer)
        chat.load_for(3)
        chat.reaches(3)
        refused = audit.refused({user})
        assert refused
        assert all(f"/namespaces/{left}/" in request for request in refused), refused
    objects.delete("Namespace", "v1", None, left)


def _binding_in(chat: Chat, name: str, namespace: str) -> dict[str, Any]:
    """Return the binding that a longer list of namespaces prints too: the same one, in the namespace that is added."""
    found = chat.tenant.cluster.objects.get(
        f"/apis/{RBAC}/namespaces/{chat.tenant.namespace}/rolebindings/{name}",
    )
    assert found is not None
    return {**found, "metadata": {"name": name, "namespace": namespace}}


def _answers(reader: Objects, namespace: str) -> set[int]:
    """Return the statuses of reading what a view is made of, kind by kind."""
    return {_status(reader, path.format(f"namespaces/{namespace}")) for path in READ}


def _status(reader: Objects, path: str) -> int:
    try:
        reader.get(path)
    except ApiException as error:
        return int(error.status)
    return 200


@pytest.fixture
def may(tenant: Tenant) -> Callable[..., bool]:
    """Ask the API server whether a user may do something."""

    def ask(user: str, verb: str, resource: str, namespace: str = "", name: str = "", group: str = "") -> bool:
        what = {"verb": verb, "resource": resource, "namespace": namespace, "name": name, "group": group}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "resourceAttributes": what},
        }
        kind = tenant.cluster.objects.kind("SubjectAccessReview", "authorization.k8s.io/v1")
        return bool(kind.create(body=review).status.allowed)

    return ask


def test_what_is_not_needed_is_not_allowed(tenant: Tenant, tmp_path: Path, may: Callable[..., bool]) -> None:
    """Nothing in a namespace that is not watched; for the scaler nothing but the plan; no Secrets, no writes."""
    with chatting(tenant, tmp_path) as chat:
        controller, scaler = (_user(chat.headway, role) for role in ROLES)
        own, watched, other = chat.headway.namespace, tenant.namespace, "default"
        assert may(controller, "list", "pods", watched)
        assert not may(controller, "list", "pods", other)
        assert not may(controller, "list", "pods")
        for user in (controller, scaler):
            for namespace in (own, watched, other):
                assert not may(user, "get", "secrets", namespace)
                assert not may(user, "create", "pods", namespace)
                assert not may(user, "update", "deployments/scale", namespace, group="apps")
        assert may(scaler, "get", "configmaps", own, "headway-plan")
        assert not may(scaler, "get", "configmaps", own, "another")
        assert not may(scaler, "update", "configmaps", own, "headway-plan")
        assert not may(scaler, "list", "pods", watched)
        assert not may(controller, "update", "configmaps", own, "another")
        assert not may(controller, "update", "leases", own, "another", "coordination.k8s.io")
