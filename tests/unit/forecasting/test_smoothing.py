"""Exponential smoothing: our filters say what statsmodels says with the same parameters."""

import numpy as np
import pytest
from statsmodels.tsa.exponential_smoothing.ets import ETSModel
from statsmodels.tsa.holtwinters import ExponentialSmoothing

from forecasting.contract import Window
from forecasting.experts.arima import Arima
from forecasting.experts.holt_winters import HoltWinters, smooth
from forecasting.experts.smoothing import Ets, TunedHoltWinters
from forecasting.series import Batch
from forecasting.window import window_of

HOUR_S = 3600
HORIZONS = (1, 3)


def _window(values: np.ndarray) -> Window:
    return window_of(Batch.of(values, HOUR_S), 8)


@pytest.fixture(scope="module")
def window() -> Window:
    """Return twenty days of hours with a season, a drift and noise."""
    rng = np.random.default_rng(5)
    at = np.arange(20 * 24)
    return _window(np.exp(2 + np.sin(2 * np.pi * at / 24) + 0.002 * at + rng.normal(0, 0.1, at.size)))


def test_holt_winters_is_that_of_statsmodels(window: Window) -> None:
    """With the same shares and the same first day, one step ahead, once both are under way."""
    values, day = window.level[0], 24
    first = values[:day].mean()
    theirs = ExponentialSmoothing(
        values,
        seasonal="add",
        seasonal_periods=day,
        initialization_method="known",
        initial_level=first,
        initial_seasonal=values[:day] - first,
    ).fit(smoothing_level=0.4, smoothing_seasonal=0.2, optimized=False)
    ours = smooth(window, 0.4, 0.2, np.array([0])).ahead(1, np.arange(window.points - 1))[0]
    assert ours == pytest.approx(theirs.fittedvalues[1:], abs=1e-9)


def test_ets_is_that_of_statsmodels(window: Window) -> None:
    """The filter with the fitted shares, from its second day on, when the start is forgotten."""
    values = window.level[0]
    theirs = ETSModel(values, trend="add", damped_trend=True, initialization_method="heuristic").fit(disp=False)
    parameters = Ets().fit(window, HORIZONS)
    ours = Ets().predict(parameters, window, HORIZONS, window.points)[0, 0]
    assert ours[100:-1] == pytest.approx(theirs.fittedvalues[101:], abs=1e-3)


def test_arima_follows_a_process_that_it_knows() -> None:
    """Of an AR(1) with 0.8 the forecast three steps ahead is half of what was left of the mean."""
    rng = np.random.default_rng(6)
    values = np.zeros(1200)
    for i in range(1, len(values)):
        values[i] = 0.8 * values[i - 1] + rng.normal(0, 0.1)
    window = _window(np.exp(values + 3))
    found = Arima().predict(Arima().fit(window, HORIZONS), window, HORIZONS, 50)[0]
    left = window.level[0, -50:] - window.level[0].mean()
    slope = np.polyfit(left, found[1] - window.level[0].mean(), 1)[0]
    assert slope == pytest.approx(0.8**3, abs=0.12)


@pytest.mark.parametrize("expert", [TunedHoltWinters(), Ets(), Arima()], ids=lambda expert: expert.name)
def test_what_cannot_be_fitted_has_no_prediction_and_is_no_error(
    expert: TunedHoltWinters | Ets | Arima,
) -> None:
    """A constant series, one of zeros and one of gaps: not a number, and nothing raised."""
    rows = np.stack([np.full(200, 7.0), np.zeros(200), np.full(200, np.nan)])
    window = _window(rows)
    found = expert.predict(expert.fit(window, HORIZONS), window, HORIZONS, 10)
    assert np.isnan(found).all()


def test_the_season_follows_the_clocks() -> None:
    """A service that is busy at 9 in the morning is busy at 9 after the clocks have changed."""
    from zoneinfo import ZoneInfo

    start = 1_743_206_400 - 14 * 86_400  # 16 March 2025; clocks in Berlin change on the 30th
    batch = Batch.of(np.ones(18 * 24), HOUR_S, start_s=start)
    local = window_of(batch, 8, zone=ZoneInfo("Europe/Berlin"))
    hour = np.floor(local.calendar.time_of_day[: batch.grid.count] * 24).astype(int)
    busy = np.where(hour == 9, 100.0, 10.0)
    window = window_of(Batch.of(busy, HOUR_S, start_s=start), 8, zone=ZoneInfo("Europe/Berlin"))
    expert = HoltWinters()
    found = expert.predict(expert.fit(window, (1,)), window, (1,), 24)[0, 0]
    said = found[:-1][np.diff(window.level[0, -24:]) > 1]  # of the hour before 9 on the last day
    assert said == pytest.approx(window.level[0].max(), abs=0.3)
