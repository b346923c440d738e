"""What a manifest of the cluster means to Headway: a workload with its settings, or why it has none. Pure.

Two kinds of objects make a workload. A ScaledObject whose trigger names this scaler asks for decisions (`settings_of`).
A HorizontalPodAutoscaler, or a ScaledObject of other triggers, that is annotated `headway.dev/mode: observe` is decided
for beside, and never acted on (`observed_workload`); its metadata are annotations `headway.dev/<key>`.

Both are the tenant's own input. Nothing here raises for what they hold.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scaler.config.guards import Note
from scaler.config.models import WorkloadSettings
from scaler.config.platform import Platform


@dataclass(frozen=True, slots=True)
class ScaleTarget:
    """What is scaled: any object with a scale subresource, in the workload's namespace."""

    api_version: str
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class LiveWorkload:
    """A workload as its manifest says it is.

    `settings` None: it cannot be used as it is, and `notes` say why; one that was valid keeps its last settings.
    """

    namespace: str
    name: str
    target: ScaleTarget
    settings: WorkloadSettings | None
    notes: tuple[Note, ...] = ()


def settings_of(
    manifest: Mapping[str, Any], platform: Platform, *, gpus_per_replica: float | None = None
) -> LiveWorkload | None:
    """Return the workload of a ScaledObject; None when no trigger of it names this scaler.

    `gpus_per_replica` is the sum over the pods of a replica that the pod template asks for; None where it is not known.
    """
    raise NotImplementedError


def observed_workload(
    manifest: Mapping[str, Any], platform: Platform, *, gpus_per_replica: float | None = None
) -> LiveWorkload | None:
    """Return the workload of an HPA (autoscaling/v2) or a foreign ScaledObject that is annotated to be observed.

    None for any other, and for an HPA that KEDA made: KEDA copies the annotations of its ScaledObject to it.
    """
    raise NotImplementedError
