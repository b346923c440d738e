"""The decision as stories on a clock that the test holds."""

import pytest

from scaler.config.models import DecisionSettings, Mode, RateLimit
from scaler.core.engine import step
from scaler.core.observation import GatewayReading, Observation, ReplicaCounts, ReplicaReading, WorkloadObservation
from scaler.core.plan import Change
from scaler.core.state import EngineState, resumed
from scaler.core.values import Known, Missing, Reading, Reason, Stale, WorkloadId
from tests.core_builders import CHAT, T0, Ticker, gateway, queue, replica, replicas, seen, workload

BUSY = {"running": 32, "waiting": 40, "completions_rps": 5}
IDLE = {"running": 0, "kv_usage": 0, "completions_rps": 0, "still_s": 9999}
UNSEEN = Missing(Reason.SOURCE_DOWN)


def calm(count: int = 10) -> WorkloadObservation:
    """Load that needs 6 of 10 replicas."""
    return seen(replicas(count))


def test_a_surge_is_answered_in_one_tick() -> None:
    """Demand asks for all of it at once: 50/s done and 450 more in the system within the 60-s window."""
    ticker = Ticker()
    ticker.settled(seen(replicas(10, running=27, completions_rps=4.2)))
    result = ticker.tick(seen(replicas(10, **BUSY)))
    assert result.target == 14
    assert result.reason == "reactive: demand"


def test_the_target_of_the_active_ratio_is_not_that_of_the_capacity() -> None:
    """Of 25/s at 5/s a replica and 0.85: six, whatever share of the slots is to be in use."""
    ticker = Ticker(workload(active_ratio_target=0.5, slots_per_replica=100))
    assert ticker.settled(seen(replicas(10))).target == 6


def test_replicas_on_their_way_do_not_make_it_ask_for_more() -> None:
    """The same load with the surge's replicas pending asks for no more, tick after tick."""
    ticker = Ticker()
    ticker.settled(seen(replicas(10, running=27, completions_rps=4.2)))
    first = ticker.tick(seen(replicas(10, **BUSY)))
    pending = seen(replicas(10, **BUSY), counts=ReplicaCounts(spec=14, ready=10, pending=4))
    assert ticker.tick(pending, times=20).target == first.target


def test_a_saturation_level_at_most_doubles_the_replicas() -> None:
    """Without a known capacity, slots and KV cache say by which share to grow, and no more than twice."""
    ticker = Ticker(workload(capacity_per_replica=None, active_ratio_target=0.05))
    assert ticker.tick(seen(replicas(10, running=32))).target == 20


def test_a_backlog_asks_for_what_drains_it_within_the_lead_time() -> None:
    """1050 waiting, 5/s a replica, 210 s: one replica more than the demand of 50/s needs at full capacity."""
    ticker = Ticker(decision=DecisionSettings(utilisation_target=1.0))
    busy = seen(replicas(10, running=32, waiting=105, completions_rps=5))
    assert ticker.tick(busy).target == 11
    assert ticker.tick(busy).reason == "reactive: backlog"


def test_pending_replicas_take_their_slots_worth_of_the_backlog() -> None:
    """1050 waiting, of which 30 pending replicas will take 960."""
    ticker = Ticker(decision=DecisionSettings(utilisation_target=1.0))
    pods = replicas(10, running=32, waiting=105, completions_rps=5)
    result = ticker.tick(seen(pods, counts=ReplicaCounts(spec=10, ready=10, pending=30)))
    assert result.uncapped == 11  # 10 for 50/s and a tenth of a replica for the 90 that are left


def test_a_backlog_does_not_raise_the_target_while_replicas_wait_for_capacity() -> None:
    """Unschedulable replicas mean that there is no capacity to be had; it is reported."""
    pods = replicas(10, running=32, waiting=1000, completions_rps=5)
    free = Ticker().tick(seen(pods))
    blocked = Ticker().tick(seen(pods, counts=ReplicaCounts(spec=12, ready=10, blocked=2)))
    assert isinstance(free.target, int)
    assert free.target > 12
    assert blocked.target == 12
    assert "waiting_for_capacity: 2" in blocked.notes


def test_a_scale_down_waits_for_the_hold_window() -> None:
    """10 replicas needed for a while, then 6: the target falls 300 s after the last tick that needed 10."""
    ticker = Ticker()
    ticker.settled(seen(replicas(10, running=27, completions_rps=4.2)))
    last_needed_s = ticker.now_s
    while ticker.tick(calm()).target == 10:
        assert ticker.now_s - last_needed_s < 300
    assert ticker.now_s - last_needed_s == 300
    assert ticker.tick(calm()).target == 6


def test_a_falling_target_falls_by_half_a_minute_at_most() -> None:
    """From 40 to 1 takes 20, 10, 5, 2, 1 at a minute each."""
    ticker = Ticker(decision=DecisionSettings(hold_s=0))
    ticker.settled(seen(replicas(40, running=27, completions_rps=4.2)))
    idle = seen(replicas(40, **IDLE))
    assert ticker.tick(idle, times=3).reason == "hold: negative"  # what vanished without completing says nothing
    assert [ticker.tick(idle, times=4).target for _ in range(6)] == [20, 10, 5, 2, 1, 1]


@pytest.mark.parametrize(
    "blinded",
    [
        pytest.param(seen(replicas(10, running=UNSEEN, waiting=UNSEEN, completions_rps=UNSEEN)), id="source down"),
        pytest.param(seen(replicas(10, **(IDLE | {"waiting": Stale(200)}))), id="stale"),
        pytest.param(seen(replicas(10, **(IDLE | {"kv_usage": UNSEEN}))), id="kv out of sight"),
        pytest.param(seen(replicas(10, **(IDLE | {"completions_rps": Missing(Reason.COUNTER_RESET)}))), id="reset"),
        pytest.param(seen(replicas(10, **(IDLE | {"gpu_activity": UNSEEN}))), id="gpu out of sight"),
        pytest.param(seen(replicas(10, **(IDLE | {"gpu_activity": 0.9}))), id="gpu busy"),
        pytest.param(seen(replicas(10, running=3, kv_usage=0.9, still_s=120)), id="frozen"),
        pytest.param(seen(replicas(10, **(IDLE | {"waiting": 6, "gpu_activity": 0.0}))), id="stalled"),
        pytest.param(seen((), counts=ReplicaCounts(spec=10, ready=0, pending=10)), id="nothing ready"),
        pytest.param(seen((), counts=Missing(Reason.VIEW_UNAVAILABLE)), id="no view"),
        pytest.param(seen(replicas(10, **IDLE), rollout=True), id="rollout"),
        pytest.param(seen(replicas(4, **IDLE) + replicas(6, running=UNSEEN)), id="most silent"),
    ],
)
def test_nothing_falls_because_something_is_unknown(blinded: WorkloadObservation) -> None:
    """Two hours blind keep the target where it was."""
    ticker = Ticker()
    ticker.settled(seen(replicas(10, running=27, completions_rps=4.2)))
    result = ticker.tick(blinded, times=480)
    assert result.target == 10
    assert result.reason.startswith("hold: ")


def test_a_workload_that_is_not_observed_keeps_its_target() -> None:
    """An observation without it is no observation of idleness."""
    ticker = Ticker()
    ticker.settled(seen(replicas(10, running=27, completions_rps=4.2)))
    result = step(ticker.state, Observation({}), ticker.policy, ticker.now_s + 9999)
    assert result.plan.recommendations[CHAT].target == 10


def test_the_age_of_the_evidence_grows_while_nothing_is_known() -> None:
    """A fresh plan made of old input is not fresh."""
    ticker = Ticker()
    ticker.settled(seen([replica(running=Known(16, age_s=12))]))
    assert ticker.tick(seen([replica(running=Known(16, age_s=12))])).evidence_age_s == 12
    result = ticker.tick(seen([replica(running=UNSEEN)]), times=4)
    assert result.evidence_age_s == 12 + 60
    assert result.missing == ("running: source_down (1 of 1)", "waiting: silent (1 of 1)", *result.missing[2:])


def test_idle_replicas_are_known_to_be_idle() -> None:
    """A constant 0 is evidence: an idle engine scales down to its minimum."""
    ticker = Ticker(workload(min_replicas=2))
    assert ticker.tick(seen(replicas(10, **IDLE)), times=60).target == 2


def test_a_pending_replica_is_no_supply_to_scale_down_on() -> None:
    """Ten ready replicas at their target with ten more on their way: the twenty stay until they have come."""
    full = replicas(10, running=27, completions_rps=4.2)
    ticker = Ticker(decision=DecisionSettings(hold_s=0))
    ticker.settled(seen((), counts=ReplicaCounts(spec=20, ready=0, pending=20)))
    result = ticker.tick(seen(full, counts=ReplicaCounts(spec=20, ready=10, pending=10)), times=40)
    assert result.target == 20
    assert result.reason == "hold: pending_is_no_supply"


@pytest.mark.parametrize(("published", "baseline"), [(None, 10), (14, 14)])
def test_after_a_start_ups_act_at_once_and_downs_wait(published: int | None, baseline: int) -> None:
    """The published target, else the scale target's replicas, holds for max(stabilisation, longest window)."""
    ticker = Ticker()
    quiet = seen(replicas(10, **IDLE), published_target=published)
    assert ticker.tick(quiet, times=20).target == baseline
    surge = seen(replicas(10, running=32, waiting=400, completions_rps=5), published_target=published)
    up = ticker.tick(surge)
    assert isinstance(up.target, int)
    assert up.target > baseline


def test_a_controller_restarted_in_a_surge_keeps_the_surge_and_may_add_to_it() -> None:
    """With its checkpoint or without: downs wait again from the restart, ups act at once."""
    ticker = Ticker()
    ticker.settled(seen(replicas(10, running=27, completions_rps=4.2)))
    surge = ticker.tick(seen(replicas(10, **BUSY))).target
    assert surge == 14
    quiet = seen(replicas(10, **IDLE), published_target=14, counts=ReplicaCounts(spec=14, ready=10, pending=4))
    for restarted in (resumed(ticker.state, ticker.now_s + 15), EngineState.empty()):
        after = Ticker(at_s=ticker.now_s + 15)
        after.state = restarted
        assert after.tick(quiet, times=20).target == 14
        more = seen(replicas(14, running=32, waiting=200, completions_rps=5), published_target=14)
        grown = after.tick(more).target
        assert isinstance(grown, int)
        assert grown > 14


def test_a_start_without_view_and_plan_says_that_nothing_is_known() -> None:
    """Never 0 for "don't know"."""
    result = Ticker().tick(seen(counts=Missing(Reason.VIEW_UNAVAILABLE)))
    assert result.target == result.told == Missing(Reason.VIEW_UNAVAILABLE)


def test_bounds_hold_at_once_and_name_themselves() -> None:
    """A maximum that is lowered cuts through stabilisation and rate; the wish stays visible."""
    ticker = Ticker()
    ticker.settled(seen(replicas(40, running=27, completions_rps=4.2)))
    ticker.settings = workload(max_replicas=5)
    result = ticker.tick(seen(replicas(40, running=27, completions_rps=4.2)))
    assert (result.target, result.uncapped, result.upper) == (5, 40, 5)
    assert result.reason == "bounds: 1..5"
    blind = ticker.tick(seen(counts=Missing(Reason.VIEW_UNAVAILABLE)))
    assert blind.target == 5


def test_up_rate_limit_where_it_is_set() -> None:
    """Four or doubled, whichever is more, a minute."""
    ticker = Ticker(decision=DecisionSettings(rate=RateLimit(up_replicas=4, up_share=1.0)))
    surge = seen(replicas(3, running=32, waiting=2000, completions_rps=5))
    assert [ticker.tick(surge).target for _ in range(5)] == [7, 7, 7, 7, 9]


def test_the_last_change_stays_told_while_other_steps_speak() -> None:
    """At 3 a.m. the question is why it is 14, and not why it is still 14."""
    ticker = Ticker()
    assert ticker.settled(seen(replicas(10, running=27, completions_rps=4.2))).changed is None
    surge = ticker.tick(seen(replicas(10, **BUSY)))
    changed_at_s = ticker.now_s
    later = ticker.tick(calm(), times=3)
    assert later.reason.startswith("stabilisation")
    assert later.changed == surge.changed == Change(changed_at_s, 10, 14, "reactive: demand")


def test_observe_mode_recommends_and_tells_nothing() -> None:
    """Beside an existing autoscaler Headway only shows what it would do."""
    result = Ticker(workload(mode=Mode.OBSERVE)).settled(calm())
    assert isinstance(result.target, int)
    assert result.told == Missing(Reason.OBSERVE_MODE)


class TestQueue:
    """A workload behind a broker: its demand is seen at zero replicas too."""

    settings = workload(engine="rabbitmq", min_replicas=0, slots_per_replica=None, capacity_per_replica=None)
    nothing = ReplicaCounts(spec=0, ready=0)

    def test_it_sleeps_at_zero_while_nothing_comes(self) -> None:
        """Known idle stays at zero, and a restart wakes nobody."""
        ticker = Ticker(self.settings)
        idle = seen(counts=self.nothing, queue=queue(consumers=0, unacked=0, arrivals_rps=0, completions_rps=0))
        result = ticker.tick(idle, times=10)
        assert (result.target, result.active) == (0, False)

    def test_an_unreachable_broker_wakes_nobody_and_stops_nobody(self) -> None:
        """Unknown keeps what is, at zero and at ten."""
        blind = queue(**dict.fromkeys(("waiting", "unacked", "consumers", "prefetch", "arrivals_rps"), UNSEEN))
        assert Ticker(self.settings).tick(seen(counts=self.nothing, queue=blind), times=99).target == 0
        some = seen(replicas(0), counts=ReplicaCounts(spec=10, ready=10), queue=blind)
        assert Ticker(self.settings).tick(some, times=99).target == 10

    @pytest.mark.parametrize("work", [{"waiting": 1}, {"arrivals_rps": 0.01}])
    def test_the_first_message_wakes_it(self, work: dict[str, Reading | float]) -> None:
        """One replica is needed, however little the work is."""
        signals = {"consumers": 0, "unacked": 0, "arrivals_rps": 0, "completions_rps": 0} | work
        result = Ticker(self.settings).tick(seen(counts=self.nothing, queue=queue(**signals)))
        assert (result.target, result.active) == (1, True)

    def test_consumers_that_vanish_are_not_idleness(self) -> None:
        """Ten ready workers without a consumer on the queue are broken, not idle."""
        ticker = Ticker(self.settings)
        busy = seen(counts=ReplicaCounts(spec=10, ready=10), queue=queue(unacked=8))
        ticker.settled(busy)
        gone = seen(counts=ReplicaCounts(10, 10), queue=queue(consumers=0, unacked=0, arrivals_rps=0))
        result = ticker.tick(gone, times=100)
        assert result.target == 10
        assert result.reason == "hold: no_consumers"

    def test_the_active_ratio_scales_before_a_backlog_exists(self) -> None:
        """All ten consumers busy, nothing waiting: grow by 1 / 0.7."""
        ticker = Ticker(self.settings.model_copy(update={"active_ratio_target": 0.7}))
        result = ticker.tick(seen(counts=ReplicaCounts(10, 10), queue=queue(unacked=10)))
        assert result.target == 15
        assert result.reason == "reactive: level_slots"

    def test_it_returns_to_zero_only_after_the_hold(self) -> None:
        """An empty queue for the hold window."""
        ticker = Ticker(self.settings, DecisionSettings(hold_s=600))
        ticker.settled(seen(counts=ReplicaCounts(1, 1), queue=queue(unacked=0, consumers=1, arrivals_rps=1)))
        idle = seen(counts=ReplicaCounts(1, 1), queue=queue(unacked=0, consumers=1, arrivals_rps=0))
        assert ticker.tick(idle, times=39).target == 1
        assert ticker.tick(idle).target == 0


class TestGateway:
    """A workload behind a gateway, which sees its demand at zero replicas too."""

    settings = workload(min_replicas=0)
    nothing = ReplicaCounts(spec=0, ready=0)

    def test_it_sleeps_at_zero_while_nothing_comes(self) -> None:
        """Known idle stays at zero, and that the gateway says so is evidence."""
        result = Ticker(self.settings).tick(seen(counts=self.nothing, gateway=gateway()), times=100)
        assert (result.target, result.active, result.evidence_age_s) == (0, False, 0)

    def test_the_first_request_wakes_it_with_what_the_demand_needs(self) -> None:
        """20/s at 5/s a replica and 0.85: five at once, and not one after the other."""
        result = Ticker(self.settings).tick(seen(counts=self.nothing, gateway=gateway(20)))
        assert (result.target, result.active, result.reason) == (5, True, "reactive: demand")

    def test_without_a_capacity_the_first_request_wakes_one(self) -> None:
        """However many come: what a replica can do is not known."""
        ticker = Ticker(workload(min_replicas=0, capacity_per_replica=None))
        result = ticker.tick(seen(counts=self.nothing, gateway=gateway(20)))
        assert (result.target, result.reason) == (1, "reactive: work_at_gateway")

    def test_what_the_gateway_holds_back_is_backlog(self) -> None:
        """1050 wait, in the replicas or in front of them: one replica more than 50/s need."""
        decision = DecisionSettings(utilisation_target=1.0)
        pods = replicas(10, running=32, waiting=50, completions_rps=5)
        result = Ticker(decision=decision).tick(seen(pods, gateway=gateway(50, waiting=550)))
        assert (result.target, result.reason) == (11, "reactive: backlog")

    def test_idle_replicas_behind_an_idle_gateway_go(self) -> None:
        """To zero, where the minimum is zero."""
        idle = seen(replicas(3, **IDLE), gateway=gateway())
        assert Ticker(self.settings).tick(idle, times=100).target == 0

    @pytest.mark.parametrize("dark", [gateway(UNSEEN), gateway(0, waiting=UNSEEN), gateway(Stale(200))])
    def test_idle_replicas_behind_a_gateway_that_cannot_be_read_stay(self, dark: GatewayReading) -> None:
        """Its requests may be on their way; without a capacity too."""
        for capacity in (5.0, None):
            ticker = Ticker(workload(min_replicas=0, capacity_per_replica=capacity))
            result = ticker.tick(seen(replicas(3, **IDLE), gateway=dark), times=100)
            assert result.target == 3
            assert any(name.startswith("gateway_") for name in result.missing)

    def test_it_does_not_sleep_where_its_gateway_was_not_granted(self) -> None:
        """Nothing would wake it."""
        closed = gateway(*[Missing(Reason.NOT_GRANTED)] * 2)
        assert Ticker(self.settings).tick(seen(counts=self.nothing, gateway=closed)).target == 1

    def test_a_replica_that_never_starts_is_not_kept_for_requests_that_are_gone(self) -> None:
        """It was started for one request, whose client gave up."""
        ticker = Ticker(self.settings)
        assert ticker.tick(seen(counts=self.nothing, gateway=gateway(0.5))).target == 1
        gone = seen(counts=ReplicaCounts(1, 0, pending=1), gateway=gateway())
        assert ticker.tick(gone, times=60).target == 0

    def test_replicas_that_went_silent_are_held_however_little_the_gateway_sees(self) -> None:
        """Clients stop coming to a broken service: that is no reason to take it apart."""
        ticker = Ticker(self.settings)
        ticker.settled(seen(replicas(10, running=27, completions_rps=4.2), gateway=gateway(42)))
        silent = seen(replicas(10, running=UNSEEN, waiting=UNSEEN), gateway=gateway(0.1))
        assert ticker.tick(silent, times=100).target == 10


def test_without_a_source_that_works_at_zero_the_floor_is_one() -> None:
    """Engine metrics vanish with the last replica, so nothing would ever wake it."""
    ticker = Ticker(workload(min_replicas=0))
    assert ticker.tick(seen(replicas(1, **IDLE)), times=100).target == 1


def test_two_workloads_of_one_name_in_two_namespaces_do_not_mix() -> None:
    """The namespace is part of who it is."""
    ours, theirs = workload(), workload(namespace="other")
    ticker = Ticker(ours)
    policy = ticker.policy.model_copy(update={"workloads": (ours, theirs)})
    other = WorkloadId("other", "chat")
    observation = Observation({CHAT: seen(replicas(3, **BUSY)), other: seen(replicas(7))})
    plan = step(EngineState.empty(), observation, policy, T0).plan
    assert plan.recommendations[CHAT].counts == ReplicaCounts(3, 3)
    assert plan.recommendations[other].target == 7


def test_a_workload_that_the_policy_no_longer_names_is_forgotten() -> None:
    """State does not grow with workloads that are gone."""
    ticker = Ticker()
    ticker.tick(calm())
    result = step(ticker.state, Observation({}), ticker.policy.model_copy(update={"workloads": ()}), T0)
    assert result.state.workloads == {}


def test_a_dead_replica_among_many_holds_nothing_back() -> None:
    """One silent pod of twenty counts at target; the rest may still scale down."""
    pods: tuple[ReplicaReading, ...] = (*replicas(19, **IDLE), replica("x", running=UNSEEN, waiting=UNSEEN))
    assert Ticker().tick(seen(pods), times=100).target == 1
