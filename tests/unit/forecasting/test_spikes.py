"""One-off spikes do not come back; what comes back is no spike."""

import numpy as np
import pytest
from numpy.typing import NDArray

from forecasting.calendar import calendar_of
from forecasting.forecaster import Forecaster
from forecasting.models import TIER_1
from forecasting.series import Batch, Grid
from forecasting.spikes import LIMIT, despiked

DAY = 288
AT = np.arange(9 * DAY)


def _usual() -> NDArray[np.float64]:
    rng = np.random.default_rng(4)
    values: NDArray[np.float64] = 100 + 40 * np.sin(2 * np.pi * AT / DAY) + rng.normal(0, 2, AT.size)
    return values


def _despiked(values: NDArray[np.float64]) -> NDArray[np.float64]:
    grid = Grid(0, 300, values.size)
    return np.asarray(np.exp(despiked(np.log(values)[None], calendar_of(grid, 0), 300)[0]))


def test_a_spike_is_cut_to_what_was_usual() -> None:
    """Half an hour of five times as much, on the fifth day."""
    values, usual = _usual(), _usual()
    values[5 * DAY + 100 : 5 * DAY + 106] *= 5
    found = _despiked(values)
    assert (found[5 * DAY + 100 : 5 * DAY + 106] < np.exp(LIMIT) * 1.4 * usual[5 * DAY + 100 : 5 * DAY + 106]).all()
    rest = np.ones(AT.size, dtype=bool)
    rest[5 * DAY + 100 : 5 * DAY + 106] = False
    assert found[rest] == pytest.approx(values[rest])


def test_a_peak_of_every_day_stays() -> None:
    """A batch job at the same time each day is a season, from its second day on."""
    values = _usual()
    for day in range(3, 9):
        values[day * DAY + 100 : day * DAY + 106] *= 5
    found = _despiked(values)
    assert found[4 * DAY :] == pytest.approx(values[4 * DAY :])


def test_a_change_of_level_stays() -> None:
    """A service that is five times as busy from the sixth day on."""
    values = _usual()
    values[6 * DAY :] *= 5
    found = _despiked(values)
    assert found[6 * DAY + 60 :] == pytest.approx(values[6 * DAY + 60 :])


@pytest.mark.parametrize("days_later", [1, 7])
def test_a_spike_does_not_raise_the_forecast_of_that_time_later(days_later: int) -> None:
    """A viral hour is not foreseen again a day or a week later."""
    at = np.arange((9 + days_later) * DAY)
    rng = np.random.default_rng(4)
    values = 100 + 40 * np.sin(2 * np.pi * at / DAY) + rng.normal(0, 2, at.size)
    spike = 8 * DAY + 100
    origin = spike + days_later * DAY - 6  # half an hour before the spike would come again
    viral = values.copy()
    viral[spike : spike + 12] *= 6
    forecaster = Forecaster(TIER_1)
    found = []
    for rows in (values, viral):
        batch = Batch.of(rows, 300).until(origin + 1)
        found.append(forecaster.forecast(forecaster.fit(batch), batch).point[0, :, 1])
    assert (found[1] <= 1.35 * found[0]).all()
