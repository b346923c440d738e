"""The rights that Headway needs in a cluster, in one place: `headway rights`, charts and tests take them from here.

A configuration says which parts are used, and what is not used needs no right. Of each kind there are no more verbs
than are used, and objects are named where the API can tell them apart: not for `create`, whose request carries no name
in its address. `list` and `watch` of a named object are granted by name when the request selects that name, as the
plan's watch does. No Secrets, nothing that runs, no write outside Headway's own namespaces but Events.

API discovery is no part of it: Kubernetes lets everybody who is authenticated have it (`system:discovery`).
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import yaml

from scaler.adapters.kubernetes.keda import CRD
from scaler.adapters.kubernetes.plan_maps import PlanStoreSettings
from scaler.adapters.kubernetes.plan_shards import MAX_SHARDS
from scaler.config.cluster import OWN_NAMESPACE, ConfigMapSection, KubernetesSection
from scaler.config.process import ProcessConfig, Role

_FOLLOWED: Final = ("list", "watch")
_RBAC: Final = "rbac.authorization.k8s.io"
_LABEL: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_WIDTH: Final = 120


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of a Role or ClusterRole, and what is lost without it."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    without: str
    names: tuple[str, ...] = ()  # of the only objects that it is about; empty: all

    def to_manifest(self) -> dict[str, Any]:
        """Return it as it stands in a Role."""
        rule = {"apiGroups": [self.group], "resources": list(self.resources), "verbs": list(self.verbs)}
        return {**rule, "resourceNames": list(self.names)} if self.names else rule

    def __str__(self) -> str:
        return f"{', '.join(self.verbs)} {', '.join(self.resources)}"


class Scope(StrEnum):
    """Where rules hold; it is in the names of the objects that grant them."""

    CLUSTER = "cluster"  # what has no namespace, and every namespace
    WORKLOADS = "workloads"  # the namespaces that are watched
    OWN = "own"  # where Headway's plan or Lease is


@dataclass(frozen=True, slots=True)
class Grant:
    """What a role may do in some namespaces, or in the whole cluster."""

    role: Role
    scope: Scope
    rules: tuple[Rule, ...]
    namespaces: tuple[str, ...] = ()  # none: the whole cluster


@dataclass(frozen=True, slots=True)
class Installation:
    """Where Headway's pods run, and what its service accounts' names begin with.

    Objects that the whole cluster shares carry the namespace in their names, so that two installations have two.
    """

    namespace: str
    name: str = "headway"

    def __post_init__(self) -> None:
        for name in ("namespace", "name"):
            if not _LABEL.fullmatch(value := getattr(self, name)):
                raise ValueError(f"{name} must be at most 63 of a-z, 0-9 and '-', was {value[:100]!r}")

    @classmethod
    def of(cls, config: ProcessConfig, *, namespace: str | None = None, name: str = "headway") -> "Installation":
        """Return where a configuration has Headway: beside the plan, else beside the Lease. ValueError for no name."""
        plan = config.plan_store.config_map if config.plan_store else None
        lease = config.leadership.lease if config.leadership else None
        beside = next((it.namespace for it in (plan, lease) if it), OWN_NAMESPACE)
        return cls(beside if namespace is None else namespace, name)

    def account(self, role: Role) -> str:
        """Return the name of a role's ServiceAccount."""
        return f"{self.name}-{role}"


def grants(config: ProcessConfig) -> tuple[Grant, ...]:
    """Return what each role needs under this configuration. Without `cluster` it is a scaler's alone."""
    return (*_controller(config), *_scaler(config))


def manifests(config: ProcessConfig, installation: Installation | None = None) -> list[dict[str, Any]]:
    """Return ServiceAccounts, roles and their bindings, for `kubectl apply`; none where no API server is asked."""
    return [manifest for manifest, _ in _objects(config, installation or Installation.of(config))]


def manifests_text(config: ProcessConfig, installation: Installation | None = None) -> str:
    """Return the manifests as YAML, each role under a comment on what is lost without its rules."""
    return "---\n".join(
        "".join(f"# Without {rule}: {rule.without}.\n" for rule in rules)
        + yaml.dump(manifest, Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=_WIDTH)
        for manifest, rules in _objects(config, installation or Installation.of(config))
    ).removesuffix("\n")


class _Dumper(yaml.SafeDumper):
    """Quotes also what is no text to kubectl alone: names such as `y`, `08` and `1e3`."""


def _text(dumper: _Dumper, value: str) -> yaml.ScalarNode:
    is_odd = value in {"y", "n"} or value[:1].isdigit()
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="'" if is_odd else None)


_Dumper.add_representer(str, _text)


# What a controller needs of the cluster. It is bound for all namespaces, or in each of those that are watched.


def _controller(config: ProcessConfig) -> Iterator[Grant]:
    if config.cluster is None:  # no controller runs on such a file
        return
    if section := config.cluster.kubernetes:
        workloads = (*_workload_rules(section), *(_EVENTS if config.events else ()))
        everywhere = not section.namespaces
        yield Grant(Role.CONTROLLER, Scope.CLUSTER, (*_CLUSTER_RULES, *(workloads if everywhere else ())))
        if not everywhere:
            yield Grant(Role.CONTROLLER, Scope.WORKLOADS, workloads, tuple(dict.fromkeys(section.namespaces)))
    own: dict[str, list[Rule]] = {}
    if plan := config.plan_store and config.plan_store.config_map:
        own.setdefault(plan.namespace, []).extend(_writer_rules(plan))
    if config.leadership:
        lease = config.leadership.lease
        own.setdefault(lease.namespace, []).extend(_lease_rules(lease.name))
    for namespace, rules in own.items():
        yield Grant(Role.CONTROLLER, Scope.OWN, tuple(rules), (namespace,))


def _workload_rules(section: KubernetesSection) -> Iterator[Rule]:
    yield Rule("", ("pods",), _FOLLOWED, "there is no view, and every workload keeps its replicas")
    yield Rule("keda.sh", ("scaledobjects",), _FOLLOWED, "no workload is known")
    yield Rule("apps", ("deployments", "statefulsets"), _FOLLOWED, "their scales are read one by one, 10 a second")
    yield from _scale_rules(section.other_targets)
    hpas = ("horizontalpodautoscalers",)
    yield Rule("autoscaling", hpas, _FOLLOWED, "no HPA can be observed")
    yield Rule(
        "autoscaling", hpas, ("get",), "a cluster that drops the tolerance of HPAs is not told of, nor allowed for"
    )


def _scale_rules(kinds: Collection[str] | None) -> Iterator[Rule]:
    """Yield what reading scales takes: of any kind, where it is not said which (None), as a target may be of any."""
    without = "targets that are neither Deployments nor StatefulSets have no view"
    if kinds is None:
        yield Rule("*", ("*/scale",), ("get",), without)
        return
    groups: dict[str, list[str]] = {}
    for kind in sorted(set(kinds)):
        plural, _, group = kind.partition(".")
        groups.setdefault(group, []).append(f"{plural}/scale")
    for group, scales in sorted(groups.items()):
        yield Rule(group, tuple(scales), ("get",), without)


_CLUSTER_RULES: Final = (
    Rule("", ("nodes",), _FOLLOWED, "lead times are not told apart by node, nothing is placed"),
    Rule("apiextensions.k8s.io", ("customresourcedefinitions",), ("get",), "a KEDA too old is not told of", (CRD,)),
)
_EVENTS: Final = (Rule("events.k8s.io", ("events",), ("create", "patch"), "nothing is told in Events"),)

# What is needed of Headway's own namespaces.


def _writer_rules(plan: ConfigMapSection) -> Iterator[Rule]:
    yield Rule("", ("configmaps",), ("get", "update"), "no plan can be published", _plan_names(plan))
    yield Rule("", ("configmaps",), ("create",), "no first plan can be published")


def _lease_rules(name: str) -> Iterator[Rule]:
    yield Rule("coordination.k8s.io", ("leases",), ("get", "update"), "nobody leads", (name,))
    yield Rule("coordination.k8s.io", ("leases",), ("create",), "nobody leads unless the Lease is made beforehand")


def _scaler(config: ProcessConfig) -> Iterator[Grant]:
    """Yield that a scaler reads the plan, and nothing else anywhere."""
    if plan := config.plan_store and config.plan_store.config_map:
        index = Rule("", ("configmaps",), _FOLLOWED, "every look at the plan fails", (plan.name,))
        whole = Rule("", ("configmaps",), ("get",), "no plan can be read", _plan_names(plan))
        yield Grant(Role.SCALER, Scope.OWN, (index, whole), (plan.namespace,))


def _plan_names(plan: ConfigMapSection) -> tuple[str, ...]:
    """Return the names that a plan's ConfigMaps may have.

    All of them, whatever `shards` says: the plan in force may have been written in more, and who may not read those
    could never begin.
    """
    settings = PlanStoreSettings(plan.namespace, "", plan.name, plan.shards)
    return (plan.name, *map(settings.shard_name, range(MAX_SHARDS)))


# Manifests.


def _objects(config: ProcessConfig, at: Installation) -> Iterator[tuple[dict[str, Any], tuple[Rule, ...]]]:
    """Yield each object, and the rules in it."""
    found = grants(config)
    for role in sorted({grant.role for grant in found}):
        yield _manifest("ServiceAccount", at, role, at.account(role), at.namespace), ()
    for grant in found:
        yield from _granted(at, grant)


def _granted(at: Installation, grant: Grant) -> Iterator[tuple[dict[str, Any], tuple[Rule, ...]]]:
    """Yield a role and its bindings. What several namespaces share is one ClusterRole, bound in each of them."""
    account = at.account(grant.role)
    name = f"{account}.{grant.scope}.{at.namespace}"
    kind, place = ("Role", grant.namespaces[0]) if grant.scope is Scope.OWN else ("ClusterRole", None)
    rules = [rule.to_manifest() for rule in grant.rules]
    yield _manifest(kind, at, grant.role, name, place) | {"rules": rules}, grant.rules
    binding = {
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": at.namespace}],
    }
    for namespace in grant.namespaces:
        yield _manifest("RoleBinding", at, grant.role, name, namespace) | binding, ()
    if not grant.namespaces:
        yield _manifest("ClusterRoleBinding", at, grant.role, name, None) | binding, ()


def _manifest(kind: str, at: Installation, role: Role, name: str, namespace: str | None) -> dict[str, Any]:
    labels = {
        "app.kubernetes.io/name": "headway",
        "app.kubernetes.io/instance": at.name,
        "app.kubernetes.io/component": str(role),
    }
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), "labels": labels}
    version = "v1" if kind == "ServiceAccount" else f"{_RBAC}/v1"
    return {"apiVersion": version, "kind": kind, "metadata": metadata}
