"""The smallest values of the decision: who, how much, and what is not known and why.

A reading is three-valued in the sense that matters: it says a number, or it says why there is none. Nothing in the core
turns an absent reading into a number.
"""

from dataclasses import Field, dataclass, field
from enum import StrEnum
from typing import TypeVar, dataclass_transform

_T = TypeVar("_T")


@dataclass_transform(frozen_default=True, field_specifiers=(field, Field))
def value_class(cls: type[_T]) -> type[_T]:
    """Make a slotted dataclass that the type checker holds to be frozen.

    The interpreter's own check costs two thirds of the time that it takes to make one, and a tick makes two million.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)


class Reason(StrEnum):
    """Why a reading or a recommendation is absent. Each is shown in `/plan`, logs and metrics as it stands."""

    NOT_EXPORTED = "not_exported"  # this engine never exposes the signal
    NOT_CONFIGURED = "not_configured"  # the platform or the user did not set it up
    NO_SERIES = "no_series"  # the source answered, under no candidate name
    SOURCE_DOWN = "source_down"  # refused, reset, 4xx, 5xx, not what was asked for
    SOURCE_TIMEOUT = "source_timeout"
    PARTIAL_ANSWER = "partial_answer"  # the source itself said that its answer is incomplete
    INVALID_VALUE = "invalid_value"  # NaN or infinite, or outside what the signal can be
    NEGATIVE = "negative"
    COUNTER_RESET = "counter_reset"
    TOO_FEW_SAMPLES = "too_few_samples"  # a rate needs a second sample
    NO_CONSUMERS = "no_consumers"  # a queue without consumers has no active ratio
    NO_COMPLETIONS = "no_completions"  # waiting / completion rate has no value
    NO_REPLICAS = "no_replicas"  # nothing is ready, so nothing can report
    UNCORROBORATED = "uncorroborated"  # known, but not to be acted on alone
    SILENT = "silent"  # a ready replica says nothing
    STALE = "stale"  # seen, too long ago
    FROZEN = "frozen"  # claims work while nothing moves
    STALLED = "stalled"  # requests wait, nothing runs, the GPU is idle
    DISPUTED = "disputed"  # says idle while its GPU is busy or out of sight
    VIEW_UNAVAILABLE = "view_unavailable"  # the cluster view has no answer about this workload
    VIEW_STALE = "view_stale"  # the cluster view has heard nothing for too long: what it shows may be gone
    NOT_GRANTED = "not_granted"  # the platform did not grant this source to the workload's namespace
    OBSERVE_MODE = "observe_mode"  # Headway recommends and exports only
    UNDECIDABLE = "undecidable"  # its numbers overflow: no arithmetic can be done on them
    NOT_OBSERVED = "not_observed"  # the workload was not in this observation at all


# Absences that are a property of the engine or of the set-up. They are no gap in what we see, so they do not hold a
# scale-down; every other reason does.
BENIGN: frozenset[Reason] = frozenset({Reason.NOT_EXPORTED, Reason.NOT_CONFIGURED, Reason.UNCORROBORATED})


@value_class
class Known:
    """A value and its age in seconds at the time of the observation."""

    value: float
    age_s: float = 0.0


@value_class
class Missing:
    """No value, and why. Never zero, never idle."""

    reason: Reason


@value_class
class Stale:
    """A value was seen, too long ago to be used."""

    age_s: float


@value_class
class Frozen:
    """A gauge that claims work while no counter of its engine has moved for `still_s` seconds (vllm#29928)."""

    still_s: float


Reading = Known | Missing | Stale | Frozen


def value_of(reading: Reading) -> float | None:
    """Return the value of a known reading, else None. For arithmetic that handles absence in the next line."""
    return reading.value if isinstance(reading, Known) else None


def is_benign(reading: Reading) -> bool:
    """Return whether a reading is absent as a property of the engine or of the set-up: no gap in what we see."""
    return isinstance(reading, Missing) and reading.reason in BENIGN


def describe(reading: Reading) -> str:
    """Return a short word for a reading, as `/plan` and the logs show it: a reason, or `known`."""
    match reading:
        case Known():
            return "known"
        case Missing(reason):
            return reason.value
        case Stale():
            return "stale"
        case Frozen():
            return "frozen"


@dataclass(frozen=True, slots=True, order=True)
class WorkloadId:
    """One scale target behind one ScaledObject: the ScaledObject's namespace and name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @classmethod
    def parse(cls, text: str) -> "WorkloadId":
        """Read `namespace/name`; ValueError if it is not of that form."""
        namespace, slash, name = text.partition("/")
        if not (namespace and slash and name) or "/" in name:
            raise ValueError(f"workload must be NAMESPACE/NAME, was {text!r}")
        return cls(namespace, name)
