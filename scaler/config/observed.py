"""Workloads that Headway decides for beside whoever scales them: `headway.dev/mode: observe` on an HPA or ScaledObject.

What triggers say by metadata, such an object says by annotations `headway.dev/<key>`. Pure.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from scaler.config.metadata import KEYS, MetadataErrors, ParsedMetadata, intersect_bounds, parse_metadata, unscaled
from scaler.config.models import Mode
from scaler.config.notes import Note, NoteReason, error, warning
from scaler.config.platform import ANNOTATIONS, Platform
from scaler.config.problems import KeyPath, Problem, did_you_mean, shown
from scaler.config.scaled_objects import (
    KEDA_MIN_REPLICAS,
    ScaleTarget,
    headway_triggers,
    mapping,
    replica_bounds,
    scale_target,
    texts_of,
)
from scaler.config.settings import demand_source

HPA = "HorizontalPodAutoscaler"
MODE = f"{ANNOTATIONS}mode"
HPA_MIN_REPLICAS = 1
RESERVED = frozenset({"mode", "freeze-until", "floor"})  # annotations that are no metadata
_PLACE: KeyPath = ("metadata", "annotations")


@dataclass(frozen=True, slots=True)
class Observed:
    """What is annotated to be observed. `parsed` is None when `notes` have what is wrong with its annotations."""

    namespace: str
    name: str
    target: ScaleTarget
    lower: int
    upper: int
    parsed: ParsedMetadata | None
    notes: tuple[Note, ...]


def read_observed(manifest: Mapping[str, Any], platform: Platform) -> Observed | None:
    """Return what an HPA, or a ScaledObject that does not ask Headway, says; None where it is not to be observed.

    None also for an HPA that KEDA made: KEDA copies the annotations of its ScaledObject to it.
    """
    metadata, spec = mapping(manifest.get("metadata")), mapping(manifest.get("spec"))
    if not _is_observed(manifest, platform):
        return None
    annotations = mapping(metadata.get("annotations"))
    parsed, problems = _parse(annotations, platform)
    lower, upper, wrong = _bounds(manifest.get("kind"), spec)
    target = scale_target(spec)
    notes = [error(NoteReason.BOUNDS, problem.path, problem.message) for problem in wrong]
    notes += (error(NoteReason.METADATA, _annotation(problem), problem.message) for problem in problems)
    if not target.complete:
        notes.append(error(NoteReason.SCALE_TARGET, ("spec", "scaleTargetRef", "name"), "must be given"))
    namespace, name = str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
    if not name:
        notes.append(error(NoteReason.NAME, ("metadata", "name"), "must be given"))
    if parsed is not None:
        notes += _about(parsed, (lower, upper) if not wrong else None, namespace, platform)
    notes += _odd(annotations)
    return Observed(namespace, name, target, lower, upper, parsed, tuple(notes))


def mode_oddity(manifest: Mapping[str, Any]) -> Iterator[Note]:
    """Yield that the mode of an object's annotation is none, so that nothing is observed."""
    mode = mapping(mapping(manifest.get("metadata")).get("annotations")).get(MODE)
    if mode is not None and mode != Mode.OBSERVE:
        yield warning(NoteReason.OBSERVED, (*_PLACE, MODE), f"must be observe, was {shown(mode)}: it has no effect")


def is_observe(annotations: Mapping[str, Any]) -> bool:
    """Return whether annotations ask to observe."""
    return annotations.get(MODE) == Mode.OBSERVE


def _is_observed(manifest: Mapping[str, Any], platform: Platform) -> bool:
    if not is_observe(mapping(mapping(manifest.get("metadata")).get("annotations"))):
        return False
    if manifest.get("kind") == HPA:
        return not made_by_keda(manifest)
    foreign = not headway_triggers(mapping(manifest.get("spec")), platform.addresses, None)
    return manifest.get("kind") == "ScaledObject" and foreign


def made_by_keda(hpa: Mapping[str, Any]) -> bool:
    """Return whether an HPA belongs to a ScaledObject."""
    metadata = mapping(hpa.get("metadata"))
    owners = metadata.get("ownerReferences")
    kinds = {mapping(owner).get("kind") for owner in owners} if isinstance(owners, list) else set()
    return "ScaledObject" in kinds or "scaledobject.keda.sh/name" in mapping(metadata.get("labels"))


def _bounds(kind: Any, spec: Mapping[str, Any]) -> tuple[int, int, tuple[Problem, ...]]:
    if kind == HPA:  # it has no default for the most
        return replica_bounds(spec, "minReplicas", HPA_MIN_REPLICAS, "maxReplicas", 0)
    return replica_bounds(spec, "minReplicaCount", KEDA_MIN_REPLICAS, "maxReplicaCount")


def _parse(annotations: Mapping[str, Any], platform: Platform) -> tuple[ParsedMetadata | None, tuple[Problem, ...]]:
    metadata = {key: value for key, value in texts_of(annotations, ANNOTATIONS) if key not in RESERVED}
    try:
        return parse_metadata(metadata, timezones=platform.timezones), ()
    except MetadataErrors as errors:
        return None, errors.details


def _annotation(problem: Problem) -> KeyPath:
    return (*_PLACE, f"{ANNOTATIONS}{problem.path[0]}") if problem.path else _PLACE


def _about(
    parsed: ParsedMetadata, bounds: tuple[int, int] | None, namespace: str, platform: Platform
) -> Iterator[Note]:
    """Yield what is wrong with annotations that are right each by itself."""
    if message := unscaled(parsed):
        yield warning(NoteReason.UNSCALED, _PLACE, message)
    if bounds is not None:
        try:
            intersect_bounds(parsed, *bounds)
        except MetadataErrors as errors:
            yield from (error(NoteReason.BOUNDS, _annotation(problem), problem.message) for problem in errors.details)
    if platform.grants is not None and namespace:
        try:
            demand_source(namespace, parsed, platform.grants)
        except MetadataErrors as errors:
            yield from (error(NoteReason.NOT_GRANTED, _annotation(p), p.message) for p in errors.details)


def _odd(annotations: Mapping[str, Any]) -> Iterator[Note]:
    for key, _ in texts_of(annotations, ANNOTATIONS):
        if key not in KEYS | RESERVED:
            message = f"is not a known key{did_you_mean(key, KEYS)}"
            yield warning(NoteReason.METADATA, (*_PLACE, f"{ANNOTATIONS}{key}"), message)
