"""Which replicas a workload has, and since when: what moves with them is neither growth nor decline of demand."""

import zlib
from collections.abc import Sequence

from scaler.core.observation import ReplicaReading
from scaler.core.values import value_class

# The share of the replicas that may come or go between two looks without making their difference another one's.
SAME_MEMBERS = 0.02


@value_class
class Members:
    """A pool's replicas as a fingerprint: the sum of the checksums of their names, which knows no order."""

    since_s: float  # Unix seconds of the first look at which they were as they are
    count: int
    fingerprint: int


def members_of(before: Members | None, replicas: Sequence[ReplicaReading], now_s: float) -> Members:
    """Return the members at a look, from those at the look before.

    In a large pool a few that come or go are too few to matter; in one of under fifty every single one matters, also
    where another takes its place and the count stays.
    """
    count = len(replicas)
    fingerprint = sum(zlib.crc32(replica.pod.encode()) for replica in replicas)
    if before is not None and (before.count, before.fingerprint) == (count, fingerprint):
        return before
    largest = max(count, before.count) if before is not None else count
    negligible = SAME_MEMBERS * largest
    if before is not None and negligible >= 1 and abs(count - before.count) <= negligible:
        return Members(before.since_s, count, fingerprint)
    return Members(now_s, count, fingerprint)
