"""The global model: its trees as arrays say what scikit-learn's say, and no day is replayed by who has seen it."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor

from forecasting.experts import trees
from forecasting.experts.boosting import Boosting, Rows, fit_boosting, training_rows
from forecasting.series import Batch
from forecasting.window import window_of

DAY = 288


def test_trees_as_arrays_predict_what_scikit_learn_predicts() -> None:
    """Of a model with leaves on several levels, to the last bits; their layout in scikit-learn is not public."""
    rng = np.random.default_rng(1)
    features = rng.normal(size=(3000, 5))
    target = features[:, 0] ** 2 + np.where(features[:, 1] > 0.3, 3.0, 0.0) + rng.normal(0, 0.1, 3000)
    model = HistGradientBoostingRegressor(
        loss="quantile", quantile=0.9, max_iter=30, max_depth=trees.DEPTH, max_leaf_nodes=None, min_samples_leaf=150
    ).fit(features, target)
    nodes = [tree.nodes for (tree,) in model._predictors]
    heap = trees.heap_of(nodes, float(np.ravel(model._baseline_prediction)[0]))
    assert (
        len({int(depth) for tree in nodes for depth, leaf in zip(tree["depth"], tree["is_leaf"], strict=True) if leaf})
        > 1
    )
    assert trees.predict(heap, features) == pytest.approx(model.predict(features), abs=1e-12)


def test_no_rows_are_no_error() -> None:
    """A window of less than a day, and a model of nothing."""
    window = window_of(Batch.of(np.ones((2, 100)), 300), 16)
    rows = training_rows(window, 1, np.random.default_rng(0))
    assert len(rows.target) == 0
    parameters = fit_boosting([(300, rows)], trained_until_s=0.0)
    assert np.isnan(Boosting().predict(parameters, window, (1,), 5)).all()


def test_a_constant_gives_no_rows() -> None:
    """There is nothing to learn from a series that does not move."""
    window = window_of(Batch.of(np.full((1, 3 * DAY), 5.0), 300), 16)
    assert len(training_rows(window, 1, np.random.default_rng(0)).target) == 0


@pytest.fixture(scope="module")
def learned() -> tuple[Boosting, dict[str, np.ndarray], Batch]:
    """Return a model of three services over ten days."""
    rng = np.random.default_rng(2)
    at = np.arange(10 * DAY)
    mean = 100 + 60 * np.sin(2 * np.pi * at / DAY)
    batch = Batch.of(np.stack([mean, 10 * mean, mean / 10]) * rng.lognormal(0, 0.05, (3, at.size)), 300)
    expert = Boosting(0.9)
    return expert, dict(expert.fit(window_of(batch.until(9 * DAY), 16), (12,))), batch


def test_it_is_above_nine_in_ten_of_what_comes(learned: tuple[Boosting, dict[str, np.ndarray], Batch]) -> None:
    """Of the day after those it was trained on, roughly: the rest is calibration's."""
    expert, parameters, batch = learned
    window = window_of(batch, 16)
    said = expert.predict(parameters, window, (12,), DAY)[:, 0, :-12]
    assert (window.level[:, -DAY + 12 :] <= said).mean() == pytest.approx(0.9, abs=0.07)


def test_a_day_is_replayed_by_the_model_that_has_not_seen_it(
    learned: tuple[Boosting, dict[str, np.ndarray], Batch],
) -> None:
    """Taking the models of one parity away changes what is said of the days of the other parity, and no others."""
    expert, parameters, batch = learned
    spoilt = {name: array * 0.0 if "/0/value" in name else array for name, array in parameters.items()}
    window = window_of(batch, 16)
    said = expert.predict(parameters, window, (12,), 10 * DAY - 24)
    changed = expert.predict(spoilt, window, (12,), 10 * DAY - 24)
    day = (np.arange(24, 10 * DAY) * 300) // 86_400
    differs = np.asarray(~np.isclose(said, changed).all(axis=(0, 1)))
    assert not differs[(day % 2 == 0) & (day < 9)].any()
    assert differs[(day % 2 == 1) & (day < 9)].mean() > 0.9
    assert differs[day == 9].mean() > 0.9  # the future is the mean of both


def test_rows_are_drawn_alike_for_the_same_seed() -> None:
    """And no more than asked for."""
    window = window_of(Batch.of(np.random.default_rng(3).gamma(5, 1, (2, 4 * DAY)), 300), 16)
    one, other = (training_rows(window, 3, np.random.default_rng(5), 100) for _ in range(2))
    assert len(one.target) == 200
    assert np.array_equal(one.features, other.features)
    assert len(Rows.joined([one, other]).target) == 400
