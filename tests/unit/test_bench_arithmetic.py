"""The arithmetic behind the figures of `make bench`."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.arithmetic import Spread, alternating, paired_ratios, percentile, schedule
from tests.bench.figures import Figure, Target

values = st.lists(st.floats(0, 1e6), min_size=1, max_size=200)
shares = st.floats(0.001, 1)


@given(values, shares)
def test_percentile_is_a_value_that_the_share_does_not_exceed(measured: list[float], share: float) -> None:
    """At least the share of the values is at or below the percentile, and no smaller value has that property."""
    found = percentile(measured, share)
    assert found in measured
    assert sum(value <= found for value in measured) >= share * len(measured)
    smaller = [value for value in measured if value < found]
    assert len(smaller) < share * len(measured)


def test_p99_of_a_hundred_calls_is_the_second_slowest() -> None:
    """One slow call in a hundred is within the 1 % that a p99 leaves out."""
    assert percentile([1.0] * 98 + [2.0, 9.0], 0.99) == 2.0


@pytest.mark.parametrize("share", [0.0, -0.1, 1.01, float("nan")])
def test_percentile_refuses_a_share_out_of_range(share: float) -> None:
    """A share outside (0, 1] has no percentile."""
    with pytest.raises(ValueError, match="share must be > 0 and <= 1"):
        percentile([1.0], share)


def test_nothing_measured_has_no_percentile_and_no_spread() -> None:
    """No values are an error, not a zero."""
    with pytest.raises(ValueError, match="at least 1 entry"):
        percentile([], 0.5)
    with pytest.raises(ValueError, match="at least 1 entry"):
        Spread.of([])


def test_ratios_are_taken_round_by_round() -> None:
    """A round in which the machine was slow for both sides does not move the median of the ratios."""
    quiet = paired_ratios([90, 90, 90], [100, 100, 100])
    disturbed = paired_ratios([90, 9, 90], [100, 10, 100])
    assert quiet.median == disturbed.median == pytest.approx(0.9)


@pytest.mark.parametrize(("measured", "reference"), [([1.0], [0.0]), ([1.0], [float("nan")]), ([1.0, 2.0], [1.0])])
def test_ratios_need_a_reference_for_every_round(measured: list[float], reference: list[float]) -> None:
    """A round without its reference, or with one of nothing, is an error and no ratio."""
    with pytest.raises(ValueError, match=r"reference must be > 0|zip\(\)"):
        paired_ratios(measured, reference)


@given(st.integers(1, 50))
def test_sides_take_turns_at_going_first(rounds: int) -> None:
    """Each side has as many turns, and over two rounds neither is always the later one."""
    order = alternating(rounds, ("a", "b"))
    assert Counter(order) == {"a": rounds, "b": rounds}
    assert order[:4] == ["a", "b", "b", "a"][: 2 * rounds]


@given(st.floats(0.5, 500), st.floats(0.1, 60))
def test_schedule_is_even_and_lasts(rate_rps: float, seconds: float) -> None:
    """Calls are due at even distances from the start on, as many as the rate asks for within the time."""
    due = schedule(rate_rps, seconds)
    assert due[0] == 0.0
    assert abs(len(due) - rate_rps * seconds) <= 1
    assert all(abs((later - earlier) * rate_rps - 1) < 1e-6 for earlier, later in pairwise(due))


@pytest.mark.parametrize(("rate_rps", "seconds"), [(0, 1), (1, 0), (-1, 1), (float("nan"), 1)])
def test_schedule_refuses_what_has_no_calls(rate_rps: float, seconds: float) -> None:
    """A rate or a time that is not above zero is an error."""
    with pytest.raises(ValueError, match="must be > 0"):
        schedule(rate_rps, seconds)


@pytest.mark.parametrize(
    ("target", "value", "met"),
    [
        (Target(at_least=0.8), 0.8, True),
        (Target(at_least=0.8), 0.79, False),
        (Target(at_most=3), 3.0, True),
        (Target(at_most=3), 3.1, False),
        (Target(at_most=3), float("nan"), False),
        (Target(at_least=1, at_most=2), 1.5, True),
        (Target(at_least=1, at_most=2), 2.5, False),
    ],
)
def test_targets(target: Target, value: float, *, met: bool) -> None:
    """A target is met on its bound, missed beyond it, and missed by what is no number."""
    assert Figure("group", "name", "ratio", value, target).met is met


def test_a_figure_without_a_target_is_neither_met_nor_missed() -> None:
    """What nothing was promised about is only reported."""
    figure = Figure.of("group", "name", "ms", Spread.of([3.0, 1.0, 2.0]))
    assert figure.met is None
    assert figure.to_json() == {
        "group": "group",
        "name": "name",
        "unit": "ms",
        "value": 2.0,
        "target": None,
        "met": None,
        "low": 1.0,
        "high": 3.0,
        "values": [3.0, 1.0, 2.0],
    }
