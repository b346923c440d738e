"""The rights that Headway needs in a cluster, in one place: charts and tests take them from here.

Reading only, and of each kind no more verbs than are used: `list` and `watch` where a kind is followed, `get` for the
scale subresource. No Secrets, nothing that runs, no wildcard but the one that a scale target may be of any kind.
"""

from dataclasses import dataclass
from typing import Any, Final

from scaler.adapters.kubernetes.keda import CRD


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of a Role or ClusterRole, and what stops working without it."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    without: str
    names: tuple[str, ...] = ()  # of the only objects that it is about; empty: all

    def to_manifest(self) -> dict[str, Any]:
        """Return it as it stands in a Role."""
        rule = {"apiGroups": [self.group], "resources": list(self.resources), "verbs": list(self.verbs)}
        return {**rule, "resourceNames": list(self.names)} if self.names else rule


_FOLLOWED: Final = ("list", "watch")

# Of the workloads' namespaces; a ClusterRole where all are watched.
RULES_VIEW: Final = (
    Rule("", ("pods",), _FOLLOWED, "nothing: without pods there is no view, and every workload keeps its replicas"),
    Rule("keda.sh", ("scaledobjects",), _FOLLOWED, "no workload is known"),
    Rule("apps", ("deployments", "statefulsets"), _FOLLOWED, "their scales are read one by one, 10 a second at most"),
    Rule("*", ("*/scale",), ("get",), "targets of other kinds than Deployment and StatefulSet have no view"),
    Rule("autoscaling", ("horizontalpodautoscalers",), _FOLLOWED, "no HPA can be observed"),
)
# Of the cluster: these have no namespace.
RULES_CLUSTER: Final = (
    Rule("", ("nodes",), _FOLLOWED, "lead times are not told apart by node, nothing is placed"),
    Rule("apiextensions.k8s.io", ("customresourcedefinitions",), ("get",), "a KEDA too old is not told of", (CRD,)),
)
