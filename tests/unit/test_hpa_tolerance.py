"""The last clamp within a decision: what is published is what the HPA will make of it."""

import pytest

from scaler.config.models import DecisionSettings, HpaRules
from scaler.core.observation import ReplicaCounts, WorkloadObservation
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
