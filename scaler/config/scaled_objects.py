"""A ScaledObject as its manifest shows it: what matters to Headway, with what is malformed taken as not given."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from scaler.config.metadata import MetadataErrors, ParsedMetadata, parse_metadata
from scaler.config.problems import KeyPath, Problem, shown

EXTERNAL = frozenset({"external", "external-push"})
KEDA_MIN_REPLICAS, KEDA_MAX_REPLICAS = 0, 100  # what KEDA takes where a ScaledObject says nothing


@dataclass(frozen=True, slots=True)
class Trigger:
    """One Headway trigger of a ScaledObject; `parsed` is None when `problems` has what is wrong with its metadata."""

    path: KeyPath
    raw: Mapping[str, Any]
    metadata: Mapping[str, Any]
    parsed: ParsedMetadata | None
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class ScaledObject:
    """A ScaledObject with at least one Headway trigger. `problems` has what is wrong with its two bounds."""

    api_version: Any
    name: str
    spec: Mapping[str, Any]
    triggers: int
    headway: tuple[Trigger, ...]
    lower: int
    upper: int
    problems: tuple[Problem, ...]


def read_scaled_object(
    manifest: Mapping[str, Any], addresses: Collection[str], timezones: Collection[str] | None
) -> ScaledObject | None:
    """Return the ScaledObject, or None when no trigger of it asks Headway.

    `addresses` are the scalerAddress values that mean Headway; when empty every external trigger counts as Headway's.
    """
    spec = mapping(manifest.get("spec"))
    headway = headway_triggers(spec, addresses, timezones)
    if not headway:
        return None
    lower, low = _bound(spec, "minReplicaCount", KEDA_MIN_REPLICAS, lowest=0)
    upper, high = _bound(spec, "maxReplicaCount", KEDA_MAX_REPLICAS, lowest=1)
    problems = low + high
    if not problems and lower > upper:
        problems = (Problem(("spec", "minReplicaCount"), f"must be <= maxReplicaCount ({upper}), was {lower}"),)
    return ScaledObject(
        api_version=manifest.get("apiVersion"),
        name=str(mapping(manifest.get("metadata")).get("name", "")),
        spec=spec,
        triggers=len(spec["triggers"]),
        headway=headway,
        lower=lower,
        upper=upper,
        problems=problems,
    )


def headway_triggers(
    spec: Mapping[str, Any], addresses: Collection[str], timezones: Collection[str] | None
) -> tuple[Trigger, ...]:
    """Return the triggers that ask Headway."""
    triggers = spec.get("triggers")
    return tuple(
        _trigger(("spec", "triggers", index), trigger, timezones)
        for index, trigger in enumerate(triggers if isinstance(triggers, list) else ())
        if _is_headway(trigger, addresses)
    )


def _is_headway(trigger: Any, addresses: Collection[str]) -> bool:
    if not (isinstance(trigger, Mapping) and trigger.get("type") in EXTERNAL):
        return False
    address = mapping(trigger.get("metadata")).get("scalerAddress")
    return not addresses or not address or str(address).removeprefix("dns:///") in addresses


def _trigger(path: KeyPath, raw: Mapping[str, Any], timezones: Collection[str] | None) -> Trigger:
    metadata = mapping(raw.get("metadata"))
    texts = {key: value for key, value in metadata.items() if isinstance(value, str)}
    try:
        return Trigger(path, raw, metadata, parse_metadata(texts, timezones=timezones), ())
    except MetadataErrors as errors:
        return Trigger(path, raw, metadata, None, errors.details)


def _bound(spec: Mapping[str, Any], key: str, default: int, *, lowest: int) -> tuple[int, tuple[Problem, ...]]:
    value = spec.get(key, default)
    if is_int(value) and value >= lowest:
        return value, ()
    # Taken as 1 at least, so that one mistake is not reported again by every guard about zero.
    return max(default, 1), (Problem(("spec", key), f"must be a whole number >= {lowest}, was {shown(value)}"),)


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a mapping as it is, and an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def is_int(value: Any) -> bool:
    """Return whether a value is a whole number; a truth value is none."""
    return isinstance(value, int) and not isinstance(value, bool)
