"""Job queues: most steps are empty."""

import numpy as np
import pytest

from forecasting.contract import Window
from forecasting.experts.intermittent import Intermittent, is_intermittent
from forecasting.series import Batch
from forecasting.window import window_of


def _window(rows: np.ndarray) -> Window:
    return window_of(Batch.of(rows, 300), 8)


def _queue(chance: float, points: int = 3000) -> np.ndarray:
    rng = np.random.default_rng(2)
    return np.asarray(np.where(rng.random(points) < chance, rng.gamma(2.0, 5.0, points), 0.0))


def test_what_is_intermittent() -> None:
    """A queue is, a service is not, and nothing at all is not either."""
    rows = np.stack([_queue(0.2), np.full(3000, 5.0), np.zeros(3000), np.full(3000, np.nan)])
    assert is_intermittent(_window(rows)).tolist() == [True, False, False, False]


def test_the_expectation_is_how_often_times_how_much() -> None:
    """A fifth of the steps, ten each: two."""
    window = _window(_queue(0.2))
    expert = Intermittent()
    found = np.exp(expert.predict(expert.fit(window, (1,)), window, (1,), 2000)) - window.offset[0]
    assert found.mean() == pytest.approx(2.0, rel=0.15)


def test_a_queue_that_has_ended_is_forecast_to_stay_empty() -> None:
    """The chance falls with each empty step."""
    rows = np.append(_queue(0.3, 1500), np.zeros(400))
    window = _window(rows)
    expert = Intermittent()
    found = np.exp(expert.predict(expert.fit(window, (1,)), window, (1,), 1)) - window.offset[0]
    assert found[0, 0, 0] < 0.05


def test_others_get_no_prediction() -> None:
    """A busy service has better experts."""
    window = _window(np.full(600, 5.0))
    expert = Intermittent()
    assert np.isnan(expert.predict(expert.fit(window, (1,)), window, (1,), 5)).all()
