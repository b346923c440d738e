"""The plan that a scaler holds, and what may still be answered from it.

Nothing here is ever turned into a number that the plan does not say: what cannot be trusted is `Refused` with a reason,
KEDA gets an error, and the HPA holds.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from scaler.adapters.keda.watch import Watch, Watchers
from scaler.core.published import Answer, Heartbeat, PlanVersion, PublishedPlan, StoredPlan
from scaler.core.values import WorkloadId
from scaler.ports import Clock

PLAN_TTL_S: Final = 300.0
EVIDENCE_TTL_S: Final = 900.0
MAX_DEPARTED: Final = 10_000


@dataclass(frozen=True, slots=True)
class Refused:
    """That there is no number for KEDA, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Activation:
    """What was last published about 0 to n: whether activation is wanted, and whether there are replicas already."""

    wanted: bool
    present: bool


@dataclass(frozen=True, slots=True)
class _Held:
    """A plan with the heartbeat that vouches for it. `said_s` is when that was said, on the monotonic clock."""

    plan: PublishedPlan
    heartbeat: Heartbeat
    said_s: float


class PlanHolder:
    """The current plan of a scaler. Reading it takes constant time; only the follower changes it.

    A plan is accepted if its (epoch, sequence) is the same or newer. It may be answered from for `ttl_s` seconds after
    its last heartbeat; the answer of a workload without evidence for `evidence_ttl_s` seconds is refused sooner.
    """

    def __init__(self, clock: Clock, *, ttl_s: float = PLAN_TTL_S, evidence_ttl_s: float = EVIDENCE_TTL_S) -> None:
        if not ttl_s > 0 or not evidence_ttl_s > 0:
            raise ValueError(f"ttl_s and evidence_ttl_s must be > 0, were {ttl_s} and {evidence_ttl_s}")
        self.clock = clock
        self.refused_plans = 0
        self.store_errors = 0
        self._ttl_s = ttl_s
        self._evidence_ttl_s = evidence_ttl_s
        self._held: _Held | None = None
        self._departed: dict[WorkloadId, Answer] = {}  # last answers of workloads that the plan no longer names
        self._no_plan = Refused("no_plan: the plan store has not been read yet")
        self._ready = asyncio.Event()
        self._watchers = Watchers()

    # What the follower reports.

    def accept(self, stored: StoredPlan) -> bool:
        """Take what the store holds. Return False, and keep what is held, for what is older or does not fit together.

        The same version again brings at most a newer heartbeat.
        """
        held, plan, beat = self._held, stored.plan, stored.heartbeat
        if beat.version != plan.version or (held is not None and plan.version < held.plan.version):
            self.refused_plans += 1
            return False
        if held is None or plan.version > held.plan.version:
            self._replace(held, _Held(plan, beat, self._said_s(beat)))
        elif beat.at_s > held.heartbeat.at_s:
            self._held = replace(held, heartbeat=beat, said_s=self._said_s(beat))
        self._ready.set()
        return True

    def nothing_stored(self) -> None:
        """Note that the store holds no plan. One that is already held keeps until its time is over."""
        self._no_plan = Refused("no_plan: no plan has been published yet")
        self._ready.set()

    def unreadable(self, message: str) -> None:
        """Note that the store cannot be read. What is held keeps until its time is over."""
        self.store_errors += 1
        self._no_plan = Refused(f"no_plan: the plan store cannot be read: {message}")

    # What the servicer asks.

    def replicas(self, workload: WorkloadId) -> int | Refused:
        """Return what KEDA is to be told, or why there is nothing to tell."""
        held = self._held
        if held is None:
            return self._no_plan
        answer = held.plan.answers.get(workload)
        if answer is None:
            return Refused(f"unknown_workload: {workload} is not in the plan")
        if untrusted := self._untrusted(held, workload):
            return untrusted
        if answer.replicas is None:
            return Refused(answer.reason)
        return answer.replicas

    def active(self, workload: WorkloadId) -> bool:
        """Return whether the workload is to have replicas at all. Unknown keeps what is; never heard of is inactive."""
        answer = self._last_answer(workload)
        if answer is None:
            return False
        trusted = not isinstance(self.replicas(workload), Refused)
        return answer.active or (answer.present and not trusted)

    def activation(self, workload: WorkloadId) -> Activation:
        """Return what was last published about activation. Age plays no part: a stream only says what was decided."""
        answer = self._last_answer(workload)
        return Activation(False, False) if answer is None else Activation(answer.active, answer.present)

    def knows(self, workload: WorkloadId) -> bool:
        """Return whether the workload is, or was, in a plan: then its settings have been valid once."""
        return self._last_answer(workload) is not None

    @contextmanager
    def watch(self, workload: WorkloadId) -> Iterator[Watch]:
        """Be woken when the activation of a workload changes."""
        with self._watchers.watch(workload) as watch:
            yield watch

    def wake_all(self) -> None:
        """Wake every watch, so that a stream looks around."""
        self._watchers.wake_all()

    # What probes and metrics ask.

    @property
    def version(self) -> PlanVersion | None:
        """The version of the plan that is held."""
        return None if self._held is None else self._held.plan.version

    @property
    def workloads(self) -> int:
        """How many workloads the plan answers for."""
        return 0 if self._held is None else len(self._held.plan.answers)

    def heartbeat_age_s(self) -> float | None:
        """Return the age of the last heartbeat in seconds; None without a plan."""
        return None if self._held is None else self._age_s(self._held)

    def ready(self) -> tuple[bool, str]:
        """Return whether KEDA may be sent here, and why: a plan is held, or none exists yet."""
        if self._held is not None:
            return True, f"holds plan {self._held.plan.version.epoch}.{self._held.plan.version.sequence}"
        return self._ready.is_set(), self._no_plan.reason

    async def wait_ready(self) -> None:
        """Wait until `ready`. It stays so: an old plan still answers what needs no number."""
        await self._ready.wait()

    def _replace(self, old: _Held | None, new: _Held) -> None:
        before = {key: self.activation(key) for key in self._watchers.workloads}
        if old is not None:
            self._note_departed(old.plan, new.plan)
        self._held = new
        self._watchers.wake([key for key, was in before.items() if self.activation(key) != was])

    def _note_departed(self, old: PublishedPlan, new: PublishedPlan) -> None:
        # A workload that a plan no longer names may still be polled. Its replicas must not go because of that.
        departed = self._departed | {key: old.answers[key] for key in set(old.answers).difference(new.answers)}
        kept = [(key, answer) for key, answer in departed.items() if key not in new.answers]
        self._departed = dict(kept[-MAX_DEPARTED:])

    def _last_answer(self, workload: WorkloadId) -> Answer | None:
        if self._held is None:
            return None
        return self._held.plan.answers.get(workload) or self._departed.get(workload)

    def _untrusted(self, held: _Held, workload: WorkloadId) -> Refused | None:
        age_s = self._age_s(held)
        if age_s > self._ttl_s:
            return Refused(f"stale_plan: last heartbeat must be <= {self._ttl_s:g} s old, was {age_s:.0f} s")
        last_evidence_s = held.heartbeat.stopped.get(workload)
        if last_evidence_s is None:
            return None
        evidence_age_s = held.heartbeat.at_s - last_evidence_s + age_s
        if evidence_age_s <= self._evidence_ttl_s:
            return None
        limit = f"{self._evidence_ttl_s:g} s"
        return Refused(f"stopped_evidence: evidence must be <= {limit} old, was {evidence_age_s:.0f} s")

    def _said_s(self, beat: Heartbeat) -> float:
        # By its own time when loaded, monotonic from then on. One from the future is as doubtful as one from the past.
        return self.clock.monotonic_s() - abs(self.clock.now_s() - beat.at_s)

    def _age_s(self, held: _Held) -> float:
        return self.clock.monotonic_s() - held.said_s
