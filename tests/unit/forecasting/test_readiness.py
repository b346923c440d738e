"""Whether there is enough history, and from when on there will be."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecasting.forecast import Absent
from forecasting.readiness import readiness
from forecasting.series import Batch

STEP_S = 3600


def _ready(values: np.ndarray) -> Absent | None:
    return readiness(Batch.of(values, STEP_S))[0]


def test_a_day_is_enough() -> None:
    """Twenty-four hours, measured."""
    assert _ready(np.ones(24)) is None


def test_less_than_a_day_is_ready_when_the_day_is_full() -> None:
    """Of 20 hours, 4 are missing: the last point is at 19 hours, so it is 23 hours."""
    assert _ready(np.ones(20)) == Absent("not_enough_history", 23 * STEP_S)


def test_what_was_before_the_first_value_is_no_history() -> None:
    """Two days of nothing and then 5 hours."""
    assert _ready(np.append(np.full(48, np.nan), np.ones(5))) == Absent("not_enough_history", (52 + 19) * STEP_S)


def test_gaps_must_be_made_up_for() -> None:
    """A day of which only 3 hours were measured needs 9 more."""
    values = np.full(24, np.nan)
    values[[0, 10, 23]] = 1.0
    assert _ready(values) == Absent("not_enough_history", (23 + 9) * STEP_S)


def test_nothing_at_all_is_told_apart() -> None:
    """A series that was never measured."""
    assert _ready(np.full(48, np.nan)) == Absent("no_data", (47 + 24) * STEP_S)


def test_a_series_that_has_stopped_is_stale() -> None:
    """Enough history, but the present is not known."""
    assert _ready(np.append(np.ones(48), np.full(2, np.nan))) == Absent("stale")
    assert _ready(np.append(np.ones(48), np.full(1, np.nan))) is None


@given(st.lists(st.booleans(), min_size=1, max_size=80))
def test_what_is_promised_comes_true(known: list[bool]) -> None:
    """If every step from now on is measured, it is ready at the time that was named, and not a step before."""
    values = np.where(known, 1.0, np.nan)
    found = _ready(values)
    if found is None or found.ready_at_s is None or found.reason == "no_data":
        return
    steps = round(found.ready_at_s / STEP_S) - (len(values) - 1)
    assert steps >= 1
    assert _ready(np.append(values, np.ones(steps))) is None
    before = _ready(np.append(values, np.ones(steps - 1)))
    assert before is not None
    assert before.ready_at_s == pytest.approx(found.ready_at_s)
