"""Between two points of the grid: a forecast is moved on, and corrected by what is seen."""

import numpy as np
import pytest
from numpy.typing import NDArray

from forecasting.forecast import Forecasts
from forecasting.forecaster import Forecaster
from forecasting.models import TIER_1
from forecasting.refresh import refreshed
from forecasting.series import Batch

STEP_S = 300


@pytest.fixture(scope="module")
def day() -> Batch:
    """Return four days of a noisy daily season, and the same ten times larger."""
    rng = np.random.default_rng(3)
    at = np.arange(4 * 288)
    values = 50 + 30 * np.sin(2 * np.pi * at / 288) + rng.normal(0, 2, at.size)
    return Batch.of(np.stack([values, 10 * values]), STEP_S)


def _refreshed(day: Batch, passed_s: float, level: NDArray[np.float64]) -> tuple[Forecasts, Forecasts]:
    forecaster = Forecaster(TIER_1)
    fitted = forecaster.fit(day)
    before = forecaster.forecast(fitted, day)
    return before, refreshed(before, fitted, before.at_s + passed_s, level)


def test_no_time_and_no_news_change_nothing(day: Batch) -> None:
    """At the origin itself, with the level of the origin, the forecast is as it was."""
    before, after = _refreshed(day, 0, np.array([np.nan, np.nan]))
    assert after.point == pytest.approx(before.point)
    assert after.window_max == pytest.approx(before.window_max)


def test_the_horizons_begin_now(day: Batch) -> None:
    """Half a step later what is asked for is half a step later."""
    before, after = _refreshed(day, 150, np.array([np.nan, np.nan]))
    assert after.times_s == tuple(at + 150 for at in before.times_s)
    between = (before.point[:, 1] * 5 + before.point[:, 2]) / 6  # 150 of the 900 s from 900 s to 1800 s
    assert after.point[:, 1] == pytest.approx(between, rel=1e-9)


def test_more_than_expected_raises_and_less_lowers(day: Batch) -> None:
    """By no more than the surprise itself, and by more the more of the step has passed."""
    before, _ = _refreshed(day, 0, np.array([np.nan, np.nan]))
    silent = _refreshed(day, 240, np.array([np.nan, np.nan]))[1].point
    high = _refreshed(day, 240, 2 * before.level)[1].point
    early = _refreshed(day, 60, 2 * before.level)[1].point
    low = _refreshed(day, 240, before.level / 2)[1].point
    assert (high[:, 0] > silent[:, 0]).all()
    assert (low[:, 0] < silent[:, 0]).all()
    assert (high[:, 0] <= 2.2 * silent[:, 0]).all()
    assert (early[:, 0] < high[:, 0]).all()


def test_the_unit_does_not_matter(day: Batch) -> None:
    """Ten times the series is ten times the forecast."""
    _, after = _refreshed(day, 100, day.values[:, -1] * 1.3)
    assert after.point[1] == pytest.approx(10 * after.point[0], rel=1e-6)


@pytest.mark.parametrize("passed_s", [-1, STEP_S + 1])
def test_it_is_for_one_step_only(day: Batch, passed_s: int) -> None:
    """A step later there is a new prediction; before the origin there was none."""
    with pytest.raises(ValueError, match="now_s must be at most 300 s after"):
        _refreshed(day, passed_s, day.values[:, -1])
