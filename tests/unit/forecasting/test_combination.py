"""Weights of experts: what they have cost lately decides, and nothing else does."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from forecasting.combination import MOST, discounted_loss, mix, pinball, weights


def test_pinball_is_the_cost_of_too_little_and_of_too_much() -> None:
    """At 0.9 a unit too little costs 0.9, a unit too much 0.1."""
    assert pinball(0.9, np.array([2.0, 1.0]), np.array([1.0, 2.0])) == pytest.approx([0.9, 0.1])


def test_what_is_unknown_costs_nothing_and_is_no_zero() -> None:
    """A gap in the replay does not make an expert cheap."""
    assert discounted_loss(np.array([[2.0, np.nan, 2.0]]), 10.0) == pytest.approx([2.0])


def test_a_late_loss_counts_more_than_an_early_one() -> None:
    """With a half-life of one origin the last loss weighs twice the one before."""
    assert discounted_loss(np.array([[0.0, 3.0]]), 1.0) == pytest.approx([2.0])


def test_an_expert_without_any_number_has_infinite_loss_and_no_weight() -> None:
    """A model that fails or is late can never win."""
    loss = discounted_loss(np.array([[[np.nan, np.nan], [1.0, 1.0]]]), 5.0)
    assert loss[0].tolist() == [np.inf, 1.0]
    assert weights(loss, reference=[1], always=[1])[0].tolist() == [0.0, 1.0]


def test_an_expert_that_does_not_beat_the_last_value_weighs_nothing() -> None:
    """The second is worse than the last value (the first), the third is better, the fourth is always in the race."""
    found = weights(np.array([[2.0, 2.1, 1.0, 2.1]]), reference=[0], always=[0, 3])[0]
    assert found[1] == 0
    assert found[2] > found[0] > found[3] > 0


def test_only_the_best_few_are_mixed() -> None:
    """Many that are nearly as good would only dilute."""
    found = weights(np.linspace(1, 1.1, 10)[None], reference=[9], always=[])[0]
    assert (found > 0).sum() == MOST


def test_a_perfect_expert_takes_all() -> None:
    """A loss of zero is no division by zero."""
    assert weights(np.array([[1.0, 0.0, 0.0]]), reference=[0], always=[0])[0].tolist() == [0.0, 0.5, 0.5]


@given(arrays(np.float64, (3, 8), elements=st.one_of(st.just(np.inf), st.floats(0, 1e9))), st.integers(0, 7))
def test_weights_are_shares(loss: np.ndarray, reference: int) -> None:
    """They add up to 1, or are all 0 where nobody has a finite loss; the best is never lighter than another."""
    found = weights(loss, reference=[reference], always=[reference])
    assert ((found >= 0) & (found <= 1)).all()
    for row, losses in zip(found, loss, strict=True):
        if np.isfinite(losses).any():
            assert row.sum() == pytest.approx(1.0)
            assert row[np.argmin(losses)] == row.max()
        else:
            assert not row.any()


def test_who_has_no_number_now_leaves_its_weight_to_the_others() -> None:
    """Of two experts with equal weight one is silent at the second origin, both at the third."""
    candidates = np.array([[[[1.0, 1.0, np.nan]], [[3.0, np.nan, np.nan]]]])
    found = mix(np.array([[[0.5], [0.5]]]), candidates)
    assert found[0, 0, :2].tolist() == [2.0, 1.0]
    assert np.isnan(found[0, 0, 2])
