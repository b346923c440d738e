"""What a manifest of the cluster means to Headway: a workload with its settings, or why it has none. Pure.

Two kinds of objects make a workload. A ScaledObject whose trigger names this scaler asks for decisions (`settings_of`).
A HorizontalPodAutoscaler, or a ScaledObject of other triggers, that is annotated `headway.dev/mode: observe` is decided
for beside, and never acted on (`observed_workload`); its metadata are annotations `headway.dev/<key>`.

Both are the tenant's own input. Nothing here raises for what they hold.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scaler.config.grants import Grants
from scaler.config.guards import notes_on
from scaler.config.hpa_guards import hpa_config
from scaler.config.hpa_rules import asked_rules, hpa_name
from scaler.config.metadata import MetadataErrors, ParsedMetadata
from scaler.config.models import Mode, WorkloadSettings
from scaler.config.notes import Note, NoteReason, error
from scaler.config.observed import Observed, is_observe, mode_oddity, read_observed
from scaler.config.platform import Platform
from scaler.config.scaled_objects import ScaledObject, ScaleTarget, mapping, read_scaled_object
from scaler.config.settings import workload_settings

__all__ = ["LiveWorkload", "ScaleTarget", "observed_workload", "settings_of"]

LIVE_FLOOR = 1  # of a workload whose demand nobody sees at zero


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
    hpa: str = ""  # the name of the HPA that KEDA makes of it; empty: KEDA makes none for Headway


def settings_of(
    manifest: Mapping[str, Any], platform: Platform, *, gpus_per_replica: float | None = None
) -> LiveWorkload | None:
    """Return the workload of a ScaledObject; None when no trigger of it names this scaler.

    `gpus_per_replica` is the sum over the pods of a replica that the pod template asks for; None where it is not known.
    """
    it = read_scaled_object(manifest, platform.addresses, platform.timezones)
    if it is None:
        return None
    notes = [*notes_on(it, platform), *mode_oddity(manifest)]
    observed = is_observe(it.annotations)
    settings, config = None, hpa_config(it.spec)
    parsed = it.headway[0].parsed
    if parsed is not None and not any(note.refuses for note in notes):
        mode = Mode.OBSERVE if observed else platform.modes.get((it.namespace, it.name))
        settings, more = _settings(it, parsed, platform, mode, gpus_per_replica)
        notes += more
        if settings is not None and settings.mode is not Mode.OBSERVE:
            hpa = asked_rules(mapping(config.get("behavior")), it.upper)
            settings = settings.model_copy(update={"hpa": hpa})
    return LiveWorkload(it.namespace, it.name, it.target, settings, tuple(notes), hpa_name(config, it.name))


def observed_workload(
    manifest: Mapping[str, Any], platform: Platform, *, gpus_per_replica: float | None = None
) -> LiveWorkload | None:
    """Return the workload of an HPA (autoscaling/v2) or a foreign ScaledObject that is annotated to be observed.

    None for any other, and for an HPA that KEDA made: KEDA copies the annotations of its ScaledObject to it.
    """
    it = read_observed(manifest, platform)
    if it is None:
        return None
    settings, notes = None, list(it.notes)
    if it.parsed is not None and not any(note.refuses for note in notes):
        settings, more = _settings(it, it.parsed, platform, Mode.OBSERVE, gpus_per_replica)
        notes += more
    return LiveWorkload(it.namespace, it.name, it.target, settings, tuple(notes))


def _settings(
    it: ScaledObject | Observed,
    metadata: ParsedMetadata,
    platform: Platform,
    mode: Mode | None,
    gpus_per_replica: float | None,
) -> tuple[WorkloadSettings | None, tuple[Note, ...]]:
    """Return the settings of what no guard refuses, with the live floor; or what is wrong with it after all."""
    try:
        settings = workload_settings(
            it.namespace,
            it.name,
            metadata,
            min_replicas=it.lower,
            max_replicas=it.upper,
            mode=mode,
            grants=platform.grants or Grants(),
            gpus_per_replica=gpus_per_replica,
        )
    except MetadataErrors as errors:
        return None, tuple(error(NoteReason.METADATA, problem.path, problem.message) for problem in errors.details)
    if settings.min_replicas < LIVE_FLOOR <= settings.max_replicas and settings.demand_source is None:
        settings = settings.model_copy(update={"min_replicas": LIVE_FLOOR})
    return settings, ()
