"""The last clamp within a decision: what is published is what the HPA will make of it."""

import pytest

from scaler.config.models import DecisionSettings, HpaRules, RateLimit
from scaler.core.observation import ReplicaCounts, WorkloadObservation
from scaler.core.values import Missing, Reason
from tests.core_builders import Ticker, replicas, seen, workload

DEFAULT = HpaRules()


def pool(count: int, needs: float) -> WorkloadObservation:
    """So many replicas, with the work in flight that needs another number of them, by their slots alone."""
    return seen(replicas(count, running=needs * 32 * 0.85 / count, completions_rps=0.1))


def ticker(tolerance: HpaRules | None = DEFAULT, most: int = 100, **decision: float) -> Ticker:
    """Twenty replicas that are what is needed."""
    settings = workload(hpa=tolerance, max_replicas=most, capacity_per_replica=None)
    ready = Ticker(settings, decision=DecisionSettings(**decision))
    assert ready.settled(pool(20, 20)).target == 20
    return ready


@pytest.mark.parametrize(
    ("tolerance", "target"),
    [
        (DEFAULT, 23),
        (HpaRules(tolerance_up=0, tolerance_down=0), 21),
        (None, 21),
        (HpaRules(tolerance_up=0.2), 25),
        (HpaRules(tolerance_down=0.2), 23),
        (HpaRules(tolerance_up=0), 21),
    ],
)
def test_a_small_step_up_is_rounded_up_to_one_that_has_an_effect(tolerance: HpaRules | None, target: int) -> None:
    """A need of 21 on 20 replicas; a direction without a tolerance of its own has the default."""
    result = ticker(tolerance).tick(pool(20, 21))
    assert result.target == result.told == target
    assert result.uncapped == 21


def test_the_rounding_is_on_the_trail_and_stays_until_the_need_has_gone() -> None:
    """With 23 replicas a need of 21 keeps them, and says why; a need of 20 takes them back."""
    ticking = ticker()
    assert ticking.tick(pool(20, 21)).reason == "hpa: hpa_tolerance (-10%, +10% of 20)"
    settled = ticking.settled(pool(23, 21))
    assert (settled.target, settled.trail[-1].name) == (23, "hpa")
    assert ticking.settled(pool(23, 20)).target == 20


def test_a_cap_is_never_overstepped_for_the_rounding() -> None:
    """Where 23 is too many, 20 stay, and the reason is told."""
    result = ticker(most=22).tick(pool(20, 21))
    assert (result.target, result.reason) == (20, "hpa: hpa_tolerance (-10%, +10% of 20)")
    assert ticker(most=22).tick(pool(20, 30)).target == 20  # the cap itself is inside the band


@pytest.mark.parametrize(
    ("hpa", "target"), [(DEFAULT, 17), (HpaRules(max_replicas=40), 17), (HpaRules(max_replicas=19), 19)]
)
def test_a_cap_that_was_lowered_a_little_is_kept_all_the_same(hpa: HpaRules, target: int) -> None:
    """19 allowed and 20 there: 17 is the largest that the HPA acts on, unless 19 is its own maximum."""
    ticking = ticker()
    ticking.settings = workload(hpa=hpa, max_replicas=19, capacity_per_replica=None)
    assert ticking.tick(pool(20, 20)).target == target


def test_the_platform_says_what_its_clusters_default_is() -> None:
    """kube-controller-manager's flag, where it is not 0.1."""
    assert ticker(hpa_tolerance=0.25).tick(pool(20, 21)).target == 26


def test_replicas_that_are_on_their_way_count_as_the_hpa_counts_them() -> None:
    """status.replicas has the pending ones; a decision that is repeated is the same."""
    ticking = ticker()
    assert ticking.tick(pool(20, 21)).target == 23
    pods = pool(20, 21).replicas
    assert ticking.tick(seen(pods, counts=ReplicaCounts(spec=23, ready=20, pending=3)), times=5).target == 23


def followed(ticking: Ticker, needs: float, *, ticks: int) -> list[int]:
    """The replicas tick by tick, with an HPA that has a tolerance of 0.1 and pods that are ready at once."""
    there, history = 20, []
    for _ in range(ticks):
        target = ticking.tick(pool(there, needs)).target
        assert isinstance(target, int)
        there = there if 0.9 <= target / there <= 1.1 else target
        history.append(there)
    return history


def test_replicas_that_appear_one_by_one_do_not_raise_the_target_without_an_end() -> None:
    """A StatefulSet makes the next pod when the last is ready: what was rounded up is not rounded up again."""
    ticking = ticker()
    pods, targets = pool(20, 21).replicas, []
    for there in (20, 20, 21, 21, 22, 22, 23, 23):
        counts = ReplicaCounts(spec=23, ready=20, pending=there - 20)
        targets.append(ticking.tick(seen(pods, counts=counts)).target)
    assert targets == [23, 23, 21, 21, 22, 22, 23, 23]


def test_a_rate_limit_smaller_than_the_tolerance_moves_replicas_all_the_same() -> None:
    """A replica a minute: in steps that the HPA takes, and no more than one step ahead of the limit."""
    one = RateLimit(up_replicas=1, down_replicas=1, down_share=None)
    settings = workload(hpa=DEFAULT, capacity_per_replica=None)
    ticking = Ticker(settings, DecisionSettings(rate=one, hold_s=0.0))
    ticking.settled(pool(20, 20))
    falling = followed(ticking, 5, ticks=4 * 20)
    assert falling[-1] == 5
    assert all(there >= 20 - 1 - minute for minute in range(20) for there in falling[4 * minute : 4 * minute + 4])
    ticking = Ticker(settings, DecisionSettings(rate=one))
    ticking.settled(pool(20, 20))
    rising = followed(ticking, 60, ticks=4 * 20)
    assert rising[-1] >= 20 + 19
    assert all(there <= 1.1 * (21 + tick / 4) + 1 for tick, there in enumerate(rising))


def test_what_was_told_stays_while_the_cluster_is_out_of_sight() -> None:
    """23 were told for a need of 21: without a view they stay told, and with it 21 is what is rounded anew."""
    ticking = ticker()
    ticking.tick(pool(20, 21))
    assert ticking.tick(WorkloadObservation(counts=Missing(Reason.VIEW_STALE))).target == 23
    assert ticking.tick(seen(pool(20, 21).replicas, counts=ReplicaCounts(spec=21, ready=20, pending=1))).target == 21
