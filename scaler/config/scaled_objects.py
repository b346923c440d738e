"""A ScaledObject as its manifest shows it: what matters to Headway, with what is malformed taken as not given."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from scaler.config.metadata import MetadataErrors, ParsedMetadata, parse_metadata
from scaler.config.problems import KeyPath, Problem, shown

EXTERNAL = frozenset({"external", "external-push"})
KEDA_MIN_REPLICAS, KEDA_MAX_REPLICAS = 0, 100  # what KEDA takes where a ScaledObject says nothing
MAX_REPLICAS = 1_000_000


@dataclass(frozen=True, slots=True)
class ScaleTarget:
    """What is scaled: an object with a scale subresource, in the namespace of whoever scales it."""

    api_version: str
    kind: str
    name: str

    @property
    def identity(self) -> tuple[str, str, str]:
        """Group, kind and name: versions of one group are views of the same object."""
        return self.api_version.rpartition("/")[0], self.kind, self.name

    @property
    def complete(self) -> bool:
        """Return whether it names something."""
        return bool(self.api_version and self.kind and self.name)

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


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
    namespace: str
    name: str
    annotations: Mapping[str, Any]
    target: ScaleTarget
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
    lower, upper, problems = replica_bounds(spec, "minReplicaCount", KEDA_MIN_REPLICAS, "maxReplicaCount")
    metadata = mapping(manifest.get("metadata"))
    return ScaledObject(
        api_version=manifest.get("apiVersion"),
        namespace=str(metadata.get("namespace") or ""),
        name=str(metadata.get("name") or ""),
        annotations=mapping(metadata.get("annotations")),
        target=scale_target(spec),
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
    return not addresses or not address or plain_address(str(address)) in map(plain_address, addresses)


def plain_address(address: str) -> str:
    """Return an address as it is compared: `dns:///host:port` is the default way to write `host:port` to gRPC."""
    return address.strip().removeprefix("dns:///").lower()


def _trigger(path: KeyPath, raw: Mapping[str, Any], timezones: Collection[str] | None) -> Trigger:
    metadata = mapping(raw.get("metadata"))
    texts = {key: value for key, value in metadata.items() if isinstance(value, str)}
    try:
        return Trigger(path, raw, metadata, parse_metadata(texts, timezones=timezones), ())
    except MetadataErrors as errors:
        return Trigger(path, raw, metadata, None, errors.details)


def scale_target(spec: Mapping[str, Any]) -> ScaleTarget:
    """Return what a ScaledObject or an HPA scales, with KEDA's defaults; its name is empty where none is given."""
    ref = mapping(spec.get("scaleTargetRef"))
    parts = ref.get("apiVersion") or "apps/v1", ref.get("kind") or "Deployment", ref.get("name")
    return ScaleTarget(*(part if isinstance(part, str) else "" for part in parts))


def replica_bounds(
    spec: Mapping[str, Any], low_key: str, low_default: int, high_key: str, high_default: int = KEDA_MAX_REPLICAS
) -> tuple[int, int, tuple[Problem, ...]]:
    """Return the least and the most replicas that a spec allows, and what is wrong with what it says of them."""
    lower, low = _bound(spec, low_key, low_default, lowest=0)
    upper, high = _bound(spec, high_key, high_default, lowest=1)
    problems = low + high
    if not problems and lower > upper:
        problems = (Problem(("spec", low_key), f"must be <= {high_key} ({upper}), was {lower}"),)
    return lower, upper, problems


def _bound(spec: Mapping[str, Any], key: str, default: int, *, lowest: int) -> tuple[int, tuple[Problem, ...]]:
    value = spec.get(key, default)
    if is_int(value) and lowest <= value <= MAX_REPLICAS:
        return value, ()
    limit = f"{lowest} .. {MAX_REPLICAS}" if is_int(value) and value > MAX_REPLICAS else f">= {lowest}"
    # Taken as 1 at least, so that one mistake is not reported again by every guard about zero.
    return max(default, 1), (Problem(("spec", key), f"must be a whole number {limit}, was {shown(value)}"),)


def texts_of(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    """Yield the text values whose keys begin with a prefix, by the rest of the key."""
    for key, value in values.items():
        if isinstance(key, str) and key.startswith(prefix) and isinstance(value, str):
            yield key.removeprefix(prefix), value


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a mapping as it is, and an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def is_int(value: Any) -> bool:
    """Return whether a value is a whole number; a truth value is none."""
    return isinstance(value, int) and not isinstance(value, bool)
