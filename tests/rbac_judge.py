"""Judges requests by RBAC manifests as an API server does: what is not granted is refused.

https://kubernetes.io/docs/reference/access-authn-authz/rbac/. A list or a watch that selects one name is a request for
that name; a create has none.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Ask:
    """A request. `resource` has its subresource behind a slash; a `namespace` that is empty means all of them."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    @classmethod
    def of_path(cls, verb: str, path: str, name: str = "") -> Self:
        """Read a path of the API's grammar; `name` is what a list or a watch selects."""
        _, root, *rest = path.split("/")
        group, rest = ("", rest[1:]) if root == "api" else (rest[0], rest[2:])
        namespace, rest = (rest[1], rest[2:]) if rest[0] == "namespaces" and len(rest) > 2 else ("", rest)
        resource, found, subresource = (*rest, "", "")[:3]
        return cls(verb, group, f"{resource}/{subresource}".rstrip("/"), namespace, found or name)


@dataclass(frozen=True)
class Judge:
    """What a set of manifests grants."""

    manifests: tuple[Json, ...]

    @classmethod
    def of(cls, manifests: Iterable[Json]) -> Self:
        """Judge by these."""
        return cls(tuple(manifests))

    def allows(self, account: str, ask: Ask, *, of: str = "headway") -> bool:
        """Return whether a ServiceAccount, of a namespace, may do it."""
        return any(_covers(rule, ask) for place, rule in self.rules(account, of=of) if place in {"", ask.namespace})

    def rules(self, account: str, *, of: str = "headway") -> Iterator[tuple[str, Json]]:
        """Yield the rules of a ServiceAccount, each with the namespace that it holds in; empty: everywhere."""
        subject = {"kind": "ServiceAccount", "name": account, "namespace": of}
        for binding in self.manifests:
            if binding["kind"] in {"RoleBinding", "ClusterRoleBinding"} and subject in binding["subjects"]:
                namespace = binding["metadata"].get("namespace", "")
                for rule in self._role(binding["roleRef"], namespace)["rules"]:
                    yield namespace, rule

    def _role(self, ref: Json, namespace: str) -> Json:
        """Return what a binding refers to: a Role of its own namespace, or a ClusterRole."""
        place = namespace if ref["kind"] == "Role" else ""
        (role,) = (
            it
            for it in self.manifests
            if (it["kind"], it["metadata"]["name"]) == (ref["kind"], ref["name"])
            and it["metadata"].get("namespace", "") == place
        )
        return role


def _covers(rule: Json, ask: Ask) -> bool:
    _, _, subresource = ask.resource.partition("/")
    resources = {"*", ask.resource, *([f"*/{subresource}"] if subresource else [])}
    return bool(
        {"*", ask.verb} & set(rule["verbs"])
        and {"*", ask.group} & set(rule["apiGroups"])
        and resources & set(rule["resources"])
        and ask.name in rule.get("resourceNames", [ask.name])
    )
