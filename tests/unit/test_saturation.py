"""Saturation: each term, its corroboration, and the one that binds."""

import pytest

from scaler.config.models import DecisionSettings
from scaler.core.plan import Saturation
from scaler.core.pool import pool_replicas
from scaler.core.saturation import littles_law_wait_s, saturation_of
from scaler.core.values import Known, Missing, Reading, Reason, value_of
from tests.core_builders import queue, replica, replicas, workload

DECISION = DecisionSettings()


def saturation(**signals: float | Reading) -> Saturation:
    """Saturation of ten equal replicas with 32 slots."""
    return saturation_of(pool_replicas(replicas(10, **signals), DECISION), None, workload(), DECISION)


def test_slots_are_the_active_ratio_over_its_target() -> None:
    """16 of 32 slots against a target of 0.85."""
    result = saturation(running=16)
    assert value_of(result.terms["slots"]) == pytest.approx(0.5 / 0.85)
    assert result.binding == "slots"


def test_slots_come_from_the_engine_where_none_are_set() -> None:
    """16 in flight of the 40 that half of the engines allow and the 24 of the others: the mean is 32."""
    pods = (*replicas(5, slots=40), *replicas(5, slots=24))
    result = saturation_of(pool_replicas(pods, DECISION), None, workload(slots_per_replica=None), DECISION)
    assert value_of(result.terms["slots"]) == pytest.approx(0.5 / 0.85)


@pytest.mark.parametrize(
    ("exported", "term"),
    [
        (Missing(Reason.NOT_EXPORTED), Missing(Reason.NOT_CONFIGURED)),
        (Missing(Reason.SOURCE_DOWN), Missing(Reason.SOURCE_DOWN)),
        (Known(0), Missing(Reason.INVALID_VALUE)),
    ],
)
def test_slots_that_nobody_tells_are_absent(exported: Reading, term: Reading) -> None:
    """An engine that never exports them is no gap; one whose slots are out of sight is, and so are no slots at all."""
    pool = pool_replicas(replicas(2, slots=exported), DECISION)
    result = saturation_of(pool, None, workload(slots_per_replica=None), DECISION)
    assert result.terms["slots"] == term


def test_a_full_cache_that_flows_is_healthy() -> None:
    """KV at 0.98 without waiting or preemptions is at its target, not above."""
    result = saturation(running=16, kv_usage=0.98)
    assert result.terms["kv_cache"] == Known(1.0)
    assert result.binding == "kv_cache"


@pytest.mark.parametrize("pressure", [{"waiting": 3}, {"preemptions_rps": 0.2}])
def test_a_full_cache_under_pressure_is_above_its_target(pressure: dict[str, float]) -> None:
    """Waiting for capacity, or preemptions, corroborate a full cache."""
    result = saturation(running=16, kv_usage=0.98, **pressure)
    assert value_of(result.level) == pytest.approx(0.98 / 0.8)


def test_a_corroboration_that_cannot_be_seen_counts_for_scaling_down_only() -> None:
    """An unseen preemption counter neither raises nor lowers."""
    result = saturation(running=16, kv_usage=0.96, preemptions_rps=Missing(Reason.SOURCE_DOWN))
    assert result.level == Known(1.0)
    assert value_of(result.level_down) == pytest.approx(1.2)


def test_gpu_activity_alone_never_saturates() -> None:
    """One request can read as 100 %."""
    result = saturation(running=1, kv_usage=0.01, gpu_activity=1.0)
    assert value_of(result.value) == pytest.approx(1 / 32 / 0.85)


def test_queue_time_leads_by_littles_law_and_stays_out_of_the_level() -> None:
    """50 waiting at 25 completions per second is 2 s, twice the SLO; the level is the slots' all the same."""
    result = saturation(running=32, waiting=5, completions_rps=2.5)
    assert result.binding == "queue_time"
    assert value_of(result.value) == pytest.approx(2.0)
    assert value_of(result.level) == pytest.approx(1 / 0.85)


@pytest.mark.parametrize(
    ("waiting", "completions", "wait"),
    [
        (Known(10), Known(2), Known(5)),
        (Known(0), Missing(Reason.NO_SERIES), Known(0)),
        (Known(3), Known(0), Missing(Reason.NO_COMPLETIONS)),
        (Missing(Reason.SOURCE_DOWN), Known(2), Missing(Reason.SOURCE_DOWN)),
        (Known(3), Missing(Reason.COUNTER_RESET), Missing(Reason.COUNTER_RESET)),
    ],
)
def test_littles_law(waiting: Reading, completions: Reading, wait: Reading) -> None:
    """The wait is a number only where there is one."""
    assert littles_law_wait_s(waiting, completions) == wait


def test_a_queues_active_ratio_is_unacked_over_consumers_times_prefetch() -> None:
    """12 unacked on 4 consumers of prefetch 4."""
    reading = queue(unacked=12, consumers=4, prefetch=4)
    result = saturation_of(pool_replicas((), DECISION), reading, workload(), DECISION)
    assert value_of(result.terms["slots"]) == pytest.approx(12 / 16 / 0.85)


def test_a_queue_without_consumers_has_no_active_ratio() -> None:
    """No consumers is not 0."""
    result = saturation_of(pool_replicas((), DECISION), queue(consumers=0, unacked=0), workload(), DECISION)
    assert result.terms["slots"] == Missing(Reason.NO_CONSUMERS)
    assert result.level == Missing(Reason.NO_CONSUMERS)


def test_an_unknown_term_may_be_the_largest_when_scaling_down() -> None:
    """KV usage out of sight on every replica leaves no level to fall to."""
    result = saturation(running=1, kv_usage=Missing(Reason.NO_SERIES))
    assert value_of(result.level) == pytest.approx(1 / 32 / 0.85)
    assert result.level_down == Missing(Reason.NO_SERIES)


def test_an_engine_without_a_signal_is_no_gap() -> None:
    """An engine that exports no KV usage scales on its slots."""
    result = saturation(running=16, kv_usage=Missing(Reason.NOT_EXPORTED))
    assert result.level_down == result.level == Known(0.5 / 0.85)


def test_active_ratio_target_of_the_workload_wins() -> None:
    """0.7 where set, as in the public account of the active ratio."""
    pool = pool_replicas([replica(running=16)], DECISION)
    result = saturation_of(pool, None, workload(active_ratio_target=0.7), DECISION)
    assert value_of(result.level) == pytest.approx(0.5 / 0.7)
