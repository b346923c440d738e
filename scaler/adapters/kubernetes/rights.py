"""The rights that Headway's plan store, Lease and Events need in a cluster. Charts and tests take them from here.

Objects are named where the API can tell them apart: not for `create`, whose request carries no name in its address.
`list` and `watch` of a named object are granted by name when the request selects that name, as the plan's watch does.
"""

from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class NamedRule:
    """A rule of a Role, limited to named objects where `names` is not empty, and what stops working without it."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...]
    without: str

    def to_manifest(self) -> dict[str, Any]:
        """Return it as it stands in a Role."""
        rule = {"apiGroups": [self.group], "resources": list(self.resources), "verbs": list(self.verbs)}
        return {**rule, "resourceNames": list(self.names)} if self.names else rule


def plan_objects(name: str, shards: int) -> tuple[str, ...]:
    """Return the names of the ConfigMaps of a plan."""
    return (name, *(f"{name}-{number}" for number in range(shards)))


def rules_of_controller(
    plan: str = "headway-plan", shards: int = 8, lease: str = "headway-controller"
) -> tuple[NamedRule, ...]:
    """Return what a controller may do in Headway's own namespace."""
    maps, leases = ("configmaps",), ("leases",)
    return (
        NamedRule("", maps, ("get", "update"), plan_objects(plan, shards), "no plan can be published"),
        NamedRule("", maps, ("create",), (), "no first plan can be published"),
        NamedRule("coordination.k8s.io", leases, ("get", "update"), (lease,), "nobody leads"),
        NamedRule("coordination.k8s.io", leases, ("create",), (), "nobody leads unless the Lease is made beforehand"),
    )


def rules_of_scaler(plan: str = "headway-plan", shards: int = 8) -> tuple[NamedRule, ...]:
    """Return what a scaler may do in Headway's own namespace: read the plan, and nothing anywhere else."""
    return (
        NamedRule("", ("configmaps",), ("list", "watch"), (plan,), "every look at the plan fails"),
        NamedRule("", ("configmaps",), ("get",), plan_objects(plan, shards), "no plan can be read"),
    )


# Of the controller, in the workloads' namespaces; a ClusterRole where all are watched.
RULES_EVENTS: Final = (NamedRule("events.k8s.io", ("events",), ("create", "patch"), (), "no Events are posted"),)
RULES_STORES: Final = (*rules_of_controller(), *rules_of_scaler(), *RULES_EVENTS)
