"""Which replicas are believed, and what the others count as."""

import pytest

from scaler.config.models import DecisionSettings
from scaler.core.pool import Standing, judge, pool_replicas
from scaler.core.values import Known, Missing, Reason, Stale
from tests.core_builders import replica, replicas

DECISION = DecisionSettings()
UNSEEN = Missing(Reason.NO_SERIES)


@pytest.mark.parametrize(
    ("signals", "standing"),
    [
        ({}, Standing.BELIEVED),
        ({"running": 0, "kv_usage": 0, "still_s": 9999}, Standing.BELIEVED),
        ({"running": 16, "still_s": 60}, Standing.FROZEN),
        ({"running": 0, "kv_usage": 0.99, "still_s": 60}, Standing.FROZEN),
        ({"running": 16, "still_s": 59}, Standing.BELIEVED),
        ({"running": UNSEEN}, Standing.SILENT),
        ({"waiting": Stale(200)}, Standing.SILENT),
        ({"running": 0, "kv_usage": 0, "waiting": 6, "gpu_activity": 0.01}, Standing.STALLED),
        ({"running": 0, "kv_usage": 0, "waiting": 6, "gpu_activity": 0.9}, Standing.DISPUTED),
        ({"running": 0, "kv_usage": 0, "waiting": 6, "still_s": 60}, Standing.STALLED),
        ({"running": 0, "kv_usage": 0, "waiting": 6, "still_s": 5}, Standing.DISPUTED),
        ({"running": 0, "kv_usage": 0, "gpu_activity": 0.9}, Standing.DISPUTED),
        ({"running": 0, "kv_usage": 0, "gpu_activity": UNSEEN}, Standing.DISPUTED),
        ({"running": 0, "kv_usage": 0, "gpu_activity": 0.1}, Standing.BELIEVED),
        ({"running": 1, "gpu_activity": UNSEEN}, Standing.BELIEVED),
    ],
)
def test_standing(signals: dict[str, object], standing: Standing) -> None:
    """An idle engine and a frozen gauge are told apart, and GPU activity vetoes idleness without ever proving load."""
    assert judge(replica(**signals), DECISION) is standing  # type: ignore[arg-type]  # the table mixes kinds


def test_a_silent_replica_counts_as_zero_up_and_at_target_down() -> None:
    """Twenty replicas at 10, one of them silent: 190 for up, 190 + 27 at target for down."""
    pods = (*replicas(19, running=10), replica("chat-19", running=UNSEEN))
    running = pool_replicas(pods, DECISION).running
    assert running.up == Known(190)
    assert running.down(27, hold_share=0.1) == Known(217)


def test_a_silent_replica_counts_as_the_mean_of_the_others_when_that_is_more() -> None:
    """Nothing falls below what the others suggest."""
    pods = (*replicas(19, running=30), replica("chat-19", running=UNSEEN))
    assert pool_replicas(pods, DECISION).running.down(27, hold_share=0.1) == Known(19 * 30 + 30)


def test_too_many_silent_replicas_leave_no_value_to_scale_down_on() -> None:
    """Two of ten are more than a tenth."""
    pods = (*replicas(8), *(replica(f"s-{i}", running=UNSEEN) for i in range(2)))
    assert pool_replicas(pods, DECISION).running.down(27, hold_share=0.1) == Missing(Reason.NO_SERIES)


def test_the_order_of_replicas_does_not_matter() -> None:
    """Reasons and sums are the same forwards and backwards."""
    pods = (replica("a", running=Stale(100)), replica("b", running=UNSEEN), *replicas(3))
    forwards, backwards = (pool_replicas(p, DECISION) for p in (pods, pods[::-1]))
    assert forwards == backwards


def test_a_stalled_replica_asks_for_nothing() -> None:
    """Its waiting requests do not scale up, and it does not scale down as idle either."""
    pool = pool_replicas(replicas(2, running=0, kv_usage=0, waiting=6, gpu_activity=0.0), DECISION)
    assert pool.waiting.up == Missing(Reason.STALLED)
    assert pool.waiting.down(0, hold_share=1) == Missing(Reason.STALLED)
    assert pool.standings == {Standing.STALLED: 2}
