"""A quantile out of what a histogram's cumulative buckets rose by."""

import math
from collections.abc import Iterable, Mapping


def histogram_quantile(quantile: float, rises: Mapping[float, float]) -> float | None:
    """Return a quantile from the rises of cumulative buckets, by upper bound; None where nothing was observed.

    Linear within a bucket, from 0 in the first; in the last, unbounded one its lower bound, as Prometheus does.
    """
    bounds = sorted(rises)
    cumulative = _monotone(rises[bound] for bound in bounds)
    if not bounds or cumulative[-1] <= 0:
        return None
    rank = quantile * cumulative[-1]
    below, low = 0.0, 0.0
    for bound, count in zip(bounds, cumulative, strict=True):
        if count >= rank and count > below:
            inside = low + (bound - low) * (rank - below) / (count - below)
            return low if math.isinf(bound) else min(inside, bound)
        below, low = count, bound
    return low


def _monotone(counts: Iterable[float]) -> list[float]:
    """Return cumulative counts that never fall: buckets are not scraped in one instant."""
    running, result = 0.0, []
    for count in counts:
        running = max(running, count)
        result.append(running)
    return result
