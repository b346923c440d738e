"""The last clamp: what the HPA makes of a target where it has a tolerance.

An HPA leaves its scale target alone while the metric over (target x status replicas) is within 1 - down .. 1 + up, both
ends included. A number inside that band has no effect, so it is rounded to one that has, or what there is stays, and
the trail says so. The arithmetic is that of Kubernetes 1.33 and later
(pkg/controller/podautoscaler/replica_calculator.go, GetExternalPerPodMetricReplicas): a ratio of 64-bit floats.

What always holds:

- Outside the band, with no tolerance, and from or to zero (which is KEDA's to do) a target passes as it is.
- The result is never above `upper`, and never below the target, but for two cases: no effective step up fits under
  `upper`, or there are more replicas than `upper` allows. A cap is a cap: then it is the largest effective step down.
- The HPA makes of the result the result itself, or what there is already.
- Nothing of the rounding is remembered: the next decision starts from what this one was before it. A number that was
  rounded up and taken for a wish would be rounded up again as replicas appear one by one, without an end; and a limit
  on the rate that is smaller than the band would never get out of it.
"""

import math

from scaler.config.models import HpaRules
from scaler.core.observation import ReplicaCounts

_MILLI = 1000  # the API carries whole thousandths


def rounded(target: int, counts: ReplicaCounts, upper: int, hpa: HpaRules, default: float) -> tuple[int, str]:
    """Return what can stand for a target, and why. `default` is the tolerance of an HPA that has none of its own."""
    there = counts.ready + counts.pending + counts.blocked  # what the HPA sees: status.replicas
    up = default if hpa.tolerance_up is None else hpa.tolerance_up
    down = default if hpa.tolerance_down is None else hpa.tolerance_down
    if there > upper and hpa.max_replicas is not None and hpa.max_replicas <= upper:
        return target, ""  # it goes down to that by itself
    after = quantised(target, there, upper, up, down)
    return after, "" if after == target else f"hpa_tolerance (-{down:.0%}, +{up:.0%} of {there})"


def quantised(target: int, current: int, upper: int, tolerance_up: float, tolerance_down: float) -> int:
    """Return the target, or what can stand for it where the HPA would ignore it.

    `current` are the replicas that the HPA measures against (the scale target's status.replicas), `upper` is the lowest
    of the caps. Tolerances are shares of 1.
    """
    if target == current or target <= 0 or current <= 0:
        return target
    if current > upper:
        # Where no step down has an effect, the target at least says what is wanted; 0 would be KEDA's order to end.
        return min(target, largest_step_down(current, tolerance_down, tolerance_up) or target)
    if not ignored(target, current, tolerance_up, tolerance_down):
        return target
    if target < current:
        return current
    step = smallest_step_up(current, tolerance_up, tolerance_down)
    return step if step <= upper else current


def ignored(target: int, current: int, tolerance_up: float, tolerance_down: float) -> bool:
    """Return whether an HPA that is told `target` keeps its `current` replicas."""
    ratio = float(target * _MILLI) / (float(_MILLI) * float(current))
    return 1.0 - tolerance_down <= ratio <= 1.0 + tolerance_up


def smallest_step_up(current: int, tolerance_up: float, tolerance_down: float = 0.0) -> int:
    """Return the smallest target above `current` that the HPA acts on."""
    step = max(current + 1, math.floor(current * (1.0 + tolerance_up)) - 1)
    while ignored(step, current, tolerance_up, tolerance_down):
        step += 1
    return step


def largest_step_down(current: int, tolerance_down: float, tolerance_up: float = 0.0) -> int:
    """Return the largest target below `current` that the HPA acts on; 0 where it acts on none."""
    step = max(0, min(current - 1, math.ceil(current * (1.0 - tolerance_down)) + 1))  # a tolerance may be above 1
    while step > 0 and ignored(step, current, tolerance_up, tolerance_down):
        step -= 1
    return step
