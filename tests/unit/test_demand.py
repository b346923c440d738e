"""Demand from flow balance and from the broker; capacity and lead time from settings."""

import math

import pytest

from scaler.config.models import DecisionSettings, Unit
from scaler.core.demand import Demand, History, capacity_of, demand_of_pool, demand_of_queue, lead_time_s
from scaler.core.observation import GatewayReading
from scaler.core.pool import pool_replicas
from scaler.core.values import Known, Missing, Reading, Reason, value_of
from tests.core_builders import T0, gateway, queue, replica, replicas, workload

DECISION = DecisionSettings()


def demand(history: History = (), now_s: float = T0, **signals: float | Reading) -> Demand:
    """Demand on two replicas."""
    pool = pool_replicas(replicas(2, **signals), DECISION)
    return demand_of_pool(pool, history, workload(), DECISION, now_s)


def test_demand_is_completions_plus_growth_plus_rejections() -> None:
    """5/s done, 60 more in the system than 60 s ago, 0.5/s refused."""
    history = ((T0 - 60, 20.0, 2),)
    result = demand(history, running=16, waiting=24, completions_rps=2.5, rejections_rps=0.25)
    assert value_of(result.up) == pytest.approx(5 + 60 / 60 + 0.5)
    assert result.down == result.up


def test_without_history_what_completes_is_a_lower_bound() -> None:
    """The first tick may scale up on completions, and not down."""
    result = demand()
    assert result.up == Known(5.0)
    assert result.down == Missing(Reason.TOO_FEW_SAMPLES)
    assert result.in_system == ((T0, 32.0, 2),)


def test_a_negative_balance_is_missing() -> None:
    """A mass abort empties the system without completions: that is no negative demand."""
    result = demand(((T0 - 60, 5000.0, 2),))
    assert result.up == result.down == Missing(Reason.NEGATIVE)


def test_a_gap_in_the_history_is_not_bridged() -> None:
    """What was in the system an hour ago says nothing about the growth now."""
    assert demand(((T0 - 3600, 5000.0, 2),)).up == Known(5.0)


def test_a_silent_replica_counts_at_target_for_down() -> None:
    """It may be serving 0.85 of its capacity, and hold as much as the others do."""
    pods = (*replicas(19, completions_rps=1), replica("chat-19", running=Missing(Reason.NO_SERIES)))
    pool = pool_replicas(pods, DECISION)
    result = demand_of_pool(pool, ((T0 - 60, 320.0, 19),), workload(), DECISION, T0)
    assert result.up == Known(19.0)
    assert result.down == Known(19 + 5 * 0.85)
    assert result.in_system[-1] == (T0, 320.0, 19)


def test_too_many_silent_replicas_leave_a_gap_in_the_history() -> None:
    """What is in the system is not guessed from a half of it."""
    pods = (*replicas(1), replica("x", running=Missing(Reason.NO_SERIES)))
    result = demand_of_pool(pool_replicas(pods, DECISION), ((T0 - 15, 32.0, 2),), workload(), DECISION, T0)
    assert result.in_system == ((T0 - 15, 32.0, 2),)
    assert result.down == Missing(Reason.SILENT)


def test_the_history_keeps_one_entry_that_is_a_window_old() -> None:
    """Sixty seconds of ticks, however long it runs."""
    history: History = ()
    for i in range(100):
        history = demand(history, now_s=T0 + 15 * i).in_system
    assert [at - T0 for at, _, _ in history] == [1425, 1440, 1455, 1470, 1485]


def test_token_units_are_requests_times_recent_tokens_per_request() -> None:
    """100 output tokens a request."""
    pool = pool_replicas(replicas(2, completions_rps=2.5, output_tokens_rps=250), DECISION)
    settings = workload(unit=Unit.OUTPUT_TOKENS, capacity_per_replica=500.0)
    assert demand_of_pool(pool, (), settings, DECISION, T0).up == Known(500.0)


def test_a_missing_rejection_counter_is_a_gap_only_if_the_engine_has_one() -> None:
    """An engine without admission control rejects nothing; one whose counter is out of sight may, and nothing falls."""
    history = ((T0 - 60, 32.0, 2),)
    assert demand(history, rejections_rps=Missing(Reason.NOT_EXPORTED)).down == Known(5.0)
    assert demand(history, rejections_rps=Missing(Reason.SOURCE_DOWN)).down == Missing(Reason.SOURCE_DOWN)
    assert demand(history, rejections_rps=Missing(Reason.SOURCE_DOWN)).up == Known(5.0)


def test_what_replicas_bring_with_them_is_no_growth() -> None:
    """Eight of ten were away and come back with the 16 requests that each of them had."""
    pool = pool_replicas(replicas(10), DECISION)
    result = demand_of_pool(pool, ((T0 - 60, 32.0, 2),), workload(), DECISION, T0)
    assert result.up == Known(25.0)
    assert result.down == Known(25.0 + 128 / 60)  # for scaling down, they may have come to serve new requests


def test_what_replicas_take_with_them_is_no_decline() -> None:
    """Two of ten are deleted; the others hold what they held."""
    pool = pool_replicas(replicas(8), DECISION)
    result = demand_of_pool(pool, ((T0 - 60, 160.0, 10),), workload(), DECISION, T0)
    assert result.up == result.down == Known(20.0)


def test_what_came_before_the_last_change_of_replicas_is_no_growth() -> None:
    """A rollout swaps one replica for another: the count stays, and requests that moved are counted twice for a while.

    Only what came in the last 15 s counts, 30 requests in the minute of which 5/s completed. For scaling down all 30.
    """
    pool = pool_replicas(replicas(2), DECISION)
    history = ((T0 - 60, 2.0, 2), (T0 - 45, 2.0, 2), (T0 - 30, 92.0, 2), (T0 - 15, 2.0, 2))
    moved = demand_of_pool(pool, history, workload(), DECISION, T0, comparable_from_s=T0 - 15)
    assert moved.up == moved.down == Known(5.5)


def test_until_two_looks_can_be_compared_nothing_has_grown() -> None:
    """Not known to have grown for scaling up; for scaling down it has, and nothing falls for that."""
    pool = pool_replicas(replicas(2), DECISION)
    for not_yet in (T0, math.inf):
        swapped = demand_of_pool(pool, ((T0 - 60, 2.0, 2),), workload(), DECISION, T0, comparable_from_s=not_yet)
        assert (swapped.up, swapped.down) == (Known(5.0), Known(5.5))
    assert demand_of_pool(pool, ((T0 - 60, 2.0, 2),), workload(), DECISION, T0).up == Known(5.5)


def test_growth_is_known_again_soon_after_a_change() -> None:
    """One look after the first that can be compared: a flood of 600 within 15 s is not overlooked for a minute."""
    pool = pool_replicas(replicas(2, waiting=300), DECISION)
    history = ((T0 - 60, 8.0, 2), (T0 - 30, 2.0, 2), (T0 - 15, 32.0, 2))
    assert demand_of_pool(pool, history, workload(), DECISION, T0, comparable_from_s=T0 - 15).up == Known(15.0)


def test_a_growth_over_a_part_of_the_window_is_no_steeper_one() -> None:
    """Completions are of the whole window: 15 requests more are 15 in a minute, not 60, whenever they came."""
    pool = pool_replicas(replicas(2), DECISION)
    history = ((T0 - 60, 32.0, 2), (T0 - 15, 17.0, 2))
    assert demand_of_pool(pool, history, workload(), DECISION, T0, comparable_from_s=T0 - 20).up == Known(5.25)


def test_a_replica_that_was_not_heard_before_brings_no_growth() -> None:
    """At a start replicas are heard one after another. They are the same ones all along; how many speak is not."""
    pool = pool_replicas(replicas(20), DECISION)
    history = ((T0 - 60, 150.0, 9), (T0 - 45, 250.0, 18), (T0 - 30, 290.0, 20), (T0 - 15, 300.0, 20))
    result = demand_of_pool(pool, history, workload(), DECISION, T0, comparable_from_s=T0 - 60)
    assert result.up == Known(50.0 + 30 / 60)


def test_what_counts_for_scaling_up_counts_for_scaling_down() -> None:
    """Two of ten leave with more than their share: unknown growth is none for up, and is no decline for down."""
    pool = pool_replicas(replicas(8), DECISION)
    result = demand_of_pool(pool, ((T0 - 60, 400.0, 10),), workload(), DECISION, T0)
    assert result.up == result.down == Known(20.0)


def test_a_queues_demand_is_what_is_published() -> None:
    """Whatever the consumers do."""
    assert demand_of_queue(queue(arrivals_rps=7, completions_rps=0)).up == Known(7.0)


class TestGateway:
    """Two replicas that complete 5/s, behind a gateway."""

    steady: History = ((T0 - 60, 32.0, 2),)

    def demand(self, front: GatewayReading, history: History | None = None, **signals: float | Reading) -> Demand:
        """Demand behind the gateway."""
        pool = pool_replicas(replicas(2, **signals), DECISION)
        return demand_of_pool(pool, self.steady if history is None else history, workload(), DECISION, T0, front)

    def test_what_arrives_at_the_gateway_is_the_demand(self) -> None:
        """The replicas complete 5/s because they can do no more; 12/s come."""
        result = self.demand(gateway(12))
        assert result.up == result.down == Known(12.0)

    def test_a_gateway_that_sees_a_part_of_it_takes_nothing_away(self) -> None:
        """Other routes lead to the same replicas: their flow balance is more, and counts in both directions."""
        result = self.demand(gateway(2))
        assert result.up == result.down == Known(5.0)

    @pytest.mark.parametrize("reason", [Reason.SOURCE_DOWN, Reason.NOT_GRANTED, Reason.PARTIAL_ANSWER])
    def test_a_gateway_that_cannot_be_read_leaves_the_flow_for_scaling_up(self, reason: Reason) -> None:
        """For scaling down, what is not seen may be the most."""
        result = self.demand(gateway(Missing(reason)))
        assert result.up == Known(5.0)
        assert result.down == Missing(reason)

    def test_a_flow_that_cannot_be_seen_may_be_more_than_the_gateways(self) -> None:
        """A gap is a gap; an engine without such a counter, or a mass abort, hides nothing."""
        dark = Missing(Reason.SOURCE_DOWN)
        assert self.demand(gateway(12), completions_rps=dark).up == Known(12.0)
        assert self.demand(gateway(12), completions_rps=dark).down == dark
        assert self.demand(gateway(12), completions_rps=Missing(Reason.NOT_EXPORTED)).down == Known(12.0)
        assert self.demand(gateway(12), ((T0 - 60, 5000.0, 2),)).down == Known(12.0)

    def test_what_the_gateway_lets_go_has_arrived_before(self) -> None:
        """60 requests go from the gateway into the replicas' queues: that is no growth."""
        assert self.demand(gateway(5, waiting=0), ((T0 - 60, 92.0, 2),), waiting=30).up == Known(5.0)
        held = self.demand(gateway(5, waiting=60))
        assert held.in_system[-1] == (T0, 92.0, 2)

    def test_a_wait_at_the_gateway_that_cannot_be_seen_leaves_a_gap_in_the_history(self) -> None:
        """Else its return would look like a flood."""
        result = self.demand(gateway(5, waiting=Missing(Reason.SOURCE_DOWN)))
        assert result.in_system == self.steady


def test_capacity_and_lead_time_come_from_settings() -> None:
    """Control delays are part of the lead time; an unset cold start is 300 s; an unset capacity is absent."""
    assert capacity_of(workload(capacity_per_replica=None)) == Missing(Reason.NOT_CONFIGURED)
    assert lead_time_s(workload(), DECISION) == 120 + 90
    assert lead_time_s(workload(lead_time_s=None), DECISION) == 300 + 90
