"""A node as the API server tells it: what it can hold, where it stands, and whether it can be counted on."""

from collections.abc import Mapping
from dataclasses import dataclass
from sys import intern
from typing import Final

from scaler.adapters.kubernetes.gpus import gpus_in
from scaler.adapters.kubernetes.objects import Object, condition, items, labels_of, part, text, time_of

VIRTUAL_TAINT: Final = "virtual-kubelet.io/provider"
VIRTUAL_LABEL: Final = ("type", "virtual-kubelet")
# A node that is not up, or not yet. Device plugins' own start-up taints are the platform's to name.
STARTUP_TAINTS: Final = (
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/network-unavailable",
    "node.cloudprovider.kubernetes.io/uninitialized",
    "karpenter.sh/unregistered",
)


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """What Headway keeps of a node. Times are Unix seconds; None where it has not happened (yet)."""

    name: str
    uid: str
    ready: bool
    schedulable: bool  # not cordoned
    terminating: bool
    taints: tuple[str, ...]  # keys of those that keep pods away (NoSchedule, NoExecute)
    gpus: Mapping[str, int]  # allocatable, by resource name; a resource that is not there yet is not in it
    labels: Mapping[str, str]
    provider: str  # the cloud's id of the machine; empty where there is none
    virtual: bool  # an overflow provider's: what it says it has is no stock of anything
    created_s: float
    ready_s: float | None  # when Ready last became true

    def warm(self, resource: str, startup_taints: tuple[str, ...] = STARTUP_TAINTS) -> bool:
        """Return whether a pod that wants this GPU resource could start here now, were it free.

        A node is Ready minutes before its GPUs are allocatable (kubernetes/autoscaler#3164): to take Ready for warm
        orders nodes once more.
        """
        usable = self.ready and self.schedulable and not self.terminating and not self.virtual
        return usable and self.gpus.get(resource, 0) > 0 and not set(startup_taints).intersection(self.taints)


def read_node(it: Object) -> NodeRecord | None:
    """Return what is kept of a node; None for an object that cannot be one."""
    metadata, spec, status = part(it, "metadata"), part(it, "spec"), part(it, "status")
    name, created_s, labels = text(metadata, "name"), time_of(metadata, "creationTimestamp"), labels_of(it)
    if not name or created_s is None or labels is None:
        return None
    ready = condition(it, "Ready")
    is_ready = ready.get("status") == "True"
    taints = _taints(spec)
    return NodeRecord(
        name=intern(name),
        uid=text(metadata, "uid"),
        ready=is_ready,
        schedulable=spec.get("unschedulable") is not True,
        terminating=bool(metadata.get("deletionTimestamp")),
        taints=taints,
        gpus=gpus_in(part(status, "allocatable")),
        labels=dict(labels),
        provider=text(spec, "providerID"),
        virtual=VIRTUAL_TAINT in taints or VIRTUAL_LABEL in labels,
        created_s=created_s,
        ready_s=time_of(ready, "lastTransitionTime") if is_ready else None,
    )


def _taints(spec: Object) -> tuple[str, ...]:
    found = {
        intern(key)
        for taint in items(spec, "taints")
        if (key := text(taint, "key")) and text(taint, "effect") in {"NoSchedule", "NoExecute"}
    }
    return tuple(sorted(found))
