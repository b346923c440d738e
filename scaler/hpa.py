"""What Kubernetes and KEDA make of a metric value: the HPA's arithmetic and KEDA's activation, as pure functions.

The HPA (autoscaling/v2, Kubernetes 1.33 and later) with one external metric of type AverageValue, which is how KEDA
sets it up; KEDA's scale loop for 0 <-> 1. Both are steps `(state, ...) -> (state, replicas)` over values; time is an
argument. Not modelled yet: KEDA's fallback, several metrics, metric type Value, scale targets that are paused.
"""

import math
from dataclasses import dataclass, replace
from enum import StrEnum

SYNC_PERIOD_S = 15.0  # of the HPA controller
DEFAULT_TOLERANCE = 0.1
DEFAULT_DOWN_STABILISATION_S = 300.0


class PolicyType(StrEnum):
    """What a scaling policy counts in."""

    PODS = "Pods"
    PERCENT = "Percent"


class SelectPolicy(StrEnum):
    """Which of several policies counts."""

    MAX = "Max"
    MIN = "Min"
    DISABLED = "Disabled"


@dataclass(frozen=True, slots=True)
class ScalingPolicy:
    """At most `value` pods, or per cent of the replicas at its start, within a period."""

    type: PolicyType
    value: int
    period_s: float

    def __post_init__(self) -> None:
        if self.value <= 0:
            raise ValueError(f"value must be > 0, was {self.value}")
        if not 0 < self.period_s <= 1800:
            raise ValueError(f"period_s must be > 0 and <= 1800, was {self.period_s}")


@dataclass(frozen=True, slots=True)
class ScalingRules:
    """`behavior.scaleUp` or `behavior.scaleDown`."""

    policies: tuple[ScalingPolicy, ...]
    stabilisation_s: float = 0.0
    select: SelectPolicy = SelectPolicy.MAX
    tolerance: float = DEFAULT_TOLERANCE

    def __post_init__(self) -> None:
        if not self.policies:
            raise ValueError("policies must have at least one policy, had none")
        if not 0 <= self.stabilisation_s <= 3600:
            raise ValueError(f"stabilisation_s must be 0 .. 3600, was {self.stabilisation_s}")
        if not self.tolerance >= 0:
            raise ValueError(f"tolerance must be >= 0, was {self.tolerance}")


# What the API server fills in where `behavior` is set without policies.
DEFAULT_UP = ScalingRules((ScalingPolicy(PolicyType.PODS, 4, 15), ScalingPolicy(PolicyType.PERCENT, 100, 15)))
DEFAULT_DOWN = ScalingRules((ScalingPolicy(PolicyType.PERCENT, 100, 15),), stabilisation_s=DEFAULT_DOWN_STABILISATION_S)


@dataclass(frozen=True, slots=True)
class Behaviour:
    """`behavior` of an HPA. A direction that is not set has the API server's defaults."""

    up: ScalingRules = DEFAULT_UP
    down: ScalingRules = DEFAULT_DOWN


# The ScaledObject that Headway ships: exact values (tolerance 0), no stabilisation beside Headway's own, one jump up.
HEADWAY_BEHAVIOUR = Behaviour(
    up=ScalingRules((ScalingPolicy(PolicyType.PODS, 1000, 15),), tolerance=0.0),
    down=ScalingRules((ScalingPolicy(PolicyType.PERCENT, 100, 15),), tolerance=0.0),
)


@dataclass(frozen=True, slots=True)
class HpaSpec:
    """An HPA. Without `behaviour` the controller's older rules hold: at most max(2n, 4) up, 300 s down."""

    min_replicas: int = 1
    max_replicas: int = 100
    target: float = 1.0  # AverageValue
    behaviour: Behaviour | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.min_replicas <= self.max_replicas:
            raise ValueError(f"min_replicas must be 0 .. max_replicas ({self.max_replicas}), was {self.min_replicas}")
        if not self.target >= 0.001:
            raise ValueError(f"target must be >= 0.001 (KEDA writes three decimals), was {self.target}")


@dataclass(frozen=True, slots=True)
class HpaState:
    """What the HPA controller remembers: (time, value), oldest first."""

    recommendations: tuple[tuple[float, int], ...] = ()  # before stabilisation
    changes: tuple[tuple[float, int], ...] = ()  # of the replicas: > 0 up, < 0 down


class MetricError(Exception):
    """The metric could not be had. An HPA then holds."""


def hpa_step(
    state: HpaState, spec: HpaSpec, now_s: float, metric: float | MetricError, spec_replicas: int, status_replicas: int
) -> tuple[HpaState, int]:
    """Return the new state and the replicas that the HPA writes (equal to `spec_replicas` for no change).

    `spec_replicas` is the scale target's spec.replicas, `status_replicas` its status.replicas: pods that exist, ready
    or not. Min and max hold before the metric is looked at, without tolerance and without policy.
    """
    if spec_replicas == 0 and spec.min_replicas != 0:
        return state, 0  # ScalingDisabled: only KEDA, or a person, leaves zero
    if not state.recommendations:
        state = replace(state, recommendations=((now_s, spec_replicas),))
    if spec_replicas > spec.max_replicas:
        desired = spec.max_replicas
    elif spec_replicas < spec.min_replicas:
        desired = spec.min_replicas
    elif isinstance(metric, MetricError):
        return state, spec_replicas
    else:
        wanted = average_value_replicas(metric, spec, status_replicas)
        state, desired = _normalise(state, spec, now_s, wanted, spec_replicas)
    return _note_change(state, now_s, desired - spec_replicas), desired


def average_value_replicas(value: float, spec: HpaSpec, status_replicas: int) -> int:
    """Return the replicas that an AverageValue metric asks for, before stabilisation and policies.

    Inside the tolerance band that is `status_replicas`, whatever spec.replicas says. The API carries whole thousandths.
    """
    usage, target = int(value * 1000), int(spec.target * 1000)
    up, down = _tolerances(spec)
    if status_replicas > 0 and 1.0 - down <= usage / (target * status_replicas) <= 1.0 + up:
        return status_replicas
    return math.ceil(usage / target)


def _tolerances(spec: HpaSpec) -> tuple[float, float]:
    if spec.behaviour is None:
        return DEFAULT_TOLERANCE, DEFAULT_TOLERANCE
    return spec.behaviour.up.tolerance, spec.behaviour.down.tolerance


def _normalise(state: HpaState, spec: HpaSpec, now_s: float, wanted: int, current: int) -> tuple[HpaState, int]:
    """Stabilise a recommendation and bound it by policies, min and max; remember it as it was."""
    behaviour, history = spec.behaviour, state.recommendations
    if behaviour is None:
        up_s, down_s = 0.0, DEFAULT_DOWN_STABILISATION_S
        # This older rule counts what is exactly as old as the window; the ones of `behaviour` do not.
        highest = max([wanted, *(value for at_s, value in history if at_s >= now_s - down_s)])
        desired = min(max(highest, spec.min_replicas), spec.max_replicas, max(2 * current, 4))
    else:
        up_s, down_s = behaviour.up.stabilisation_s, behaviour.down.stabilisation_s
        lowest = min([wanted, *_within(history, now_s, up_s)])
        highest = max([wanted, *_within(history, now_s, down_s)])
        desired = _bounded(state, spec, behaviour, now_s, min(max(current, lowest), highest), current)
    kept = tuple(item for item in history if now_s - item[0] <= max(up_s, down_s))
    return replace(state, recommendations=(*kept, (now_s, wanted))), desired


def _within(history: tuple[tuple[float, int], ...], now_s: float, window_s: float) -> list[int]:
    return [value for at_s, value in history if at_s > now_s - window_s]


def _bounded(state: HpaState, spec: HpaSpec, behaviour: Behaviour, now_s: float, stable: int, current: int) -> int:
    if stable > current:
        limit = max(current, policy_limit(behaviour.up, state, now_s, current, up=True))
        return min(stable, spec.max_replicas, limit)
    if stable < current:
        limit = min(current, policy_limit(behaviour.down, state, now_s, current, up=False))
        return max(stable, spec.min_replicas, limit)
    return stable


def policy_limit(rules: ScalingRules, state: HpaState, now_s: float, current: int, *, up: bool) -> int:
    """Return how far the policies of one direction allow to go from `current`.

    A policy measures from the replicas at the start of its period, which follow from the changes since.
    """
    if rules.select is SelectPolicy.DISABLED:
        return current
    limits = [
        _one_limit(policy, current - sum(_within(state.changes, now_s, policy.period_s)), up=up)
        for policy in rules.policies
    ]
    most_change = rules.select is SelectPolicy.MAX
    return max(limits) if up == most_change else min(limits)


def _one_limit(policy: ScalingPolicy, start: int, *, up: bool) -> int:
    if policy.type is PolicyType.PODS:
        return start + policy.value if up else start - policy.value
    # Rounded towards more change in both directions, as the controller does: up, or a small count would never grow.
    return math.ceil(start * (1 + policy.value / 100)) if up else int(start * (1 - policy.value / 100))


_LONGEST_PERIOD_S = 1800.0


def _note_change(state: HpaState, now_s: float, change: int) -> HpaState:
    if change == 0:
        return state
    kept = tuple(item for item in state.changes if item[0] > now_s - _LONGEST_PERIOD_S)
    return replace(state, changes=(*kept, (now_s, change)))


# --- KEDA's scale loop ---


@dataclass(frozen=True, slots=True)
class KedaSpec:
    """The part of a ScaledObject that KEDA's own loop acts on."""

    min_replicas: int = 0
    idle_replicas: int | None = None
    cooldown_s: float = 300.0

    def __post_init__(self) -> None:
        if self.min_replicas < 0:
            raise ValueError(f"min_replicas must be >= 0, was {self.min_replicas}")
        if self.idle_replicas is not None and not 0 <= self.idle_replicas < self.min_replicas:
            raise ValueError(f"idle_replicas must be 0 .. min_replicas - 1, was {self.idle_replicas}")


@dataclass(frozen=True, slots=True)
class KedaState:
    """status.lastActiveTime, Unix seconds; None until the first activity."""

    last_active_s: float | None = None


def keda_step(
    state: KedaState, spec: KedaSpec, now_s: float, replicas: int, *, active: bool | MetricError
) -> tuple[KedaState, int]:
    """Return the new state and the replicas that KEDA's poll writes (equal to `replicas` for no change).

    KEDA itself goes from zero (or idle) to max(min, 1), and back once the cooldown since the last activity is over;
    everything between is the HPA's. An error keeps what is.
    """
    idle = spec.idle_replicas
    if isinstance(active, MetricError):
        return state, replicas
    if active:
        asleep = replicas == 0 or (idle is not None and replicas < spec.min_replicas)
        return KedaState(now_s), (max(spec.min_replicas, 1) if asleep else replicas)
    if (idle is not None and replicas > idle) or (spec.min_replicas == 0 and replicas > 0):
        # Without any activity on record the target was scaled by someone else: no cooldown then.
        cooled = state.last_active_s is None or state.last_active_s + spec.cooldown_s < now_s
        return state, ((idle or 0) if cooled else replicas)
    if idle is None and replicas < spec.min_replicas:
        return state, spec.min_replicas
    return state, replicas
