"""From what a workload says of itself and what the platform grants it to the settings that the decision reads. Pure."""

from typing import Any

from pydantic import ValidationError

from scaler.config.fields import camel_key
from scaler.config.gateways import ROUTE_LABELS
from scaler.config.grants import Grants
from scaler.config.metadata import DEFAULT_ENGINE, QUEUE_ENGINES, MetadataErrors, ParsedMetadata, intersect_bounds
from scaler.config.models import Mode, SourceRef, WorkloadSettings
from scaler.config.problems import Problem, plain, problems_of, shown
from scaler.config.profiles import PREFIX, ProfileKind

NOTHING_GRANTED = Grants()


def workload_settings(
    namespace: str,
    name: str,
    metadata: ParsedMetadata,
    *,
    min_replicas: int,
    max_replicas: int,
    mode: Mode | None = None,
    grants: Grants = NOTHING_GRANTED,
    gpus_per_replica: float | None = None,
) -> WorkloadSettings:
    """Return a workload's settings from its metadata and its ScaledObject's bounds; `mode`, if given, rules.

    `gpus_per_replica` is what the pod template says, None where that is not known; the metadata may only raise it.
    MetadataErrors if the bounds exclude each other, or if something is named that the platform did not grant to the
    namespace.
    """
    lower, upper = intersect_bounds(metadata, min_replicas, max_replicas)
    settings: dict[str, Any] = metadata.model_dump(exclude_none=True)
    settings |= {"namespace": namespace, "name": name, "min_replicas": lower, "max_replicas": upper}
    settings["demand_source"] = demand_source(namespace, metadata, grants)
    if mode is not None:
        settings["mode"] = mode
    if gpus_per_replica:
        settings["gpus_per_replica"] = max(gpus_per_replica, metadata.gpus_per_replica or 0)
    try:
        return WorkloadSettings.model_validate(settings)
    except ValidationError as error:
        problems = [Problem((camel_key(str(p.path[-1])),), p.message) for p in problems_of(error, WorkloadSettings)]
        raise MetadataErrors(problems) from None


def demand_source(namespace: str, metadata: ParsedMetadata, grants: Grants) -> SourceRef | None:
    """Return where the workload's demand is seen before its replicas; None where only they see it.

    MetadataErrors when what the metadata names is not granted to the namespace, or does not go with the engine.
    """
    found: list[Problem] = []
    engine = metadata.engine or DEFAULT_ENGINE
    queue = engine if engine in QUEUE_ENGINES else None
    if engine.startswith(PREFIX):
        profile = grants.profile(namespace, engine.removeprefix(PREFIX))
        if profile is None:
            granted = f"must be a profile that the platform granted to namespace {plain(namespace)}"
            found.append(Problem(("engine",), f"{granted}, was {shown(engine)}"))
        elif profile.kind is ProfileKind.QUEUE:
            queue = engine
    source = None if metadata.source is None else grants.source(namespace, metadata.source)
    if metadata.source is not None and source is None:
        granted = f"must be a source that the platform granted to namespace {plain(namespace)}"
        found.append(Problem(("source",), f"{granted}, was {shown(metadata.source)}"))
    if not found:
        found = _mismatch(engine, queue, metadata.source, source)
    if found:
        raise MetadataErrors(found)
    return source


def _mismatch(engine: str, queue: str | None, name: str | None, source: SourceRef | None) -> list[Problem]:
    """Return what keeps a source from being one for an engine; `queue` is the only preset of source that may be."""
    if queue is not None and (source is None or source.preset != queue):
        kind = f"a queue of profile {plain(queue.removeprefix(PREFIX))}" if queue.startswith(PREFIX) else "a queue"
        was = "was not given" if name is None else f"was {shown(name)}"
        return [Problem(("source",), f"must be {kind} with engine {plain(engine)}, {was}")]
    if queue is None and source is not None and source.preset not in ROUTE_LABELS:
        return [Problem(("source",), f"must be a gateway's route with engine {plain(engine)}, was {shown(name)}")]
    return []
