"""What every model keeps as a product: quantiles at the times that were asked for, from whatever series."""

import io
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from forecasting.contract import Parameters, Window
from forecasting.experts.naive import LastValue
from forecasting.fitted import TARGETS, Fitted
from forecasting.forecast import Forecasts
from forecasting.forecaster import BOUND, Forecaster
from forecasting.models import HEADWAY, MODELS, TIER_1
from tests.unit.forecasting.series_makers import DAY, STEP_S, batch, usual, with_gaps

HORIZONS_S = (STEP_S, 3 * STEP_S)
EVERY = pytest.mark.parametrize("name", list(MODELS))


def _forecaster(name: str) -> Forecaster:
    return Forecaster(MODELS[name], HORIZONS_S)


def _forecast(name: str, rows: NDArray[np.float64]) -> Forecasts:
    forecaster, seen = _forecaster(name), batch(rows)
    return forecaster.forecast(forecaster.fit(seen), seen)


@EVERY
@pytest.mark.parametrize("rows", [usual(), with_gaps(usual())], ids=["usual", "gaps"])
def test_quantiles_are_in_order_not_negative_and_bounded(name: str, rows: NDArray[np.float64]) -> None:
    """By a multiple of what was seen; the window's maximum is not below the point by much."""
    found = _forecast(name, rows)
    for target in TARGETS:
        values = found.of(target)
        known = np.isfinite(values).all(axis=(1, 2))
        assert (np.diff(values[known], axis=2) >= 0).all()
        assert (values[known] >= 0).all()
        assert (values[known] <= BOUND * np.nanmax(rows, axis=1)[known, None, None]).all()
        assert known.tolist() == [absent is None for absent in found.absent]


@EVERY
def test_the_times_are_those_asked_for(name: str) -> None:
    """Horizons after the last point of the batch, whatever the step."""
    found, seen = _forecast(name, usual()), batch(usual())
    assert found.times_s == tuple(seen.grid.last_s + horizon for horizon in HORIZONS_S)
    assert found.horizons_s == HORIZONS_S


@EVERY
def test_a_constant_is_forecast_as_itself(name: str) -> None:
    """All quantiles, or none."""
    found = _forecast(name, np.full((1, 12 * DAY), 7.0))
    for target in TARGETS:
        values = found.of(target)
        assert values[np.isfinite(values)] == pytest.approx(7.0, rel=1e-2)


@EVERY
def test_nothing_is_forecast_as_nothing(name: str) -> None:
    """A series of zeros: zeros, and no division by them."""
    values = _forecast(name, np.zeros((1, 12 * DAY))).point
    assert values[np.isfinite(values)] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("name", [HEADWAY, "headway-tier-1"])
@pytest.mark.parametrize(
    "rows", [usual(), with_gaps(usual()), np.full((1, 12 * DAY), 3.0)], ids=["usual", "gaps", "flat"]
)
def test_ours_always_has_a_forecast_of_a_series_with_history(name: str, rows: NDArray[np.float64]) -> None:
    """A combination is absent only where all experts are."""
    assert _forecast(name, rows).absent == [None] * len(rows)


def test_a_series_without_a_present_has_none_and_a_reason() -> None:
    """All missing in a batch of others, whose forecasts do not change for it."""
    rows = usual(series=2)
    found = _forecast("headway-tier-1", np.concatenate([rows, np.full((1, rows.shape[1]), np.nan)]))
    assert [absent and absent.reason for absent in found.absent] == [None, None, "no_data"]
    assert np.isnan(found.point[2]).all()
    assert found.point[:2] == pytest.approx(_forecast("headway-tier-1", rows).point, rel=1e-4)


def test_a_young_series_is_told_when_it_will_be_ready() -> None:
    """Twelve hours old: in twelve more."""
    rows = usual(days=3)
    rows[:, : 2 * DAY + 12] = np.nan
    found = _forecast("headway-tier-1", rows)
    assert found.absent[0] is not None
    assert found.absent[0].reason == "not_enough_history"
    assert found.absent[0].ready_at_s == batch(rows).grid.last_s + 12 * STEP_S


@settings(max_examples=10)
@given(st.sampled_from([1e-6, 1e-3, 60.0, 1e6]))
def test_the_unit_does_not_matter(factor: float) -> None:
    """Requests a minute are sixty times requests a second, and so are their forecasts."""
    one, other = _forecast("headway-tier-1", usual()), _forecast("headway-tier-1", usual() * factor)
    assert other.point == pytest.approx(one.point * factor, rel=1e-3)


def test_a_fit_goes_to_a_file_and_back_without_pickle() -> None:
    """And forecasts the same; its hash is of all that it is."""
    forecaster, seen = _forecaster("headway-tier-1"), batch(usual())
    fitted = forecaster.fit(seen)
    file = io.BytesIO()
    np.savez(file, **fitted.arrays())  # type: ignore[arg-type]
    file.seek(0)
    with np.load(file, allow_pickle=False) as arrays:
        back = Fitted.of({name: arrays[name] for name in arrays.files})
    assert back.digest() == fitted.digest() == forecaster.fit(seen).digest()
    assert np.array_equal(forecaster.forecast(back, seen).point, forecaster.forecast(fitted, seen).point)
    changed = replace(fitted, bound=fitted.bound * 2)
    assert changed.digest() != fitted.digest()


def test_nothing_after_the_origin_matters() -> None:
    """A fit and a forecast of a part of a series are those of the series up to there."""
    rows, changed = usual(days=14), usual(days=14)
    known = 12 * DAY
    changed[:, known:] *= 9
    forecaster = _forecaster("headway-tier-1")
    found = [batch(values).until(known) for values in (rows, changed)]
    one, other = (forecaster.forecast(forecaster.fit(seen), seen) for seen in found)
    assert np.array_equal(one.point, other.point)


def test_a_later_forecast_uses_an_earlier_fit() -> None:
    """An hour later, with what came since, and parameters of before."""
    rows = usual(days=12)
    forecaster = _forecaster("headway-tier-1")
    fitted = forecaster.fit(batch(rows).until(12 * DAY - 1))
    found = forecaster.forecast(fitted, batch(rows))
    assert found.at_s == batch(rows).grid.last_s
    assert np.isfinite(found.point).all()


def test_what_a_forecast_is_worth_is_told() -> None:
    """A season that a last value cannot see: more than a tenth of the loss is saved."""
    fitted = _forecaster("headway-tier-1").fit(batch(usual()))
    for target in TARGETS:
        assert (fitted.targets[target].skill[:, 1] > 0.1).all()


def test_an_expert_that_fails_has_no_weight() -> None:
    """Of a random walk only what is near the last value is left."""
    walk = np.exp(3 + np.cumsum(np.random.default_rng(7).normal(0, 0.05, (1, 15 * DAY)), axis=1))
    fitted = _forecaster("headway-tier-1").fit(batch(walk))
    weights = fitted.targets[TARGETS[0]].weights[0, :, 0, 1]
    names = [expert.name for expert in TIER_1]
    weak = [names.index(name) for name in ("yesterday", "week-ago", "intermittent")]
    assert weights[[*weak, *(len(names) + i for i in weak)]] == pytest.approx(0.0)


class Broken(LastValue):
    """Raises where it is told to."""

    fits: bool

    def __init__(self, *, fits: bool) -> None:
        super().__init__(name="broken")
        object.__setattr__(self, "fits", fits)

    def fit(self, window: Window, horizons: tuple[int, ...]) -> Parameters:
        """Fail, or not."""
        if not self.fits:
            raise np.linalg.LinAlgError("singular")
        return {}

    def predict(
        self, parameters: Parameters, window: Window, horizons: tuple[int, ...], origins: int, stride: int = 1
    ) -> NDArray[np.float64]:
        """Fail always."""
        raise ValueError("no prediction")


@pytest.mark.parametrize("fits", [False, True])
def test_a_model_that_fails_takes_no_other_with_it(fits: bool) -> None:
    """It has infinite loss, and the forecast is that of the others."""
    seen = batch(usual())
    with_it = Forecaster((*TIER_1, Broken(fits=fits)), HORIZONS_S)
    without = Forecaster(TIER_1, HORIZONS_S)
    found = with_it.forecast(with_it.fit(seen), seen)
    assert found.point == pytest.approx(without.forecast(without.fit(seen), seen).point)


def test_a_horizon_of_more_than_half_a_day_is_refused() -> None:
    """What happened once would be taken for a season before it is known that it did not come back."""
    with pytest.raises(ValueError, match="horizons_s must be at most 43200 s, was 46800"):
        Forecaster(TIER_1, (13 * STEP_S,)).fit(batch(usual()))


@pytest.mark.parametrize("horizon_s", [STEP_S // 2, STEP_S + 1, 0])
def test_a_horizon_that_is_no_whole_step_is_refused(horizon_s: int) -> None:
    """It would be a forecast of another time."""
    with pytest.raises(ValueError, match=f"horizons_s must be whole numbers of the step of 3600 s, was {horizon_s}"):
        Forecaster(TIER_1, (horizon_s,)).fit(batch(usual()))
