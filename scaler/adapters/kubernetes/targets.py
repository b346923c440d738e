"""Scale targets: what a ScaledObject scales, how many replicas it was told, and which pods it selects.

Deployments and StatefulSets, which nearly all targets are, are watched: their `spec.replicas` and `spec.selector` are
what their scale subresource shows. `scales.py` reads the scale subresource itself for every other kind.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from scaler.adapters.kubernetes.gpus import gpus_of
from scaler.adapters.kubernetes.objects import Object, count, part, text
from scaler.adapters.kubernetes.pods import Controller
from scaler.adapters.kubernetes.selectors import Selector, of_label_selector, of_text
from scaler.config.live import ScaleTarget

MAX_NAME_CHARS: Final = 253
POD_TEMPLATE_HASH: Final = "pod-template-hash"


@dataclass(frozen=True, slots=True, order=True)
class TargetRef:
    """Names one resource that can be scaled. The group is empty for the core API."""

    group: str
    version: str
    kind: str
    namespace: str
    name: str

    @property
    def group_version(self) -> str:
        """The apiVersion: `apps/v1`, `v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> tuple[str, str, str, str]:
        """What it is whatever version of the API it is named in: two that have it equal are one target."""
        return self.group, self.kind, self.namespace, self.name

    def controls(self, controller: Controller, labels: Mapping[str, str]) -> bool:
        """Return whether a pod with this controller and these labels is the target's own.

        A Deployment's pods belong to ReplicaSets, whose names are the Deployment's and the hash of the pod template.
        That spares a list of all ReplicaSets, ten old ones for each Deployment. Of a kind that is not known here the
        selector's word is taken for any pod that something controls; a pod by itself is nobody's replica.
        """
        if self.group == "apps" and self.kind == "Deployment":
            named = f"{self.name}-{labels.get(POD_TEMPLATE_HASH, '')}"
            return controller.kind == "ReplicaSet" and controller.name == named
        if self.group == "apps":
            return controller.kind == self.kind and controller.name == self.name
        return bool(controller.uid)

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Scale:
    """What a target was told, and which pods it selects."""

    replicas: int
    selector: Selector
    gpus: int | None = None  # that the pod template asks for; None where it names none
    has_template: bool = False  # whether the template was seen


def target_ref(target: ScaleTarget, namespace: str) -> TargetRef | None:
    """Return what a workload's manifest says is scaled; None where that names nothing."""
    group, _, version = target.api_version.rpartition("/")
    parts = (target.name, target.kind, version)
    whole = all(0 < len(part) <= MAX_NAME_CHARS and "/" not in part for part in parts)
    return TargetRef(group, version, target.kind, namespace, target.name) if whole and "/" not in group else None


def read_workload_resource(it: Object) -> Scale | None:
    """Return the scale of a Deployment or a StatefulSet; None where it cannot be read."""
    spec = part(it, "spec")
    replicas, selector = count(spec, "replicas", 1), of_label_selector(part(spec, "selector"))
    if replicas is None or selector is None:
        return None
    return Scale(replicas, selector, gpus_of(part(part(spec, "template"), "spec")), has_template=True)


def read_scale(scale: Object) -> Scale | None:
    """Return what a scale subresource shows; None where it has no selector, or none that can be read."""
    replicas = count(part(scale, "spec"), "replicas", 0)  # left out where it is 0
    selector = of_text(text(part(scale, "status"), "selector"))
    return None if replicas is None or selector is None else Scale(replicas, selector)
