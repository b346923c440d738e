"""The way into the decision: `step`. The live loop and the backtest are two short drivers of this one function."""

from dataclasses import dataclass

from scaler.config.models import Policy
from scaler.core.observation import Observation, WorkloadObservation
from scaler.core.plan import Plan, Recommendation
from scaler.core.state import EngineState, WorkloadState
from scaler.core.values import Missing, Reason, WorkloadId
from scaler.core.workload import Terms, decide

_NOT_OBSERVED = WorkloadObservation(counts=Missing(Reason.NOT_OBSERVED))
_UNDECIDABLE = WorkloadObservation(counts=Missing(Reason.UNDECIDABLE))


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a tick leaves behind: the state for the next one, and the plan."""

    state: EngineState
    plan: Plan


def step(state: EngineState, observation: Observation, policy: Policy, now_s: float) -> StepResult:
    """Decide one tick over all workloads of the policy.

    Pure: equal arguments give equal results, whatever the order of the workloads. `now_s` is Unix time in seconds. The
    state of a workload that the policy no longer names is forgotten.
    """
    states: dict[WorkloadId, WorkloadState] = {}
    recommendations: dict[WorkloadId, Recommendation] = {}
    for settings in policy.workloads:
        key = WorkloadId(settings.namespace, settings.name)
        seen = observation.workloads.get(key, _NOT_OBSERVED)
        terms = Terms(key, settings, policy.decision, now_s)
        before = state.workloads.get(key)
        try:
            states[key], recommendations[key] = decide(before, seen, terms)
        except ArithmeticError:  # absurd numbers of one workload; the others must not wait for their repair
            states[key], recommendations[key] = decide(before, _UNDECIDABLE, terms)
    return StepResult(EngineState(states), Plan(now_s, recommendations))
