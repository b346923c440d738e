"""What must always hold of the last clamp, with the model of the HPA as the judge."""

from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from scaler.config.models import DecisionSettings, HpaRules, RateLimit
from scaler.core.observation import WorkloadObservation
from scaler.core.quantum import largest_step_down, quantised, smallest_step_up
from scaler.hpa import DEFAULT_DOWN, DEFAULT_UP, Behaviour, HpaSpec, average_value_replicas
from tests.core_builders import CHAT, Ticker, workload
from tests.core_strategies import maybe_blinded

REPLICAS = st.integers(1, 3000)
# The API server takes any that is not negative, so a tenant may write one above 1.
TOLERANCES = st.sampled_from((0.0, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 999_999_999.0)) | st.floats(0, 3)


def hpa(value: int, current: int, up: float, down: float) -> int:
    """What the HPA makes of a value, before its own bounds."""
    behaviour = Behaviour(replace(DEFAULT_UP, tolerance=up), replace(DEFAULT_DOWN, tolerance=down))
    return average_value_replicas(value, HpaSpec(behaviour=behaviour), current)


@given(REPLICAS, REPLICAS, REPLICAS, TOLERANCES, TOLERANCES)
def test_the_hpa_makes_of_it_the_result_or_what_there_is(
    target: int, current: int, upper: int, up: float, down: float
) -> None:
    """What is published is what comes to be, and never anything in between."""
    result = quantised(min(target, upper), current, upper, up, down)
    assert hpa(result, current, up, down) in {result, current}
    assert quantised(result, current, upper, up, down) == result


@given(REPLICAS, REPLICAS, REPLICAS, TOLERANCES, TOLERANCES)
def test_it_is_never_above_the_cap_nor_needlessly_below_the_target(
    target: int, current: int, upper: int, up: float, down: float
) -> None:
    """Above the cap never; below the target only where no step fits under the cap, or the cap was lowered."""
    assume(target <= upper)
    result = quantised(target, current, upper, up, down)
    assert 1 <= result <= upper
    if result < target:
        assert current > upper or (result == current and smallest_step_up(current, up, down) > upper)


@given(REPLICAS, REPLICAS, REPLICAS)
def test_without_tolerance_nothing_is_rounded(target: int, current: int, upper: int) -> None:
    """A tolerance of 0 is an exact HPA."""
    assert quantised(min(target, upper), current, upper, 0.0, 0.0) == min(target, upper)


@given(REPLICAS, TOLERANCES, TOLERANCES)
def test_the_steps_are_the_smallest_that_the_hpa_takes(current: int, up: float, down: float) -> None:
    """The HPA follows them, and ignores everything between them and what there is."""
    higher, lower = smallest_step_up(current, up, down), largest_step_down(current, down, up)
    assert hpa(higher, current, up, down) == higher
    assert all(hpa(n, current, up, down) == current for n in {higher - 1, (higher + current) // 2} if n > current)
    assert lower == 0 or hpa(lower, current, up, down) == lower
    assert all(hpa(n, current, up, down) == current for n in {lower + 1, (lower + current) // 2} if lower < n < current)


@given(REPLICAS, REPLICAS, REPLICAS, TOLERANCES, TOLERANCES)
def test_a_lasting_need_is_met_unless_no_step_fits_under_the_cap(
    need: int, current: int, upper: int, up: float, down: float
) -> None:
    """Asked again and again, the HPA comes to rest at or above the need, or as near below the cap as it can step."""
    assume(need <= upper)
    for _ in range(50):
        following = hpa(quantised(need, current, upper, up, down), current, up, down)
        if following == current:
            break
        current = following
    assert current >= need or smallest_step_up(current, up, down) > upper


@given(REPLICAS, REPLICAS, TOLERANCES)
def test_zero_is_kedas(target: int, upper: int, tolerance: float) -> None:
    """From zero and to zero there is nothing to round."""
    assert quantised(target, 0, upper, tolerance, tolerance) == target
    assert quantised(0, target, upper, tolerance, tolerance) == 0


SMALL = RateLimit(up_replicas=1, down_replicas=1, down_share=None)


@given(st.lists(maybe_blinded(), min_size=1, max_size=8), st.sampled_from([RateLimit(), SMALL]), st.integers(1, 40))
def test_a_decision_remembers_nothing_of_its_rounding(
    story: list[WorkloadObservation], rate: RateLimit, most: int
) -> None:
    """Whatever is seen, the memory is that of a decision for an exact HPA, but for what was told, and when."""
    decision = DecisionSettings(rate=rate, hold_s=60.0)
    coarse = Ticker(workload(hpa=HpaRules(), max_replicas=most), decision)
    exact = Ticker(workload(max_replicas=most), decision)
    for observation in story:
        result, twin = (each.tick(observation, every_s=60) for each in (coarse, exact))
        assert result.uncapped == twin.uncapped
        kept, plain = (each.state.workloads[CHAT] for each in (coarse, exact))
        assert replace(kept, target=None, changed=None) == replace(plain, target=None, changed=None)
