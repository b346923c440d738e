"""Whatever happens, in whatever order: versions never go back, and what is not known is never a number."""

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from scaler.adapters.keda.holder import EVIDENCE_TTL_S, PLAN_TTL_S, PlanHolder, Refused
from scaler.core.published import Answer, StoredPlan
from scaler.core.values import WorkloadId
from tests.scaler_rig import ManualClock, stored

WORKLOADS = [WorkloadId(namespace, name) for namespace in ("a", "b") for name in ("x", "y")]

answers = st.dictionaries(
    st.sampled_from(WORKLOADS),
    st.builds(
        Answer,
        replicas=st.none() | st.integers(0, 5),
        reason=st.sampled_from(["reactive", "source_down"]),
        active=st.booleans(),
        present=st.booleans(),
    ),
)
versions = st.tuples(st.integers(0, 2), st.integers(0, 6))
ages = st.floats(-400, 1200)
stopped_ages = st.dictionaries(st.sampled_from(WORKLOADS), st.floats(0, 1200))


class Holder(RuleBasedStateMachine):
    """Drives a holder beside a model: the newest plan offered, and when its newest heartbeat was said."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.holder = PlanHolder(self.clock)
        self.newest: StoredPlan | None = None
        self.said_s = 0.0
        self.last_active: dict[WorkloadId, Answer] = {}

    @rule(answers=answers, version=versions, age_s=ages, stopped=stopped_ages)
    def publish(
        self,
        answers: dict[WorkloadId, Answer],
        version: tuple[int, int],
        age_s: float,
        stopped: dict[WorkloadId, float],
    ) -> None:
        """Offer a plan of any version whose heartbeat is of any age."""
        at_s = self.clock.now_s() - age_s
        evidence = {key: at_s - evidence_age_s for key, evidence_age_s in stopped.items()}
        self._offer(stored(answers, version=version, at_s=at_s, stopped=evidence))

    @rule(age_s=ages)
    def beat(self, age_s: float) -> None:
        """Offer the newest plan again with another heartbeat."""
        if self.newest is not None:
            at_s = self.clock.now_s() - age_s
            self._offer(replace(self.newest, heartbeat=replace(self.newest.heartbeat, at_s=at_s)))

    @rule()
    def nothing_stored(self) -> None:
        """Find the store empty, or empty again."""
        self.holder.nothing_stored()

    @rule()
    def unreadable(self) -> None:
        """Fail to read the store."""
        self.holder.unreadable("disk is gone")

    @rule(seconds=st.floats(0, 400))
    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.advance(seconds)

    @rule(seconds=st.floats(-4000, 4000))
    def step(self, seconds: float) -> None:
        """Set the wall clock."""
        self.clock.step(seconds)

    def _offer(self, offered: StoredPlan) -> None:
        newest = self.newest
        accepted = self.holder.accept(offered)
        assert accepted == (newest is None or offered.plan.version >= newest.plan.version)
        if not accepted:
            return
        if newest is None or offered.plan.version > newest.plan.version:
            self.newest = offered
        elif offered.heartbeat.at_s > newest.heartbeat.at_s:
            self.newest = StoredPlan(newest.plan, offered.heartbeat)
        else:
            return
        self.said_s = self.clock.monotonic_s() - abs(self.clock.now_s() - offered.heartbeat.at_s)
        self.last_active |= self.newest.plan.answers

    def _may_answer(self, workload: WorkloadId) -> bool:
        if self.newest is None:
            return False
        age_s = self.clock.monotonic_s() - self.said_s
        beat = self.newest.heartbeat
        last_evidence_s = beat.stopped.get(workload, beat.at_s)
        return age_s <= PLAN_TTL_S and beat.at_s - last_evidence_s + age_s <= EVIDENCE_TTL_S

    @invariant()
    def the_version_is_the_newest(self) -> None:
        """Hold the newest plan that was ever offered."""
        assert self.holder.version == (None if self.newest is None else self.newest.plan.version)

    @invariant()
    def a_number_is_one_that_was_published(self) -> None:
        """Give a number only where the newest plan says it and may be trusted; refuse all else."""
        for workload in WORKLOADS:
            told = self.holder.replicas(workload)
            published = None if self.newest is None else self.newest.plan.answers.get(workload)
            if published is None or published.replicas is None or not self._may_answer(workload):
                assert isinstance(told, Refused)
                assert told.reason
            else:
                assert told == published.replicas

    @invariant()
    def activity_keeps_what_is(self) -> None:
        """Keep what was wanted until a plan says otherwise, and give up replicas only on a trusted answer."""
        for workload in WORKLOADS:
            last = self.last_active.get(workload)
            refused = isinstance(self.holder.replicas(workload), Refused)
            expected = last is not None and (last.active or (refused and last.present))
            assert self.holder.active(workload) is expected


TestHolder = Holder.TestCase
