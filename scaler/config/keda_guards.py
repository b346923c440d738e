"""What a ScaledObject asks of KEDA: how often it polls, what it does in an outage, whether it is paused. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from scaler.config.notes import Note, NoteReason, error, warning
from scaler.config.observed import MODE, is_observe
from scaler.config.platform import KEDA_ANNOTATIONS
from scaler.config.problems import KeyPath, shown
from scaler.config.scaled_objects import ScaledObject, is_int

MIN_FAILURE_THRESHOLD = 10
SAFE_FALLBACKS = frozenset({"currentReplicas", "currentReplicasIfHigher"})
KEDA_POLLING_S = 30
MIN_POLLING_S, MAX_POLLING_AT_ZERO_S = 5, 30
GO_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
GO_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def polling_notes(it: ScaledObject) -> Iterator[Note]:
    """Ask for a pace that neither floods KEDA nor leaves a workload asleep."""
    path: KeyPath = ("spec", "pollingInterval")
    polling = it.spec.get("pollingInterval", KEDA_POLLING_S)
    if not is_int(polling) or polling < 1:
        yield error(NoteReason.POLLING, path, f"must be a whole number >= 1, was {shown(polling)}")
    elif polling < MIN_POLLING_S:
        message = f"must be >= {MIN_POLLING_S}, was {polling}: the HPA reads every 15 s whatever this says"
        yield warning(NoteReason.POLLING, path, message)
    elif polling > MAX_POLLING_AT_ZERO_S and it.lower == 0:
        message = (
            f"must be <= {MAX_POLLING_AT_ZERO_S} where minReplicaCount is 0, was {polling}: it wakes so much later"
        )
        yield warning(NoteReason.POLLING, path, message)


def fallback_notes(it: ScaledObject) -> Iterator[Note]:
    """Ask for a fallback that an outage cannot turn into fewer replicas, or into a waking from 0."""
    fallback = it.spec.get("fallback")
    path: KeyPath = ("spec", "fallback")
    if not isinstance(fallback, Mapping):
        if it.lower > 0:
            message = "must be given where minReplicaCount is above 0: else an outage raises nothing to a safe count"
            yield warning(NoteReason.FALLBACK, path, message)
        return
    if it.lower == 0:
        message = "must not be set where minReplicaCount is 0: KEDA takes an active fallback for demand"
        yield error(NoteReason.FALLBACK, path, message)
    behavior = fallback.get("behavior", "static")
    if behavior not in SAFE_FALLBACKS:
        message = f"must be currentReplicasIfHigher, was {shown(behavior)}: an outage must not scale down"
        yield error(NoteReason.FALLBACK, (*path, "behavior"), message)
    threshold: Any = fallback.get("failureThreshold")
    if not is_int(threshold) or threshold < MIN_FAILURE_THRESHOLD:
        message = f"must be a whole number >= {MIN_FAILURE_THRESHOLD}, was {shown(threshold)}: a restart is no outage"
        yield error(NoteReason.FALLBACK, (*path, "failureThreshold"), message)


def paused_notes(it: ScaledObject) -> Iterator[Note]:
    """Tell of KEDA's own annotations, which reach past whatever a scaler says."""
    for key, what in _PAUSES.items():
        annotation = f"{KEDA_ANNOTATIONS}{key}"
        if annotation in it.annotations and (key == "paused-replicas" or _on(it.annotations[annotation])):
            yield warning(NoteReason.PAUSED, ("metadata", "annotations", annotation), f"must not stay: {what}")
    force = f"{KEDA_ANNOTATIONS}force-activation"
    if it.lower == 0 and force in it.annotations and _on(it.annotations[force]):
        message = "must not stay where minReplicaCount is 0: KEDA never goes to 0 while it is there"
        yield warning(NoteReason.PAUSED, ("metadata", "annotations", force), message)


_PAUSES: Mapping[str, str] = {
    "paused": "KEDA deletes the HPA and asks no scaler while it is there",
    "paused-replicas": "KEDA deletes the HPA, asks no scaler and keeps this count while it is there",
    "paused-scale-in": "the HPA lowers nothing while it is there",
    "paused-scale-out": "the HPA raises nothing while it is there",
}


def _on(value: Any) -> bool:
    """Return whether KEDA takes an annotation as set: it does so for what it cannot read, too."""
    return str(value) not in GO_FALSE


def observing_notes(it: ScaledObject) -> Iterator[Note]:
    """Yield that a ScaledObject whose trigger names this scaler is only observed."""
    if is_observe(it.annotations):
        message = "must not stay: KEDA gets an error while it is there, and the HPA holds"
        yield warning(NoteReason.OBSERVED, ("metadata", "annotations", MODE), message)
