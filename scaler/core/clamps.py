"""The clamps, in the order in which they act. Each is a pure function from a target to a target.

A clamp that cannot compute keeps the previous target; none of them fails open.
"""

import math

from scaler.config.models import DecisionSettings, RateLimit

History = tuple[tuple[float, int], ...]
_BUCKETS = 60


def remembered(wishes: History, wish: int, hold_s: float, now_s: float) -> History:
    """Add a wish to the falling queue of recent ones, so that the maximum of the hold window is its first entry.

    An entry stays while it is the largest of what followed it and younger than `hold_s`. Wishes that fall within a
    sixtieth of the window are one, the largest, so that the queue has at most 61 entries however often is decided.
    """
    kept = [(at, n) for at, n in wishes if now_s - at < hold_s and n > wish]
    bucket_s = hold_s / _BUCKETS
    if kept and bucket_s > 0 and kept[-1][0] // bucket_s == now_s // bucket_s:
        return (*kept[:-1], (now_s, kept[-1][1]))
    return (*kept, (now_s, wish))


def stabilised(wishes: History) -> int:
    """Return the maximum of the remembered wishes: what must have fallen before the target may."""
    return max(n for _, n in wishes)


def bounded(target: int, lower: int, upper: int) -> int:
    """Return the target within its bounds. Where they contradict each other the upper one, a cap, wins."""
    return min(max(target, lower), upper)


def rate_limited(target: int, previous: int, targets: History, limit: RateLimit, now_s: float) -> int:
    """Return how far the target may go, from what was in force when the current period began.

    The larger of the two allowances counts, as in an HPA's `Max` policy, and the limit never turns a move around.
    """
    if target == previous:
        return target
    base = _in_force(targets, previous, now_s - limit.period_s)
    if target > previous:
        allowed = _allowance(base, limit.up_replicas, limit.up_share)
        return target if allowed is None else max(previous, min(target, base + allowed))
    allowed = _allowance(base, limit.down_replicas, limit.down_share)
    return target if allowed is None else min(previous, max(target, base - allowed))


def recorded(targets: History, target: int, period_s: float, now_s: float) -> History:
    """Add a target at its change, and drop what was no longer in force when the current period began."""
    kept = list(targets) if targets and targets[-1][1] == target else [*targets, (now_s, target)]
    while len(kept) > 1 and kept[1][0] <= now_s - period_s:
        del kept[0]
    return tuple(kept)


def downs_wait_until_s(first_seen_s: float, decision: DecisionSettings) -> float:
    """Return until when a fresh start may not lower anything: its windows must have filled first."""
    longest = max(decision.rate_window_s, decision.frozen_after_s, decision.stale_after_s, decision.rate.period_s)
    return first_seen_s + max(decision.hold_s, longest)


def _in_force(targets: History, previous: int, at_s: float) -> int:
    in_force = [n for at, n in targets if at <= at_s]
    return in_force[-1] if in_force else (targets[0][1] if targets else previous)


def _allowance(base: int, replicas: int | None, share: float | None) -> int | None:
    """Return the larger of the two allowances in replicas, at least one; None where neither is set."""
    if replicas is None and share is None:
        return None
    return max(replicas or 0, math.ceil(base * (share or 0.0)), 1)
