"""Which replicas a workload has, and since when: what moves with them is neither growth nor decline of demand."""

import math
import zlib
from collections.abc import Sequence
from dataclasses import replace

from scaler.core.observation import ReplicaReading
from scaler.core.values import value_class

# The share of the replicas that may come or go without making their difference another one's.
SAME_MEMBERS = 0.02
_LARGE = round(1 / SAME_MEMBERS)  # in a smaller pool every single one matters
_CELLS = 128


@value_class
class Members:
    """A pool's replicas as checksums of their names, which know no order. Times are Unix seconds.

    The view of a cluster changes at once, samples are up to a scrape older: until every one has been taken since the
    last change, a request that moved is counted twice, or not at all.
    """

    since_s: float  # the first look at which they were as they are
    sampled_s: float | None  # the first look at which every sample had been taken since then, None until then
    count: int
    fingerprint: int  # the sum of the checksums
    cells: str  # of a large pool: each checksum in one of some cells, so that changes can be counted

    @property
    def comparable_from_s(self) -> float:
        """The first look that can be compared with later ones."""
        return math.inf if self.sampled_s is None else self.sampled_s


def members_of(
    before: Members | None, replicas: Sequence[ReplicaReading], oldest_sample_s: float | None, now_s: float
) -> Members:
    """Return the members at a look, from those at the look before; the oldest sample is None where there is none.

    In a large pool a few that came or went since `since_s` are too few to matter; in one of under fifty every single
    one matters, also where another takes its place and the count stays.
    """
    members = before if before is not None and before.since_s <= now_s else None  # a clock may have been set back
    sums = [zlib.crc32(replica.pod.encode()) for replica in replicas]
    fingerprint = sum(sums)
    if members is None or ((members.count, members.fingerprint) != (len(sums), fingerprint) and _differ(members, sums)):
        members = Members(now_s, None, len(sums), fingerprint, _cells(sums))
    if members.sampled_s is None and oldest_sample_s is not None and oldest_sample_s >= members.since_s:
        return replace(members, sampled_s=now_s)
    return members


def _differ(members: Members, sums: Sequence[int]) -> bool:
    """Return whether more than a negligible share of the replicas came or went."""
    negligible = SAME_MEMBERS * max(members.count, len(sums))
    if not members.cells or len(sums) < _LARGE or abs(members.count - len(sums)) > negligible:
        return True
    pairs = zip(bytes.fromhex(members.cells), bytes.fromhex(_cells(sums)), strict=True)
    return sum(old != new for old, new in pairs) > _cells_hit_by(negligible)


def _cells(sums: Sequence[int]) -> str:
    """Return a large pool's checksums by cell: whoever comes or goes changes one. Of a small pool nothing is kept."""
    if len(sums) < _LARGE:
        return ""
    cells = bytearray(_CELLS)
    for each in sums:
        cells[each % _CELLS] ^= (each // _CELLS) & 0xFF | 1
    return cells.hex()


def _cells_hit_by(changes: float) -> float:
    """Return how many cells so many changes hit, some of them the same one."""
    return _CELLS * (1 - math.pow(1 - 1 / _CELLS, changes))
