"""The rights that `headway rights` prints are enough, and none of them is idle: a real API server is the judge."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.audit import Audit, Call
from tests.cluster.chat import Chat, chatting
from tests.cluster.conftest import Tenant
from tests.cluster.headway import Headway
from tests.cluster.processes import until
from tests.cluster.workloads import deployment, scaled_object

Right = tuple[str, str, str]  # verb, group, resource
ROLES = ("controller", "scaler")


def test_every_right_is_needed_and_none_is_missing(tenant: Tenant, tmp_path: Path) -> None:
    """Through a workload's life, two leaders, refused settings, a target of another kind: no 403, no right unused."""
    audit = Audit(tenant.cluster.plane.audit_log)
    with chatting(tenant, tmp_path, replicas=2) as chat:
        _live_through_everything(chat)
        users = {role: _user(chat.headway, role) for role in ROLES}
        granted = {role: _granted(chat.headway, users[role]) for role in ROLES}
        until(lambda: _idle(audit.calls(users.values()), users, granted) == {}, "every right to be used")
        calls = audit.calls(users.values())
        assert [call for call in calls if call.status == 403] == []
        assert {call.right for call in calls} <= {
            _named(right, calls) for rights in granted.values() for right in rights
        }


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
        role = objects.get(f"/apis/rbac.authorization.k8s.io/v1/{where}{kind.lower()}s/{name}")
        assert role is not None
        for rule in role["rules"]:
            found |= {(v, g, r) for v in rule["verbs"] for g in rule["apiGroups"] for r in rule["resources"]}
    return found


def _bindings(headway: Headway, user: str) -> list[dict[str, Any]]:
    base = "/apis/rbac.authorization.k8s.io/v1"
    every = [
        each
        for kind in ("rolebindings", "clusterrolebindings")
        for each in headway.cluster.objects.items(f"{base}/{kind}")
    ]
    account = user.rpartition(":")[2]
    subject = {"kind": "ServiceAccount", "name": account, "namespace": headway.namespace}
    return [each for each in every if subject in each.get("subjects", [])]


def _idle(calls: list[Call], users: dict[str, str], granted: dict[str, set[Right]]) -> dict[str, set[Right]]:
    """Return the rights of each role that it has not used."""
    idle = {}
    for role, rights in granted.items():
        own = [call for call in calls if call.user == users[role]]
        if unused := {right for right in rights if _named(right, own) not in {call.right for call in own}}:
            idle[role] = unused
    return idle


def _named(right: Right, calls: list[Call]) -> Right:
    """Return a right, or for the one with a wildcard a call that used it."""
    if right != ("get", "*", "*/scale"):
        return right
    return next((call.right for call in calls if call.resource.endswith("/scale")), right)


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
