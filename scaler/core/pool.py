"""A workload's replicas as one pool: who can be believed, and each signal summed over those who can.

Every replica gets one standing. A replica that cannot be believed counts as zero for scaling up and at target (or as
the mean of the others, whichever is more) for scaling down. So no silence, freeze or stall ever makes a pool look
idle.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter

from scaler.config.models import DecisionSettings
from scaler.core.observation import ReplicaReading, WorkloadObservation
from scaler.core.values import BENIGN, Frozen, Known, Missing, Reading, Reason, value_of


class Standing(StrEnum):
    """Whether a replica's own word is taken."""

    BELIEVED = "believed"
    SILENT = "silent"  # its load is not known
    FROZEN = "frozen"  # claims work, and no counter has moved for long
    STALLED = "stalled"  # requests wait, nothing runs, the GPU is idle: more replicas are not the answer
    DISPUTED = "disputed"  # says idle while its GPU is busy, or while its GPU cannot be seen


@dataclass(frozen=True, slots=True)
class Pooled:
    """One signal over the ready replicas: what the believed ones report, and how many do not.

    `total` sums the known values, `claimed` those of disputed replicas, which may only scale up; the claimants are
    among the unknown. `reason` is why one of the unknown ones is unknown.
    """

    total: float
    claimed: float
    known: int
    claimants: int
    unknown: int
    reason: Reason
    age_s: float

    @property
    def absent(self) -> bool:
        """No replica says anything."""
        return self.known + self.claimants == 0

    @property
    def gap(self) -> bool:
        """Some value that should be known is not."""
        return self.unknown > 0 and self.reason not in BENIGN

    def up(self) -> Reading:
        """Return the sum with unknown replicas at zero."""
        return Missing(self.reason) if self.absent else Known(self.total + self.claimed, self.age_s)

    def mean(self) -> Reading:
        """Return the mean over the replicas that say something."""
        if self.absent:
            return Missing(self.reason)
        return Known((self.total + self.claimed) / (self.known + self.claimants), self.age_s)

    def down(self, at_target: float, *, hold_share: float) -> Reading:
        """Return the sum with unknown replicas at `at_target` each, or at the mean of the known ones if that is more.

        Missing when no value is known, or when more than `hold_share` of the replicas are unknown: then nothing may
        fall.
        """
        if self.known == 0 or (self.gap and self.unknown > hold_share * (self.known + self.unknown)):
            return Missing(self.reason)
        return Known(self.total + self.unknown * max(at_target, self.total / self.known), self.age_s)


@dataclass(frozen=True, slots=True)
class Pool:
    """The ready replicas of a workload, or the queue that it consumes, as sums."""

    ready: int
    standings: Mapping[Standing, int]
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
    kv_p90: Reading

    def signals(self) -> dict[str, Pooled]:
        """Return the pooled signals by name, in a fixed order."""
        return {name: getattr(self, name) for name in SIGNALS}


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
)  # fmt: skip


def pool_replicas(observation: WorkloadObservation, decision: DecisionSettings) -> Pool:
    """Pool the replicas of one workload. The order of replicas does not matter."""
    standings = [judge(replica, decision) for replica in observation.replicas]
    rows = [_readings_of(replica) for replica in observation.replicas]
    columns = zip(*rows, strict=True) if rows else ((),) * len(SIGNALS)
    signals = {name: _pool_signal(column, standings) for name, column in zip(SIGNALS, columns, strict=True)}
    return Pool(
        ready=len(standings),
        standings=Counter(standings),
        kv_p90=_p90(observation.replicas, standings, signals["kv_usage"].reason),
        **signals,
    )


def _p90(replicas: Sequence[ReplicaReading], standings: Sequence[Standing], reason: Reason) -> Reading:
    """Return the 90th percentile (lower) of KV usage over the believed replicas."""
    pairs = zip(replicas, standings, strict=True)
    kv = sorted(r.kv_usage.value for r, s in pairs if s is Standing.BELIEVED and isinstance(r.kv_usage, Known))
    return Known(kv[(9 * (len(kv) - 1)) // 10]) if kv else Missing(reason)


def judge(replica: ReplicaReading, decision: DecisionSettings) -> Standing:
    """Say whether a replica's word is taken; docs/decision.md has the reasons."""
    running, waiting = value_of(replica.running), value_of(replica.waiting)
    if running is None or waiting is None:
        return Standing.SILENT
    still = value_of(replica.still_s)
    motionless = still is not None and still >= decision.frozen_after_s
    if motionless and (running > 0 or (value_of(replica.kv_usage) or 0) > 0):
        return Standing.FROZEN
    if running > 0:
        return Standing.BELIEVED
    gpu = replica.gpu_activity
    if waiting > 0:
        gpu_idle = gpu.value < decision.gpu_idle_below if isinstance(gpu, Known) else motionless
        return Standing.STALLED if gpu_idle else Standing.DISPUTED
    if isinstance(gpu, Known):
        return Standing.DISPUTED if gpu.value > decision.gpu_busy_above else Standing.BELIEVED
    benign = isinstance(gpu, Missing) and gpu.reason in BENIGN
    return Standing.BELIEVED if benign else Standing.DISPUTED


_STANDING_REASONS = {
    Standing.FROZEN: Reason.FROZEN,
    Standing.STALLED: Reason.STALLED,
    Standing.DISPUTED: Reason.DISPUTED,
}
_readings_of = attrgetter(*SIGNALS)


def _pool_signal(readings: Sequence[Reading], standings: Sequence[Standing]) -> Pooled:
    """Pool one signal. Runs ten times per replica and tick, so it keeps to plain loops and types."""
    total = claimed = age = 0.0
    known = claimants = 0
    reasons: set[Reason] = set()
    for reading, standing in zip(readings, standings, strict=True):
        if type(reading) is not Known:
            reasons.add(reading.reason if type(reading) is Missing else _reason(reading))
        elif standing is Standing.BELIEVED:
            total, known = total + reading.value, known + 1
            age = reading.age_s if reading.age_s > age else age  # noqa: FURB136  # max() costs as much as the rest
        else:
            reasons.add(_STANDING_REASONS.get(standing, Reason.SILENT))
            if standing is Standing.DISPUTED:
                claimed, claimants = claimed + reading.value, claimants + 1
                age = reading.age_s if reading.age_s > age else age  # noqa: FURB136  # as above
    return Pooled(total, claimed, known, claimants, len(readings) - known, _worst(reasons), age)


def _reason(reading: Reading) -> Reason:
    return Reason.FROZEN if isinstance(reading, Frozen) else Reason.STALE


def _worst(reasons: set[Reason]) -> Reason:
    """Name one reason for many: a gap before a benign absence, then by name, whatever the order of replicas."""
    if len(reasons) == 1:
        return next(iter(reasons))
    return min(reasons, key=lambda r: (r in BENIGN, r), default=Reason.NO_REPLICAS)
