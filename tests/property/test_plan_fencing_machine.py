"""Any interleaving of two controllers, their Lease, a store that answers late and a reader: the plan never goes back.

The controllers are as careless as they may be: they publish while they only believe that they lead, their writes stall
and arrive much later, they die half-way. What must hold is the store's and the Lease's doing.
"""

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from scaler.adapters.kubernetes.lease import LeaseLeadership, LeaseSettings
from scaler.core.published import Heartbeat, PlanVersion, PublishedPlan
from scaler.core.values import WorkloadId
from scaler.ports import StoreError
from tests.api_rig import config_map_store, connected
from tests.api_server_double import ApiServerDouble, Fault
from tests.scaler_rig import START_S, ManualClock, answer

WORKLOADS = [WorkloadId("shop", f"model-{number}") for number in range(12)]
WHO = st.sampled_from([0, 1])
LIMIT_S = 60.0


class Candidate:
    """A controller: it remembers the epoch in which it last led, and goes on believing in it when it should not."""

    def __init__(self, rig: "Fencing", number: int) -> None:
        self.api = rig.stack.enter_context(connected(rig.server, rig.clock))
        self.store = rig.stack.enter_context(config_map_store(self.api, f"c{number}", shards=3))
        self.lease = LeaseLeadership(
            self.api, LeaseSettings("headway"), f"c{number}", stored_epoch=self.store.stored_epoch
        )
        self.believed: int | None = None
        self.sequence = 0
        self.version: PlanVersion | None = None  # last published, as far as it knows
        self.writing: Future[bool] | None = None

    def believe(self) -> None:
        if self.lease.leading and self.lease.epoch != self.believed:
            self.believed, self.sequence, self.version = self.lease.epoch, 0, None


class Fencing(RuleBasedStateMachine):
    """Two candidates, one of which may have a write under way, and a reader."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.server = self.stack.enter_context(ApiServerDouble())
        self.clock = ManualClock()
        self.threads = self.stack.enter_context(ThreadPoolExecutor(2))
        self.runner = self.stack.enter_context(asyncio.Runner())
        self.made = 0
        self.contents: dict[PlanVersion, int] = {}  # what was handed to a store under each version
        self.candidates = [self._candidate(), self._candidate()]
        self.api = self.stack.enter_context(connected(self.server, self.clock))
        self.reader = self.stack.enter_context(config_map_store(self.api, "scaler"))
        self.token: object = None
        self.newest = PlanVersion(-1, 0)
        self.stalled: Fault | None = None
        self.attempt(0)

    def _candidate(self) -> Candidate:
        self.made += 1
        return Candidate(self, self.made)

    def teardown(self) -> None:
        self.arrive()
        self.stack.close()

    @rule(who=WHO)
    def attempt(self, who: int) -> None:
        """Try to acquire or renew; whoever leads then begins its epoch."""
        if self._free(who):
            self.candidates[who].lease.attempt()
            self.candidates[who].believe()

    @rule(seconds=st.sampled_from([1.0, 6.0, 16.0]))
    def advance(self, seconds: float) -> None:
        """Let time pass, in which nobody who does nothing renews: a pause."""
        self.clock.advance(seconds)

    @rule(who=WHO)
    def take_over(self, who: int) -> None:
        """See the Lease run out, and take it; the other does not know yet."""
        for _ in range(2):
            self.clock.advance(16.0)
            self.attempt(who)

    @rule(who=WHO, moved=st.integers(0, 11), only=st.booleans())
    def publish(self, who: int, moved: int, only: bool) -> None:
        """Publish what was believed to be ours to publish, whether or not it still is."""
        who = self._believer(who)
        if self._free(who) and (item := self._next_plan(who, moved, only)):
            self._write(who, *item)

    @rule(who=WHO, seconds=st.integers(0, 100))
    def beat(self, who: int, seconds: int) -> None:
        """Vouch for what was last published."""
        candidate = self.candidates[self._believer(who)]
        if candidate.writing is None and candidate.version is not None:
            try:
                self.runner.run(candidate.store.beat(Heartbeat(candidate.version, START_S + seconds, {})))
            except StoreError:
                candidate.version = None

    @precondition(lambda self: self.stalled is None)
    @rule(who=WHO, moved=st.integers(0, 11), only=st.booleans(), skip=st.integers(0, 4))
    def stall(self, who: int, moved: int, only: bool, skip: int) -> None:
        """Publish with a write that stays under way."""
        who = self._believer(who)
        if (item := self._next_plan(who, moved, only)) is None:
            return
        fault = self.stalled = self.server.fail("stall", path="headway-plan", times=1, skip=skip)
        writing = self.candidates[who].writing = self.threads.submit(self._write_alone, who, *item)
        while not fault.hit.wait(0.001):
            if writing.done():  # there were not so many requests
                self.arrive()
                return

    @rule()
    def arrive(self) -> None:
        """Let what is under way arrive, and its writer go on."""
        if self.stalled is not None:
            self.stalled.released.set()
            self.server.faults.remove(self.stalled)
            self.stalled = None
        for candidate in self.candidates:
            if candidate.writing is not None:
                candidate.writing.result(LIMIT_S)
                candidate.writing = None

    @rule(who=WHO)
    def crash(self, who: int) -> None:
        """Die and start again as another process, with nothing remembered; what is under way arrives later."""
        if self._free(who):
            self.candidates[who] = self._candidate()

    @rule(who=WHO, skip=st.integers(0, 4), moved=st.integers(0, 11), kind=st.sampled_from(["refuse", "lost", "cut"]))
    def die_half_way(self, who: int, skip: int, moved: int, kind: str) -> None:
        """Fail in the middle of a plan, with some of it written."""
        who = self._believer(who)
        if self._free(who) and (item := self._next_plan(who, moved, only=False)):
            fault = self.server.fail(kind, path="headway-plan", skip=skip)
            self._write(who, *item)
            self.server.faults.remove(fault)

    @rule(who=WHO)
    def release(self, who: int) -> None:
        """Stop in an orderly way, and start again."""
        if self._free(who):
            self.candidates[who].lease.stop()
            self.candidates[who] = self._candidate()

    @rule()
    def look(self) -> None:
        """Look as a scaler does; its token says when there is nothing new."""
        before = self.token
        self.token, found = self.runner.run(self.reader.load_if_changed(before))
        if found is not None:
            self._judge(found.plan, found.heartbeat)

    @invariant()
    def the_plan_is_whole_and_never_older(self) -> None:
        """What is stored can always be put together, is what was published under its version, and never falls."""
        with config_map_store(self.api, "a scaler that has just started") as reader:  # it remembers no shard
            found = self.runner.run(reader.load())
        if found is None:
            assert self.newest == PlanVersion(-1, 0)
            return
        self._judge(found.plan, found.heartbeat)
        assert found.plan.version >= self.newest
        self.newest = found.plan.version

    @invariant()
    def one_leads(self) -> None:
        """No two lead at the same time, as long as their clocks run alike."""
        assert sum(candidate.lease.leading for candidate in self.candidates) <= 1

    def _judge(self, plan: PublishedPlan, beat: Heartbeat) -> None:
        assert beat.version == plan.version
        replicas = {key: item.replicas for key, item in plan.answers.items()}
        moved, base = divmod(self.contents[plan.version], 1000)
        expected = {key: base if moved in (99, number) else 1 for number, key in enumerate(WORKLOADS)}
        assert replicas == expected

    def _free(self, who: int) -> bool:
        return self.candidates[who].writing is None

    def _believer(self, who: int) -> int:
        """Return who believes to lead and can act: the one that was drawn if it does, else the other."""
        able = self.candidates[who].believed is not None and self._free(who)
        return who if able else 1 - who

    def _next_plan(self, who: int, moved: int, only: bool) -> tuple[PublishedPlan, Heartbeat] | None:
        """The next plan of a controller that believes to lead; `only` one workload's answer differs from 1, or all."""
        candidate = self.candidates[who]
        if candidate.believed is None or not self._free(who):
            return None
        candidate.sequence += 1
        version = PlanVersion(candidate.believed, candidate.sequence)
        base = 2 + candidate.sequence % 900
        assert version not in self.contents  # an epoch is nobody else's
        self.contents[version] = (moved if only else 99) * 1000 + base
        answers = {key: answer(base if not only or number == moved else 1) for number, key in enumerate(WORKLOADS)}
        return PublishedPlan(version, answers), Heartbeat(version, START_S, {})

    def _write(self, who: int, plan: PublishedPlan, beat: Heartbeat) -> bool:
        return self.runner.run(self._publish(self.candidates[who], plan, beat))

    def _write_alone(self, who: int, plan: PublishedPlan, beat: Heartbeat) -> bool:
        return asyncio.run(self._publish(self.candidates[who], plan, beat))

    @staticmethod
    async def _publish(candidate: Candidate, plan: PublishedPlan, beat: Heartbeat) -> bool:
        try:
            await candidate.store.publish(plan, beat)
        except StoreError:
            candidate.version = None
            return False
        candidate.version = plan.version
        return True


TestFencing = Fencing.TestCase
TestFencing.settings = settings(stateful_step_count=30)
