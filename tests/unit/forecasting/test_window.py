"""Windows: logarithms, and gaps that are filled from what lies before them."""

import numpy as np
import pytest

from forecasting.series import Batch
from forecasting.window import OFFSET_SHARE, window_of

DAY = 288


def test_the_offset_is_a_share_of_the_mean_and_one_for_nothing() -> None:
    """Gaps do not count as zeros."""
    rows = np.stack([np.full(DAY, 4.0), np.zeros(DAY), np.full(DAY, np.nan), np.where(np.arange(DAY) % 2, np.nan, 8.0)])
    assert window_of(Batch.of(rows, 300), 4).offset == pytest.approx([4 * OFFSET_SHARE, 1.0, 1.0, 8 * OFFSET_SHARE])


def test_a_short_gap_is_the_last_value_and_a_long_one_is_yesterday() -> None:
    """Half an hour, and three hours of which the first is carried."""
    values = np.arange(1.0, 2 * DAY + 1)
    gaps = values.copy()
    gaps[DAY + 10 : DAY + 16] = np.nan
    gaps[DAY + 100 : DAY + 136] = np.nan
    window = window_of(Batch.of(gaps, 300), 4)
    found = np.exp(window.level[0]) - window.offset[0]
    assert found[DAY + 10 : DAY + 16] == pytest.approx(values[DAY + 9])
    assert found[DAY + 100 : DAY + 112] == pytest.approx(values[DAY + 99])
    assert found[DAY + 112 : DAY + 136] == pytest.approx(values[112:136])
    assert not window.known[0, DAY + 10]


def test_before_the_first_value_nothing_is_known() -> None:
    """A series that begins later is not filled backwards."""
    values = np.append(np.full(50, np.nan), np.ones(DAY))
    assert np.isnan(window_of(Batch.of(values, 300), 4).level[0, :50]).all()


def test_a_gap_of_days_is_filled_from_the_last_known_day() -> None:
    """A day at a time."""
    values = np.tile(np.arange(1.0, DAY + 1), 4)
    gaps = values.copy()
    gaps[DAY : 3 * DAY + 100] = np.nan
    window = window_of(Batch.of(gaps, 300), 4)
    found = np.exp(window.level[0]) - window.offset[0]
    assert found[2 * DAY + 12 : 3 * DAY] == pytest.approx(values[2 * DAY + 12 : 3 * DAY])
