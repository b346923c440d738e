"""Readings by query profiles: what engines and queues of the platform's own expose, in PromQL of the platform's file.

The text is trusted to be PromQL, and not to be right. A signal whose query fails, or whose answer cannot be believed,
is Missing and told under the profile's name; the other signals still count. Rows about anything that does not use the
profile are dropped. A query hides how old its samples are, by up to five minutes: `sampledAt` tells it for each owner;
without it the newest sample of `up` shows at least that the server itself still takes samples in.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from scaler.adapters.collection import SourceFailure
from scaler.config.models import DecisionSettings, SourceRef, WorkloadSettings
from scaler.config.profiles import ProfileKind, QueryProfile
from scaler.core.observation import QueueReading, ReplicaReading
from scaler.core.values import Known, Missing, Reading, Reason, Stale
from scaler.ports import QuerySource, SourceError, VectorBatch

Owner = tuple[str, str]
_MOST = 1e12  # no count, rate or time comes near it
_SHARES = frozenset({"kv_usage", "gpu_activity"})
_ROUNDING = 1e-9
_MAX_ROWS = 10_000  # of one answer; or ten times the owners that there can be, if that is more
_MAX_ROWS_PER_OWNER = 10
_SAMPLED_AT = "sampledAt"
_INTAKE = "time() - max(timestamp(up))"
_NOT_EXPORTED = Missing(Reason.NOT_EXPORTED)
_NOT_CONFIGURED = Missing(Reason.NOT_CONFIGURED)
# What a source's share is of; the messages that one consumer may hold are not.
_SHARED = frozenset({"waiting", "unacked", "consumers", "arrivals_rps", "completions_rps"})


@dataclass(frozen=True, slots=True)
class _Answer:
    """The values of one query by owner; owners that it names twice have None. `absent`: nothing is known, and why."""

    values: Mapping[Owner, float | None] = field(default_factory=dict)
    absent: Reason | None = None

    def of(self, owner: Owner) -> float | Reason:
        """Return an owner's value, or why there is none."""
        if self.absent is not None:
            return self.absent
        if owner not in self.values:
            return Reason.NO_SERIES
        value = self.values[owner]
        return Reason.INVALID_VALUE if value is None else value


@dataclass(frozen=True, slots=True)
class _Answers:
    """What one profile's queries brought: its signals by field, and the ages of samples by owner, or of the server."""

    signals: Mapping[str, _Answer]
    ages: _Answer
    per_owner: bool
    stale_after_s: float

    def reading(self, owner: Owner, name: str, scale: float) -> Reading:
        """Return the reading of one signal of one owner."""
        value = self.signals[name].of(owner)
        if isinstance(value, Reason):
            return Missing(value)
        age = self._age(owner)
        return _believed(name, value * scale, age.age_s) if isinstance(age, Known) else age

    def _age(self, owner: Owner) -> Reading:
        age_s = self.ages.of(owner if self.per_owner else _SERVER)
        if isinstance(age_s, Reason):
            return Missing(age_s)
        if not math.isfinite(age_s) or age_s < -self.stale_after_s:
            return Missing(Reason.INVALID_VALUE)
        return Stale(age_s) if age_s > self.stale_after_s else Known(age_s, max(0.0, age_s))


_SERVER: Owner = ("", "")


@dataclass(frozen=True, slots=True)
class ProfileAnswers:
    """What the queries of all profiles in use brought in one tick."""

    _profiles: Mapping[str, QueryProfile]
    _answers: Mapping[str, _Answers]

    def replicas(self, engine: str, pods: Collection[Owner]) -> dict[Owner, ReplicaReading]:
        """Return the readings of pods (namespace, name) of an engine that is a profile. One without rows is silent."""
        return {pod: self._replica(engine, pod) for pod in pods}

    def queue(self, workload: WorkloadSettings) -> QueueReading | None:
        """Return the reading of a workload's queue; None where its demand is not a profile's."""
        ref = workload.demand_source
        if ref is None or (answers := self._answers.get(ref.preset)) is None:
            return None
        profile = self._profiles[ref.preset]
        if profile.kind is not ProfileKind.QUEUE:
            return None
        readings = {
            name: _shared(answers.reading(ref.identity, name, signal.scale), name, ref.share)
            for name, signal in profile.readings.items()
        }
        unknown = dict.fromkeys(("waiting", "unacked", "consumers", "arrivals_rps", "completions_rps"), _NOT_EXPORTED)
        prefetch = _prefetch(workload, ref, readings.pop("prefetch", _NOT_CONFIGURED))
        return QueueReading(prefetch=prefetch, **(unknown | readings))

    def _replica(self, engine: str, pod: Owner) -> ReplicaReading:
        if (answers := self._answers.get(engine)) is None:  # not one of the file's profiles (any more)
            return ReplicaReading(pod[1], Missing(Reason.NO_SERIES), Missing(Reason.NO_SERIES))
        profile = self._profiles[engine]
        # Where work waits in a queue, the pods themselves say nothing.
        signals = profile.readings if profile.kind is ProfileKind.POD else {}
        readings = {name: answers.reading(pod, name, signal.scale) for name, signal in signals.items()}
        return ReplicaReading(pod=pod[1], **({"running": _NOT_EXPORTED, "waiting": _NOT_EXPORTED} | readings))


class ProfileCollector:
    """Asks the queries of the profiles in use, once a tick, whatever the number of workloads.

    `failures`, `queries` and `rows` are those of the last tick.
    """

    def __init__(self, source: QuerySource, decision: DecisionSettings, profiles: Iterable[QueryProfile]) -> None:
        """Ask `source`, which stays the caller's."""
        self._source = source
        self._decision = decision
        self._profiles = {profile.preset: profile for profile in profiles}
        self.failures: tuple[SourceFailure, ...] = ()
        self.queries = 0
        self.rows = 0

    async def answers(self, workloads: Sequence[WorkloadSettings], now_s: float) -> ProfileAnswers:
        """Ask for all workloads. Raises nothing: what fails is Missing."""
        round_ = _Round(self._source, now_s)
        owners = _owners_of(workloads)
        used = [profile for name, profile in self._profiles.items() if name in owners]
        intake = await round_.intake() if any(profile.sampled_at is None for profile in used) else _Answer()
        found = await asyncio.gather(*(self._ask(round_, p, intake, _most_rows(owners[p.preset])) for p in used))
        self.failures, self.queries, self.rows = tuple(round_.failures), round_.queries, round_.rows
        answers = {profile.preset: answer for profile, answer in zip(used, found, strict=True)}
        return ProfileAnswers(self._profiles, answers)

    async def _ask(self, round_: "_Round", profile: QueryProfile, intake: _Answer, most_rows: int) -> _Answers:
        queries = {name: signal.query for name, signal in profile.readings.items()}
        if profile.sampled_at is not None:
            # On lines of its own: the text may end in a comment.
            queries[_SAMPLED_AT] = f"time() - (\n{profile.sampled_at}\n)"
        found = await asyncio.gather(*(round_.ask(profile, name, text, most_rows) for name, text in queries.items()))
        answers = dict(zip(queries, found, strict=True))
        ages = answers.pop(_SAMPLED_AT, intake)
        return _Answers(answers, ages, profile.sampled_at is not None, self._decision.stale_after_s)


class _Round:
    """The questions of one tick, and what became of them."""

    def __init__(self, source: QuerySource, now_s: float) -> None:
        self._source = source
        self._now_s = now_s
        self.failures: list[SourceFailure] = []
        self.queries = 0
        self.rows = 0

    async def intake(self) -> _Answer:
        """Ask how old the newest sample of all is: a server that takes nothing in goes on answering for minutes."""
        batch = await self._vector("profiles", "up", _INTAKE)
        if not isinstance(batch, VectorBatch):
            return batch
        if not batch.rows:
            message = "no series, and without sampledAt nothing else tells how old samples are"
            return self._failed("profiles", "up", Reason.NO_SERIES, message)
        return _Answer({_SERVER: batch.rows[0][1]})

    async def ask(self, profile: QueryProfile, signal: str, query: str, most_rows: int) -> _Answer:
        """Ask one query, and sort its rows by owner."""
        batch = await self._vector(profile.preset, signal, query)
        if not isinstance(batch, VectorBatch):
            return batch
        if len(batch.rows) > most_rows:
            message = f"an answer must have at most {most_rows} rows, had {len(batch.rows)}"
            return self._failed(profile.preset, signal, Reason.INVALID_VALUE, message)
        try:
            return self._sorted(profile, signal, batch)
        except (TypeError, ValueError, AttributeError) as error:
            return self._failed(profile.preset, signal, Reason.INVALID_VALUE, f"{type(error).__name__}: {error}")

    async def _vector(self, what: str, signal: str, query: str) -> VectorBatch | _Answer:
        self.queries += 1
        try:
            batch = await self._source.vector(query, self._now_s)
        except SourceError as error:
            return self._failed(what, signal, error.reason, str(error))
        except Exception as error:  # noqa: BLE001  # the loop's edge: the other signals still count
            return self._failed(what, signal, Reason.SOURCE_DOWN, f"unexpected {type(error).__name__}: {error}")
        self.rows += len(batch.rows)
        if batch.partial:
            return self._failed(what, signal, Reason.PARTIAL_ANSWER, "; ".join(batch.partial))
        return batch

    def _sorted(self, profile: QueryProfile, signal: str, batch: VectorBatch) -> _Answer:
        first, second = profile.labels
        owners = [(labels.get(first, ""), labels.get(second, "")) for labels, _ in batch.rows]
        values: dict[Owner, float | None] = {
            owner: value for owner, (_, value) in zip(owners, batch.rows, strict=True) if all(owner)
        }
        twice = [owner for owner, count in Counter(owners).items() if count > 1 and all(owner)]
        if twice:
            values |= dict.fromkeys(twice)
            self._failed(profile.preset, signal, Reason.INVALID_VALUE, f"{len(twice)} owners have two rows or more")
        if owners and not values:
            message = f"no row has both labels, {first} and {second}"
            return self._failed(profile.preset, signal, Reason.INVALID_VALUE, message)
        return _Answer(values)

    def _failed(self, what: str, signal: str, reason: Reason, message: str) -> _Answer:
        self.failures.append(SourceFailure(what, reason, f"{signal}: {message}"))
        return _Answer(absent=reason)


def _owners_of(workloads: Iterable[WorkloadSettings]) -> Counter[str]:
    """Return how many owners there can be by preset: replicas by engine, queues by where demand is seen."""
    owners: Counter[str] = Counter()
    for workload in workloads:
        owners[workload.engine] += workload.max_replicas
        if workload.demand_source is not None:
            owners[workload.demand_source.preset] += 1
    return owners


def _most_rows(owners: int) -> int:
    """Return how many rows an answer may have: far more than there are owners is grouped by something else."""
    return max(_MAX_ROWS, _MAX_ROWS_PER_OWNER * owners)


def _believed(name: str, value: float, age_s: float) -> Reading:
    most = 1.0 if name in _SHARES else _MOST
    if not value <= most * (1 + _ROUNDING):  # NaN and infinity too; above 1 is an error, and not a percentage
        return Missing(Reason.INVALID_VALUE)
    return Missing(Reason.NEGATIVE) if value < 0 else Known(value, age_s)


def _shared(reading: Reading, name: str, share: float) -> Reading:
    return Known(reading.value * share, reading.age_s) if isinstance(reading, Known) and name in _SHARED else reading


def _prefetch(workload: WorkloadSettings, ref: SourceRef, measured: Reading) -> Reading:
    """Return what one consumer may hold. A worker's slots are its prefetch where each replica is one consumer."""
    said = workload.slots_per_replica or ref.prefetch
    return measured if said is None else Known(float(said))
