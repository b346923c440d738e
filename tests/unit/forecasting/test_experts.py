"""What every expert keeps. A new one is added to `forecasting.models`, and is held to all of it."""

import io
from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from forecasting.contract import Expert, Parameters
from forecasting.experts.boosting import Boosting
from forecasting.models import BASELINES, TIER_1, TIER_2
from forecasting.window import window_of
from tests.unit.forecasting.series_makers import AHEAD, DAY, HORIZONS, batch, usual, window, with_gaps

EXPERTS = (*TIER_1, *TIER_2, *BASELINES)
ORIGINS = 2 * DAY

pytestmark = pytest.mark.parametrize("expert", EXPERTS, ids=lambda expert: expert.name)


def _said(expert: Expert, rows: NDArray[np.float64], origins: int = ORIGINS) -> NDArray[np.float64]:
    seen = window(rows)
    return expert.predict(expert.fit(seen, HORIZONS), seen, HORIZONS, origins)


def _same(one: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    return np.array_equal(one, other, equal_nan=True)


def test_the_same_input_gives_the_same_output_and_is_not_changed(expert: Expert) -> None:
    """Bit by bit."""
    seen = window(with_gaps(usual()))
    before = [array.copy() for array in (seen.level, seen.season, seen.offset)]
    parameters = expert.fit(seen, HORIZONS)
    first = expert.predict(parameters, seen, HORIZONS, ORIGINS)
    again = expert.predict(expert.fit(seen, HORIZONS), seen, HORIZONS, ORIGINS)
    assert _same(first, again)
    assert all(_same(a, b) for a, b in zip(before, (seen.level, seen.season, seen.offset), strict=True))


def test_the_shape_is_series_by_horizons_by_origins(expert: Expert) -> None:
    """Also with a stride, which picks from the same predictions, the last one among them."""
    seen = window(usual())
    parameters = expert.fit(seen, HORIZONS)
    every = expert.predict(parameters, seen, HORIZONS, ORIGINS)
    third = expert.predict(parameters, seen, HORIZONS, ORIGINS, 3)
    assert every.shape == (2, len(HORIZONS), ORIGINS)
    assert third == pytest.approx(every[..., ::-1][..., ::3][..., ::-1], nan_ok=True, rel=1e-5)


def test_nothing_after_an_origin_matters(expert: Expert) -> None:
    """With parameters of before, whatever comes later changes no prediction of earlier origins."""
    rows, changed = usual(), usual()
    known = rows.shape[1] - DAY
    changed[:, known:] *= np.random.default_rng(3).uniform(0, 5, changed[:, known:].shape)
    parameters = expert.fit(window(rows[:, :known]), HORIZONS)
    one = _before(expert, parameters, rows, known)
    other = _before(expert, parameters, changed, known)
    assert one == pytest.approx(other, nan_ok=True, rel=1e-9)


def _before(expert: Expert, parameters: Parameters, rows: NDArray[np.float64], known: int) -> NDArray[np.float64]:
    """Return the predictions of origins before `known`, from a window that goes on after it."""
    offset = window(rows[:, :known]).offset  # that of the fit, as in service
    later = window_of(batch(rows), AHEAD, offset=offset)
    return expert.predict(parameters, later, HORIZONS, DAY + ORIGINS)[..., : ORIGINS - 1]


def test_a_series_alone_is_as_in_a_batch(expert: Expert) -> None:
    """Who else is forecast does not matter, but for a model of all series together."""
    if isinstance(expert, Boosting):
        pytest.skip("it is one model over all series: what others are like matters by design")
    rows = with_gaps(usual(series=3))
    together = _said(expert, rows)
    for i in range(3):
        assert _said(expert, rows[i : i + 1])[0] == pytest.approx(together[i], nan_ok=True, rel=1e-4, abs=1e-4)


def test_parameters_are_plain_arrays(expert: Expert) -> None:
    """They go to a file and back without pickle, and say the same."""
    seen = window(usual())
    parameters = expert.fit(seen, HORIZONS)
    file = io.BytesIO()
    np.savez(file, **{name: np.asarray(array) for name, array in parameters.items()})  # type: ignore[arg-type]
    file.seek(0)
    with np.load(file, allow_pickle=False) as found:
        back: Mapping[str, NDArray[np.float64]] = {name: found[name] for name in found.files}
    assert _same(expert.predict(parameters, seen, HORIZONS, ORIGINS), expert.predict(back, seen, HORIZONS, ORIGINS))


@pytest.mark.parametrize(
    "rows",
    [
        np.full((2, 12 * DAY), 7.0),
        np.zeros((2, 12 * DAY)),
        np.full((2, 12 * DAY), np.nan),
        with_gaps(usual()),
        np.where(np.random.default_rng(4).random((2, 12 * DAY)) < 0.8, 0.0, 5.0),
        np.concatenate([np.full((2, 9 * DAY), np.nan), usual(days=3)], axis=1),
    ],
    ids=["constant", "zeros", "missing", "gaps", "intermittent", "young"],
)
def test_odd_series_give_a_number_or_none_and_never_an_error(expert: Expert, rows: NDArray[np.float64]) -> None:
    """Nothing infinite, and nothing far from what was seen."""
    said = _said(expert, rows)
    seen = window(rows)
    known = seen.level[np.isfinite(seen.level)]
    finite = said[np.isfinite(said)]
    assert not np.isinf(said).any()
    if len(finite):
        assert finite.min() >= known.min() - 5
        assert finite.max() <= known.max() + 5


def test_a_constant_is_forecast_as_itself_or_not_at_all(expert: Expert) -> None:
    """Whatever the model."""
    said = _said(expert, np.full((1, 12 * DAY), 7.0))
    constant = window(np.full((1, 12 * DAY), 7.0)).level[0, 0]
    assert said[np.isfinite(said)] == pytest.approx(constant, abs=1e-3)


def test_a_history_of_just_what_it_needs_is_enough(expert: Expert) -> None:
    """And horizon 1 alone."""
    days = max(2, int(np.ceil(expert.needs_days)))
    rows = usual(days=days)
    seen = window(rows)
    said = expert.predict(expert.fit(seen, (1,)), seen, (1,), 1)
    assert said.shape == (2, 1, 1)


def test_a_change_of_level_is_followed(expert: Expert) -> None:
    """A week after the service became five times as busy, and with a fit of now, forecasts are at the new level."""
    rows = usual(days=22, series=1)
    rows[:, 14 * DAY :] *= 5
    said = _said(expert, rows, DAY)
    if not np.isfinite(said).any():
        return  # none for such a series
    seen = window(rows)
    off = np.abs(said[0, 0, :-1] - seen.level[0, -DAY + 1 :])
    assert np.nanmedian(off) < 0.7  # the old level is 1.6 away
