"""What a manifest shows of how a ScaledObject will work with Headway. Pure: parsed documents in, notes out.

Each guard is a small function that says what it has against one ScaledObject; its message gives the reason, which is
KEDA's or the HPA's own behaviour.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from scaler.config.fields import MAX_NAME_CHARS
from scaler.config.findings import Severity
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
from scaler.config.problems import KeyPath, Problem, did_you_mean, shown
from scaler.config.scaled_objects import (
    KEDA_MAX_REPLICAS,
    KEDA_MIN_REPLICAS,
    ScaledObject,
    headway_triggers,
    is_int,
    mapping,
    read_scaled_object,
)

API_VERSION = "keda.sh/v1alpha1"
MIN_FAILURE_THRESHOLD = 10
SAFE_FALLBACKS = frozenset({"currentReplicas", "currentReplicasIfHigher"})
GO_BOOLS = frozenset({"1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False"})
HPA_DEFAULT_UP_PODS = 4  # at once, where no policy is given
_NOT_FOR_TLS = ("caCert", "tlsClientCert", "tlsClientKey")
_SCALER_ADDRESS_FROM_ENV = f"scalerAddress{FROM_ENV}"


@dataclass(frozen=True, slots=True)
class Note:
    """What a guard has to say."""

    severity: Severity
    problem: Problem


def _error(path: KeyPath, message: str) -> Note:
    return Note(Severity.ERROR, Problem(path, message))


def _warning(path: KeyPath, message: str) -> Note:
    return Note(Severity.WARNING, Problem(path, message))


def scaled_object_notes(
    manifest: Mapping[str, Any], addresses: Collection[str], timezones: Collection[str] | None
) -> Iterator[Note]:
    """Yield what is to be said about a ScaledObject that has a Headway trigger; nothing about any other.

    `addresses` are the scalerAddress values that mean Headway; when empty every external trigger counts as Headway's.
    """
    scaled_object = read_scaled_object(manifest, addresses, timezones)
    if scaled_object is None:
        return
    yield from (Note(Severity.ERROR, problem) for problem in scaled_object.problems)
    for guard in GUARDS:
        yield from guard(scaled_object)


def scaled_job_notes(manifest: Mapping[str, Any], addresses: Collection[str]) -> Iterator[Note]:
    """Yield that a ScaledJob cannot use Headway: it turns a value into a number of new jobs, not of replicas."""
    for trigger in headway_triggers(mapping(manifest.get("spec")), addresses, None):
        yield _error(trigger.path, "must be in a ScaledObject: Headway does not scale a ScaledJob")


def _api_version(it: ScaledObject) -> Iterator[Note]:
    if it.api_version != API_VERSION:
        yield _error(("apiVersion",), f"must be {API_VERSION}, was {shown(it.api_version)}")


def _name(it: ScaledObject) -> Iterator[Note]:
    if len(it.name) > MAX_NAME_CHARS:
        message = f"must have at most {MAX_NAME_CHARS} characters (KEDA prefixes keda-hpa-), had {len(it.name)}"
        yield _error(("metadata", "name"), message)


def _one_trigger(it: ScaledObject) -> Iterator[Note]:
    """Two metrics make the HPA take the larger one: a second opinion that Headway neither sees nor can lower."""
    for trigger in it.headway[1:]:
        yield _error(trigger.path, "must be the only Headway trigger of its ScaledObject")
    if it.triggers > len(it.headway):
        yield _error(("spec", "triggers"), "must hold the Headway trigger alone: the HPA takes the largest of all")


def _trigger_fields(it: ScaledObject) -> Iterator[Note]:
    for trigger in it.headway:
        metric_type = trigger.raw.get("metricType", "AverageValue")
        if metric_type != "AverageValue":
            message = f"must be AverageValue, was {shown(metric_type)}: with Value the HPA multiplies by ready pods"
            yield _error((*trigger.path, "metricType"), message)
        if trigger.raw.get("useCachedMetrics", False) is not False:
            yield _error((*trigger.path, "useCachedMetrics"), "must be false: a cached value is a polling interval old")


def _address(it: ScaledObject) -> Iterator[Note]:
    for trigger in it.headway:
        path, metadata = (*trigger.path, "metadata"), trigger.metadata
        address = metadata.get("scalerAddress")
        if not (isinstance(address, str) and address.strip()):
            yield _error((*path, "scalerAddress"), "must be HOST:PORT of the scaler's Service, was not given")
        elif not address.rpartition(":")[2].isdigit():
            yield _error((*path, "scalerAddress"), f"must end in :PORT, was {shown(address)}")
        for key in ("enableTLS", "unsafeSsl"):
            if isinstance(metadata.get(key), str) and metadata[key] not in GO_BOOLS:
                yield _error((*path, key), f'must be "true" or "false", was {shown(metadata[key])}')
        if _SCALER_ADDRESS_FROM_ENV in metadata:
            yield _error((*path, _SCALER_ADDRESS_FROM_ENV), "must be scalerAddress: KEDA does not read this one")


def _advanced(it: ScaledObject) -> Iterator[Note]:
    if mapping(it.spec.get("advanced")).get("scalingModifiers"):
        message = "must not be set: KEDA then ignores activation and scales on a value of its own making"
        yield _error(("spec", "advanced", "scalingModifiers"), message)
    idle = it.spec.get("idleReplicaCount")
    if idle is not None and not (is_int(idle) and idle == 0):
        yield _error(("spec", "idleReplicaCount"), f"must be 0 or not given, was {shown(idle)}: KEDA flaps above 0")


def _zero(it: ScaledObject) -> Iterator[Note]:
    """To leave zero somebody must see demand while no engine runs."""
    if it.lower > 0:
        yield from (
            _warning(
                (*trigger.path, "type"), "must be external where minReplicaCount is above 0: a push wakes from 0 only"
            )
            for trigger in it.headway
            if trigger.raw.get("type") == "external-push"
        )
        return
    for trigger in it.headway:
        if trigger.parsed is None or trigger.parsed.min_replicas:
            continue
        if not sees_demand_at_zero(trigger.parsed):
            given = "was 0" if "minReplicaCount" in it.spec else "was not given, which is 0"
            yield _error(("spec", "minReplicaCount"), f"{SLEEPLESS}, {given}")
        elif trigger.raw.get("type") == "external":
            message = "must be external-push where minReplicaCount is 0: else a polling interval passes before it wakes"
            yield _warning((*trigger.path, "type"), message)


def _fallback(it: ScaledObject) -> Iterator[Note]:
    fallback = it.spec.get("fallback")
    path: KeyPath = ("spec", "fallback")
    if not isinstance(fallback, Mapping):
        if it.lower > 0:
            message = (
                "must be given where minReplicaCount is above 0: else nothing is raised to a safe count in an outage"
            )
            yield _warning(path, message)
        return
    if it.lower == 0:
        yield _error(path, "must not be set where minReplicaCount is 0: KEDA takes an active fallback for demand")
    behavior = fallback.get("behavior", "static")
    if behavior not in SAFE_FALLBACKS:
        message = f"must be currentReplicasIfHigher, was {shown(behavior)}: an outage must not scale down"
        yield _error((*path, "behavior"), message)
    threshold: Any = fallback.get("failureThreshold")
    if not is_int(threshold) or threshold < MIN_FAILURE_THRESHOLD:
        message = f"must be a whole number >= {MIN_FAILURE_THRESHOLD}, was {shown(threshold)}: a restart is no outage"
        yield _error((*path, "failureThreshold"), message)


def _bounds(it: ScaledObject) -> Iterator[Note]:
    for key, default in (("minReplicaCount", KEDA_MIN_REPLICAS), ("maxReplicaCount", KEDA_MAX_REPLICAS)):
        if key not in it.spec:
            yield _warning(("spec", key), f"must be given: KEDA takes {default}")
    for trigger in it.headway:
        if trigger.parsed is None or it.problems:
            continue
        try:
            intersect_bounds(trigger.parsed, it.lower, it.upper)
        except MetadataErrors as errors:
            yield from (Note(Severity.ERROR, p.under(*trigger.path, "metadata")) for p in errors.details)


_BEHAVIOR: KeyPath = ("spec", "advanced", "horizontalPodAutoscalerConfig", "behavior")


def _hpa(it: ScaledObject) -> Iterator[Note]:
    """Ask that the HPA passes Headway's number on as it is: Headway has its own rates and stabilisation."""
    config = mapping(mapping(it.spec.get("advanced")).get("horizontalPodAutoscalerConfig"))
    behavior = mapping(config.get("behavior"))
    up, down = mapping(behavior.get("scaleUp")), mapping(behavior.get("scaleDown"))
    for side, rules in (("scaleUp", up), ("scaleDown", down)):
        if str(rules.get("tolerance", "")) not in {"0", "0.0"}:
            was = shown(rules.get("tolerance")) if "tolerance" in rules else "not given, which is 0.1"
            yield _warning((*_BEHAVIOR, side, "tolerance"), f"must be 0, was {was}: the HPA ignores small changes")
        if rules.get("selectPolicy") == "Disabled":
            yield _warning(
                (*_BEHAVIOR, side, "selectPolicy"), "must not be Disabled: the HPA then never moves this way"
            )
    # Where nothing is given the HPA waits 300 s down and not at all up.
    for side, rules, default in (("scaleUp", up, 0), ("scaleDown", down, 300)):
        window = rules.get("stabilizationWindowSeconds", default)
        if window != 0:
            given = shown(window) if "stabilizationWindowSeconds" in rules else f"not given, which is {default}"
            path = (*_BEHAVIOR, side, "stabilizationWindowSeconds")
            yield _warning(path, f"must be 0, was {given}: Headway stabilises, and the HPA would wait again")
    if not _one_jump(up, it.upper - max(it.lower, 1)):
        message = f"must let {it.upper - max(it.lower, 1)} pods start at once, or a surge is climbed in several syncs"
        yield _warning((*_BEHAVIOR, "scaleUp", "policies"), message)


def _one_jump(scale_up: Mapping[str, Any], pods: int) -> bool:
    """Return whether the policies allow the whole way at once."""
    policies = scale_up.get("policies")
    rules = [mapping(policy) for policy in policies] if isinstance(policies, list) else []
    if not rules:
        return pods <= HPA_DEFAULT_UP_PODS
    fits = [rule.get("type") == "Pods" and is_int(rule.get("value")) and rule["value"] >= pods for rule in rules]
    return all(fits) if scale_up.get("selectPolicy") == "Min" else any(fits)


def _metadata(it: ScaledObject) -> Iterator[Note]:
    for trigger in it.headway:
        path = (*trigger.path, "metadata")
        yield from (Note(Severity.ERROR, problem.under(*path)) for problem in trigger.problems)
        if trigger.parsed and (message := unscaled(trigger.parsed)):
            yield _warning(path, message)
        for key, value in trigger.metadata.items():
            if not isinstance(value, str):
                was = f", was {shown(value)}" if key in KEYS else ""  # what is not ours may be a secret
                yield _error((*path, key), f"must be text in quotes{was}")
            if oddity := _oddity(key):
                yield _warning((*path, key), oddity)


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


GUARDS: tuple[Callable[[ScaledObject], Iterator[Note]], ...] = (
    _api_version,
    _name,
    _one_trigger,
    _trigger_fields,
    _address,
    _advanced,
    _zero,
    _fallback,
    _bounds,
    _hpa,
    _metadata,
)
