"""The adaptive correction: what was really said is held against what came."""

import numpy as np
import pytest

from forecasting.tracking import RATE, Correction

OFFSET, BOUND = np.zeros(1), np.array([1e6])
SAID = np.array([[[10.0], [20.0], [40.0]]])


def test_who_has_seen_nothing_corrects_nothing() -> None:
    """A new series is told what the fit says."""
    assert Correction.none(1, 1).apply(SAID, OFFSET, BOUND) == pytest.approx(SAID)


def test_a_miss_raises_by_nine_times_what_a_hit_lowers() -> None:
    """At 0.9 the two are even when one in ten is missed."""
    start = Correction.none(1, 1)
    missed = start.learn(SAID, np.array([[30.0]])).spreads[0, :, 0]
    assert missed == pytest.approx([RATE * 0.5, RATE * 0.9, -RATE * 0.01])


def test_what_was_not_measured_teaches_nothing() -> None:
    """A gap in the metrics is no hit."""
    assert (Correction.none(1, 1).learn(SAID, np.array([[np.nan]])).spreads == 0).all()


def test_in_the_long_run_the_share_of_misses_is_the_nominal_one() -> None:
    """A forecast that is always half of what it should be covers nine in ten after a while all the same."""
    rng = np.random.default_rng(1)
    correction, covered = Correction.none(1, 1), []
    for _ in range(4000):
        said = correction.apply(SAID / 2, OFFSET, BOUND)
        actual = np.array([[rng.lognormal(np.log(10), np.log(2) / 1.2816)]])
        covered.append(actual <= said[:, :, 0])
        correction = correction.learn(said, actual)
    assert np.mean(covered[1000:], axis=0)[0, :2] == pytest.approx([0.5, 0.9], abs=0.02)


def test_corrected_quantiles_are_in_order_and_within_bounds() -> None:
    """Whatever the corrections are."""
    correction = Correction(np.array([[[3.0], [-1.0], [-1.0]]]))
    found = correction.apply(SAID, OFFSET, np.array([35.0]))[0, :, 0]
    assert (np.diff(found) >= 0).all()
    assert found.max() == 35.0
