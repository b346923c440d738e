"""What a guard has to say about a manifest: how bad it is, why in one stable word, and what would be right."""

from dataclasses import dataclass
from enum import StrEnum

from scaler.config.findings import Severity
from scaler.config.problems import KeyPath, Problem


class NoteReason(StrEnum):
    """Why a guard speaks. People filter Events by it, so a word, once given, stays."""

    ADDRESS = "ScalerAddress"
    API_VERSION = "ApiVersion"
    BOUNDS = "Bounds"
    CACHED_METRICS = "CachedMetrics"
    FALLBACK = "Fallback"
    HPA_BEHAVIOUR = "HpaBehaviour"
    IDLE_REPLICAS = "IdleReplicas"
    KEDA_VERSION = "KedaVersion"
    METADATA = "Metadata"
    METRIC_TYPE = "MetricType"
    NAME = "Name"
    NOT_GRANTED = "NotGranted"
    OBSERVED = "Observed"
    PAUSED = "Paused"
    POLLING = "PollingInterval"
    PUSH = "Push"
    SCALED_JOB = "ScaledJob"
    SCALE_TARGET = "ScaleTarget"
    SCALING_MODIFIERS = "ScalingModifiers"
    SECOND_TRIGGER = "SecondTrigger"
    SHARED_TARGET = "SharedTarget"
    TWO_HEADWAY_TRIGGERS = "TwoHeadwayTriggers"
    UNSCALED = "Unscaled"
    ZERO_WITHOUT_DEMAND = "ZeroWithoutDemand"


# An error of these leaves a workload without a decision: its settings cannot be told, or are not granted, or what
# Headway answers would be multiplied. KEDA then gets an error and the HPA holds. All others are told and no more: where
# an answer does some good an error would do none (with scalingModifiers KEDA even takes it for inactivity).
REFUSING = frozenset(
    {
        NoteReason.BOUNDS,
        NoteReason.METADATA,
        NoteReason.METRIC_TYPE,
        NoteReason.NAME,
        NoteReason.NOT_GRANTED,
        NoteReason.SCALE_TARGET,
        NoteReason.SHARED_TARGET,
    }
)


@dataclass(frozen=True, slots=True)
class Note:
    """What a guard has to say, and where in the manifest."""

    severity: Severity
    reason: NoteReason
    problem: Problem

    @property
    def refuses(self) -> bool:
        """Return whether the workload can have no decision while this stands."""
        return self.severity is Severity.ERROR and self.reason in REFUSING

    def under(self, *prefix: str | int) -> "Note":
        """Return the same note, seen from a document that holds its manifest at `prefix`."""
        return Note(self.severity, self.reason, self.problem.under(*prefix))

    def __str__(self) -> str:
        return str(self.problem)


def error(reason: NoteReason, path: KeyPath, message: str) -> Note:
    """Return a note that something breaks what Headway promises."""
    return Note(Severity.ERROR, reason, Problem(path, message))


def warning(reason: NoteReason, path: KeyPath, message: str) -> Note:
    """Return a note that something is worth a look."""
    return Note(Severity.WARNING, reason, Problem(path, message))
