"""A pod as the API server tells it, in the few fields that Headway keeps; and what a pod is good for.

100,000 pods are held at once, so what repeats from pod to pod (namespaces, nodes, labels, controllers) is held once.
"""

from dataclasses import dataclass
from enum import Enum
from sys import intern
from typing import Any, Final

from scaler.adapters.kubernetes.gpus import gpus_of
from scaler.adapters.kubernetes.objects import Object, condition, items, labels_of, part, text, time_of
from scaler.ports import PodRecord

# What tells two versions of a pod template apart, by who made the pod: ReplicaSets, StatefulSets and DaemonSets,
# Argo Rollouts, LeaderWorkerSets.
TEMPLATE_LABELS: Final = (
    "pod-template-hash",
    "controller-revision-hash",
    "rollouts-pod-template-hash",
    "leaderworkerset.sigs.k8s.io/template-revision-hash",
)
MAX_PORTS: Final = 64
_MAX_IP_CHARS: Final = 45
Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Controller:
    """The object that controls a pod. All empty where nothing does."""

    kind: str
    name: str
    uid: str


NOBODY: Final = Controller("", "", "")


@dataclass(frozen=True, slots=True)
class SeenPod:
    """A pod, and what it takes to know whose it is."""

    record: PodRecord
    controller: Controller
    labels: Labels
    gpus: int | None = None  # that it asks for; None where that is not known


class PodState(Enum):
    """What a pod is good for."""

    READY = "ready"
    PENDING = "pending"  # on its way
    BLOCKED = "blocked"  # asked for, and no supply in sight: gated or unschedulable
    TERMINATING = "terminating"
    FINISHED = "finished"  # ran to its end or failed: its controller replaces it


def state_of(pod: PodRecord) -> PodState:
    """Say what a pod is good for. One that is going is no supply, even while it still answers its readiness probe.

    Gated pods come from queueing systems that hold replicas back instead of refusing them (Kueue); to take them for
    replicas on their way would wait for them for ever (knative/serving#15308).
    """
    if pod.phase in {"Succeeded", "Failed"}:
        return PodState.FINISHED
    if pod.terminating:
        return PodState.TERMINATING
    if pod.gated or pod.unschedulable:
        return PodState.BLOCKED
    return PodState.READY if pod.ready and pod.phase == "Running" else PodState.PENDING


def read_pod(it: Object) -> SeenPod | None:
    """Return what is kept of a pod; None for an object that cannot be one (no name, no age, too many labels)."""
    metadata, spec, status = part(it, "metadata"), part(it, "spec"), part(it, "status")
    name, created_s, labels = text(metadata, "name"), time_of(metadata, "creationTimestamp"), labels_of(it)
    if not name or created_s is None or labels is None:
        return None
    controller = controller_of(metadata)
    scheduled, ready = condition(it, "PodScheduled"), condition(it, "Ready")
    node, unscheduled = text(spec, "nodeName"), text(scheduled, "reason") if scheduled.get("status") == "False" else ""
    is_ready = ready.get("status") == "True"
    record = PodRecord(
        namespace=intern(text(metadata, "namespace")),
        name=name,
        uid=text(metadata, "uid"),
        owner=controller.uid,
        template=_template(metadata),
        phase=intern(text(status, "phase")),
        ready=is_ready,
        gated=unscheduled == "SchedulingGated" or (not node and bool(items(spec, "schedulingGates"))),
        unschedulable=unscheduled == "Unschedulable",
        terminating=bool(metadata.get("deletionTimestamp")),
        node=intern(node),
        ip=_ip(status),
        ports=_ports(spec),
        created_s=created_s,
        scheduled_s=time_of(scheduled, "lastTransitionTime") if scheduled.get("status") == "True" else None,
        ready_s=time_of(ready, "lastTransitionTime") if is_ready else None,
    )
    return SeenPod(record, controller, labels, gpus_of(spec))


def controller_of(metadata: Object) -> Controller:
    """Return the object that controls the one whose metadata this is."""
    for owner in items(metadata, "ownerReferences"):
        if isinstance(owner, dict) and owner.get("controller") is True:
            return Controller(*(intern(text(owner, key)) for key in ("kind", "name", "uid")))
    return NOBODY


def _template(metadata: Object) -> str:
    labels = part(metadata, "labels")
    return intern(next((value for key in TEMPLATE_LABELS if (value := text(labels, key))), ""))


def _ip(status: Object) -> str:
    ip = text(status, "podIP")
    return ip if len(ip) <= _MAX_IP_CHARS else ""


def _ports(spec: Object) -> tuple[int, ...]:
    """Return the TCP ports that the containers list, in their order; of a pod with absurdly many, the first."""
    found: list[int] = []
    for container in items(spec, "containers"):
        for listed in items(container, "ports"):
            port: Any = listed.get("containerPort") if isinstance(listed, dict) else None
            if isinstance(port, int) and 0 < port < 65_536 and listed.get("protocol", "TCP") == "TCP":
                found.append(port)
                if len(found) == MAX_PORTS:
                    return tuple(found)
    return tuple(found)
