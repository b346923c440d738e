"""A workload's replicas as one pool: who can be believed, and each signal summed over those who can.

Every replica gets one standing. A replica that cannot be believed counts as zero for scaling up and at target (or as
the mean of the others, whichever is more) for scaling down. So no silence, freeze or stall ever makes a pool look
idle.

This is the inner loop of a tick (eleven signals of a hundred thousand replicas), hence what it keeps to: whole columns
that are known, or absent for one reason, take a short way; members of enums are looked up once; the sums are not
frozen, which would cost three times as much to make.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from operator import attrgetter

from scaler.config.models import DecisionSettings
from scaler.core.observation import ReplicaReading
from scaler.core.values import BENIGN, Frozen, Known, Missing, Reading, Reason, value_of


class Standing(StrEnum):
    """Whether a replica's own word is taken."""

    BELIEVED = "believed"
    SILENT = "silent"  # its load is not known
    FROZEN = "frozen"  # claims work, and no counter has moved for long
    STALLED = "stalled"  # requests wait, nothing runs, the GPU is idle: more replicas are not the answer
    DISPUTED = "disputed"  # says idle while its GPU is busy, or while its GPU cannot be seen


_BELIEVED, _SILENT, _DISPUTED = Standing.BELIEVED, Standing.SILENT, Standing.DISPUTED
_STANDING_REASONS = {
    _SILENT: Reason.SILENT,
    Standing.FROZEN: Reason.FROZEN,
    Standing.STALLED: Reason.STALLED,
    _DISPUTED: Reason.DISPUTED,
}
_NO_REPLICAS = Reason.NO_REPLICAS


@dataclass(slots=True)
class Pooled:
    """One signal over the ready replicas: what the believed ones report, and how many do not.

    `total` sums the known values, `claimed` those of disputed replicas, which may only scale up; the claimants are
    among the unknown. `reason` is why one of the unknown ones is unknown; it is a `gap` where some value that should be
    known is not. `up` is the sum with unknown replicas at zero, as a reading as old as the oldest of them.
    """

    total: float
    claimed: float
    known: int
    claimants: int
    unknown: int
    reason: Reason
    gap: bool
    up: Reading

    @property
    def absent(self) -> bool:
        """No replica says anything."""
        return self.known + self.claimants == 0

    def mean(self) -> Reading:
        """Return the mean over the replicas that say something."""
        if not isinstance(self.up, Known):
            return self.up
        return Known(self.up.value / (self.known + self.claimants), self.up.age_s)

    def down(self, at_target: float, *, hold_share: float) -> Reading:
        """Return the sum with unknown replicas at `at_target` each, or at the mean of the known ones if that is more.

        Missing when no value is known, or when more than `hold_share` of the replicas are unknown: then nothing may
        fall. OverflowError when no float holds the sum.
        """
        if self.total == inf:
            raise OverflowError("a sum over replicas must be finite, was inf")
        if not self.unknown:
            return self.up
        if self.known == 0 or (self.gap and self.unknown > hold_share * (self.known + self.unknown)):
            return Missing(self.reason)
        age_s = self.up.age_s if isinstance(self.up, Known) else 0.0
        return Known(self.total + self.unknown * max(at_target, self.total / self.known), age_s)


@dataclass(slots=True)
class Pool:
    """The ready replicas of a workload, or the queue that it consumes, as sums."""

    ready: int
    standings: Mapping[Standing, int]
    kv_p90: Reading
    running: Pooled
    waiting: Pooled
    kv_usage: Pooled
    completions_rps: Pooled
    prompt_tokens_rps: Pooled
    output_tokens_rps: Pooled
    preemptions_rps: Pooled
    rejections_rps: Pooled
    queue_time_s: Pooled
    gpu_activity: Pooled
    slots: Pooled

    def gaps(self) -> list[tuple[str, Pooled]]:
        """Return the signals of which some value should be known and is not, by name, in a fixed order."""
        signals = _signals_of(self)
        if not any(map(_gap_of, signals)):
            return []
        return [(name, signal) for name, signal in zip(SIGNALS, signals, strict=True) if signal.gap]


SIGNALS = (
    "running",
    "waiting",
    "kv_usage",
    "completions_rps",
    "prompt_tokens_rps",
    "output_tokens_rps",
    "preemptions_rps",
    "rejections_rps",
    "queue_time_s",
    "gpu_activity",
    "slots",
)  # fmt: skip
_signals_of = attrgetter(*SIGNALS)
_gap_of = attrgetter("gap")
_KV_USAGE = SIGNALS.index("kv_usage")


def pool_replicas(replicas: Sequence[ReplicaReading], decision: DecisionSettings) -> Pool:
    """Pool the replicas of one workload. The order of replicas does not matter."""
    standings = [judge(replica, decision) for replica in replicas]
    columns = list(zip(*map(_signals_of, replicas), strict=True)) if replicas else [()] * len(SIGNALS)
    if standings.count(_BELIEVED) == len(standings):
        signals = [_pool_believed(column) for column in columns]
        counted: Mapping[Standing, int] = {_BELIEVED: len(standings)} if standings else {}
    else:
        signals = [_pool_signal(column, standings) for column in columns]
        counted = Counter(standings)
    p90 = _p90(columns[_KV_USAGE], standings, signals[_KV_USAGE])
    return Pool(len(standings), counted, p90, *signals)


def _p90(readings: Sequence[Reading], standings: Sequence[Standing], pooled: Pooled) -> Reading:
    """Return the 90th percentile (lower) of KV usage over the believed replicas."""
    if not pooled.known:
        return Missing(pooled.reason)
    if pooled.unknown:
        pairs = zip(readings, standings, strict=True)
        readings = [reading for reading, standing in pairs if standing is _BELIEVED]
    kv = sorted([r.value for r in readings if isinstance(r, Known)])
    return Known(kv[(9 * (len(kv) - 1)) // 10])


def judge(replica: ReplicaReading, decision: DecisionSettings) -> Standing:
    """Say whether a replica's word is taken; docs/decision.md has the reasons."""
    running, waiting, still = replica.running, replica.waiting, replica.still_s
    if not (isinstance(running, Known) and isinstance(waiting, Known)):
        return _SILENT
    motionless = isinstance(still, Known) and still.value >= decision.frozen_after_s
    if running.value > 0:
        return Standing.FROZEN if motionless else _BELIEVED
    if motionless and (value_of(replica.kv_usage) or 0) > 0:
        return Standing.FROZEN
    gpu = replica.gpu_activity
    if waiting.value > 0:
        gpu_idle = gpu.value < decision.gpu_idle_below if isinstance(gpu, Known) else motionless
        return Standing.STALLED if gpu_idle else _DISPUTED
    if isinstance(gpu, Known):
        return _DISPUTED if gpu.value > decision.gpu_busy_above else _BELIEVED
    benign = isinstance(gpu, Missing) and gpu.reason in BENIGN
    return _BELIEVED if benign else _DISPUTED


def _pool_believed(readings: Sequence[Reading]) -> Pooled:
    """Pool one signal of replicas that are all believed."""
    first = readings[0] if readings else None
    if isinstance(first, Missing) and readings.count(first) == len(readings):
        return Pooled(0.0, 0.0, 0, 0, len(readings), first.reason, first.reason not in BENIGN, first)
    total = age_s = 0.0
    for reading in readings:
        if not isinstance(reading, Known):
            return _pool_signal(readings, [_BELIEVED] * len(readings))
        total += reading.value
        if reading.age_s > age_s:  # noqa: PLR1730  # max() costs as much as all the rest
            age_s = reading.age_s
    up = Known(total, age_s) if readings else Missing(_NO_REPLICAS)
    return Pooled(total, 0.0, len(readings), 0, 0, _NO_REPLICAS, False, up)


def _pool_signal(readings: Sequence[Reading], standings: Sequence[Standing]) -> Pooled:
    """Pool one signal of replicas of any standing."""
    total = claimed = age_s = 0.0
    known = claimants = 0
    reasons: set[Reason] = set()
    for reading, standing in zip(readings, standings, strict=True):
        if not isinstance(reading, Known):
            reasons.add(reading.reason if isinstance(reading, Missing) else _reason(reading))
        elif standing is _BELIEVED:
            total, known = total + reading.value, known + 1
            age_s = max(age_s, reading.age_s)
        else:
            reasons.add(_STANDING_REASONS[standing])
            if standing is _DISPUTED:
                claimed, claimants = claimed + reading.value, claimants + 1
                age_s = max(age_s, reading.age_s)
    reason = _worst(reasons)
    up = Known(total + claimed, age_s) if known + claimants else Missing(reason)
    unknown = len(readings) - known
    return Pooled(total, claimed, known, claimants, unknown, reason, unknown > 0 and reason not in BENIGN, up)


def _reason(reading: Reading) -> Reason:
    return Reason.FROZEN if isinstance(reading, Frozen) else Reason.STALE


def _worst(reasons: set[Reason]) -> Reason:
    """Name one reason for many: a gap before a benign absence, then by name, whatever the order of replicas."""
    if len(reasons) == 1:
        return next(iter(reasons))
    return min(reasons, key=lambda r: (r in BENIGN, r), default=_NO_REPLICAS)
