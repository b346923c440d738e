"""What a manifest shows of how a ScaledObject will work with Headway. Pure: a manifest in, notes out.

Each guard is a small function that says what it has against one ScaledObject; its message gives the reason, which is
KEDA's or the HPA's own behaviour. `headway check` and the live view run the same guards.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from scaler.config.hpa_guards import hpa_config, hpa_notes
from scaler.config.keda_guards import GO_FALSE, GO_TRUE, fallback_notes, observing_notes, paused_notes, polling_notes
from scaler.config.metadata import (
    FROM_ENV,
    KEDA_KEYS,
    KEYS,
    SLEEPLESS,
    MetadataErrors,
    intersect_bounds,
    sees_demand_at_zero,
    unscaled,
)
from scaler.config.notes import Note, NoteReason, error, warning
from scaler.config.platform import Platform
from scaler.config.problems import Problem, did_you_mean, shown
from scaler.config.scaled_objects import (
    KEDA_MAX_REPLICAS,
    KEDA_MIN_REPLICAS,
    ScaledObject,
    headway_triggers,
    is_int,
    mapping,
    read_scaled_object,
)
from scaler.config.settings import demand_source

API_VERSION = "keda.sh/v1alpha1"
MAX_OBJECT_NAME_CHARS = 63  # of a ScaledObject and of an HPA, says KEDA's webhook
HPA_PREFIX = "keda-hpa-"
_NOT_FOR_TLS = ("caCert", "tlsClientCert", "tlsClientKey")
_SCALER_ADDRESS_FROM_ENV = f"scalerAddress{FROM_ENV}"


def scaled_object_notes(manifest: Mapping[str, Any], platform: Platform) -> Iterator[Note]:
    """Yield what is to be said about a ScaledObject that has a Headway trigger; nothing about any other."""
    scaled_object = read_scaled_object(manifest, platform.addresses, platform.timezones)
    if scaled_object is not None:
        yield from notes_on(scaled_object, platform)


def notes_on(it: ScaledObject, platform: Platform) -> Iterator[Note]:
    """Yield what every guard has to say about a ScaledObject that asks Headway."""
    for guard in GUARDS:
        yield from guard(it)
    yield from _granted(it, platform)


def scaled_job_notes(manifest: Mapping[str, Any], platform: Platform) -> Iterator[Note]:
    """Yield that a ScaledJob cannot use Headway: it turns a value into a number of new jobs, not of replicas."""
    for trigger in headway_triggers(mapping(manifest.get("spec")), platform.addresses, None):
        message = "must be in a ScaledObject: Headway does not scale a ScaledJob"
        yield error(NoteReason.SCALED_JOB, trigger.path, message)


def _api_version(it: ScaledObject) -> Iterator[Note]:
    if it.api_version != API_VERSION:
        message = f"must be {API_VERSION}, was {shown(it.api_version)}"
        yield error(NoteReason.API_VERSION, ("apiVersion",), message)


def _name(it: ScaledObject) -> Iterator[Note]:
    """Both names have a limit, that of the HPA counts its prefix unless it has a name of its own."""
    custom = hpa_config(it.spec).get("name")
    own = isinstance(custom, str) and bool(custom)
    limit = MAX_OBJECT_NAME_CHARS if own else MAX_OBJECT_NAME_CHARS - len(HPA_PREFIX)
    if not it.name:
        yield error(NoteReason.NAME, ("metadata", "name"), "must be given")
    elif len(it.name) > limit:
        why = "" if own else f" (KEDA prefixes {HPA_PREFIX})"
        message = f"must have at most {limit} characters{why}, had {len(it.name)}"
        yield error(NoteReason.NAME, ("metadata", "name"), message)
    if own and len(str(custom)) > MAX_OBJECT_NAME_CHARS:
        path = ("spec", "advanced", "horizontalPodAutoscalerConfig", "name")
        message = f"must have at most {MAX_OBJECT_NAME_CHARS} characters, had {len(str(custom))}"
        yield error(NoteReason.NAME, path, message)


def _target(it: ScaledObject) -> Iterator[Note]:
    if not it.target.complete:
        yield error(NoteReason.SCALE_TARGET, ("spec", "scaleTargetRef", "name"), "must be given")


def _one_trigger(it: ScaledObject) -> Iterator[Note]:
    """Two metrics make the HPA take the larger one: a second opinion that Headway neither sees nor can lower."""
    for trigger in it.headway[1:]:
        message = "must be the only Headway trigger of its ScaledObject"
        yield error(NoteReason.TWO_HEADWAY_TRIGGERS, trigger.path, message)
    if it.triggers > len(it.headway):
        message = "must hold the Headway trigger alone: the HPA takes the largest of all"
        yield error(NoteReason.SECOND_TRIGGER, ("spec", "triggers"), message)


def _trigger_fields(it: ScaledObject) -> Iterator[Note]:
    for trigger in it.headway:
        metric_type = trigger.raw.get("metricType", "AverageValue")
        if metric_type != "AverageValue":
            message = f"must be AverageValue, was {shown(metric_type)}: with Value the HPA multiplies by ready pods"
            yield error(NoteReason.METRIC_TYPE, (*trigger.path, "metricType"), message)
        if trigger.raw.get("useCachedMetrics", False) is not False:
            message = "must be false: a cached value is a polling interval old"
            yield error(NoteReason.CACHED_METRICS, (*trigger.path, "useCachedMetrics"), message)


def _address(it: ScaledObject) -> Iterator[Note]:
    for trigger in it.headway:
        path, metadata = (*trigger.path, "metadata"), trigger.metadata
        for key, message in _address_problems(metadata):
            yield error(NoteReason.ADDRESS, (*path, key), message)


def _address_problems(metadata: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    address = metadata.get("scalerAddress")
    if not (isinstance(address, str) and address.strip()):
        yield "scalerAddress", "must be HOST:PORT of the scaler's Service, was not given"
    elif not address.rpartition(":")[2].isdigit():
        yield "scalerAddress", f"must end in :PORT, was {shown(address)}"
    for key in ("enableTLS", "unsafeSsl"):
        if isinstance(metadata.get(key), str) and metadata[key] not in GO_TRUE | GO_FALSE:
            yield key, f'must be "true" or "false", was {shown(metadata[key])}'
    if _SCALER_ADDRESS_FROM_ENV in metadata:
        yield _SCALER_ADDRESS_FROM_ENV, "must be scalerAddress: KEDA does not read this one"


def _advanced(it: ScaledObject) -> Iterator[Note]:
    if mapping(it.spec.get("advanced")).get("scalingModifiers"):
        message = "must not be set: KEDA then ignores activation and scales on a value of its own making"
        yield error(NoteReason.SCALING_MODIFIERS, ("spec", "advanced", "scalingModifiers"), message)
    idle = it.spec.get("idleReplicaCount")
    if idle is not None and not (is_int(idle) and idle == 0):
        message = f"must be 0 or not given, was {shown(idle)}: KEDA flaps above 0"
        yield error(NoteReason.IDLE_REPLICAS, ("spec", "idleReplicaCount"), message)


def _zero(it: ScaledObject) -> Iterator[Note]:
    """To leave zero somebody must see demand while no engine runs."""
    for trigger in it.headway:
        path, kind = (*trigger.path, "type"), trigger.raw.get("type")
        if it.lower > 0:
            if kind == "external-push":
                message = "must be external where minReplicaCount is above 0: a push wakes from 0 only"
                yield warning(NoteReason.PUSH, path, message)
        elif trigger.parsed is None or trigger.parsed.min_replicas:
            continue
        elif not sees_demand_at_zero(trigger.parsed):
            given = "was 0" if "minReplicaCount" in it.spec else "was not given, which is 0"
            yield error(NoteReason.ZERO_WITHOUT_DEMAND, ("spec", "minReplicaCount"), f"{SLEEPLESS}, {given}")
        elif kind == "external":
            message = "must be external-push where minReplicaCount is 0: else a polling interval passes before it wakes"
            yield warning(NoteReason.PUSH, path, message)


def _bounds(it: ScaledObject) -> Iterator[Note]:
    yield from _notes(NoteReason.BOUNDS, it.problems)
    for key, default in (("minReplicaCount", KEDA_MIN_REPLICAS), ("maxReplicaCount", KEDA_MAX_REPLICAS)):
        if key not in it.spec:
            yield warning(NoteReason.BOUNDS, ("spec", key), f"must be given: KEDA takes {default}")
    for trigger in it.headway:
        if trigger.parsed is None or it.problems:
            continue
        try:
            intersect_bounds(trigger.parsed, it.lower, it.upper)
        except MetadataErrors as errors:
            yield from _notes(NoteReason.BOUNDS, errors.details, *trigger.path, "metadata")


def _metadata(it: ScaledObject) -> Iterator[Note]:
    for trigger in it.headway:
        path = (*trigger.path, "metadata")
        yield from _notes(NoteReason.METADATA, trigger.problems, *path)
        if trigger.parsed and (message := unscaled(trigger.parsed)):
            yield warning(NoteReason.UNSCALED, path, message)
        for key, value in trigger.metadata.items():
            if not isinstance(value, str):
                was = f", was {shown(value)}" if key in KEYS else ""  # what is not ours may be a secret
                yield error(NoteReason.METADATA, (*path, key), f"must be text in quotes{was}")
            if oddity := _oddity(key):
                yield warning(NoteReason.METADATA, (*path, key), oddity)


def _oddity(key: str) -> str:
    """Return what is odd about a key that is no error, or nothing."""
    if key == "metricType":
        return "has no effect here: it belongs to the trigger, beside type"
    if key in _NOT_FOR_TLS:
        return "has no effect here and is sent as text: certificates belong to a TriggerAuthentication"
    if key.endswith(FROM_ENV):
        # KEDA's own is an error of its own.
        sent = "is sent with its value and not used: Headway reads no environment of the workload"
        return "" if key == _SCALER_ADDRESS_FROM_ENV else sent
    return "" if key in KEYS or key in KEDA_KEYS else f"is not a known key{did_you_mean(key, KEYS)}"


def _granted(it: ScaledObject, platform: Platform) -> Iterator[Note]:
    """Yield what a ScaledObject names that its namespace may not use. Without a namespace nobody can tell."""
    if platform.grants is None or not it.namespace:
        return
    for trigger in it.headway:
        if trigger.parsed is not None:
            try:
                demand_source(it.namespace, trigger.parsed, platform.grants)
            except MetadataErrors as errors:
                yield from _notes(NoteReason.NOT_GRANTED, errors.details, *trigger.path, "metadata")


def _notes(reason: NoteReason, problems: Collection[Problem], *prefix: str | int) -> Iterator[Note]:
    for problem in problems:
        yield error(reason, (*prefix, *problem.path), problem.message)


GUARDS: tuple[Callable[[ScaledObject], Iterator[Note]], ...] = (
    _api_version,
    _name,
    _target,
    _one_trigger,
    _trigger_fields,
    _address,
    _advanced,
    _zero,
    polling_notes,
    observing_notes,
    fallback_notes,
    paused_notes,
    _bounds,
    hpa_notes,
    _metadata,
)
