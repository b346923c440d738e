"""Gradient-boosted quantiles: one global model over all series, on ratios to the present level (scikit-learn).

Friedman 2001; histogram-based as in LightGBM (Ke et al. 2017). Features and target are log ratios to the level at the
origin, in units of what the series usually moves in that time, so that one model serves series of any size, and growth
beyond the training maximum can be foreseen. Rows weigh by their move in the unit of the series: the loss is then close
to the pinball loss of the forecast itself. One model for each horizon and quantile, and each of them twice: from days
of one parity and of the other. A day is replayed by the model that has not seen it; the future by the mean of the two.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor

from forecasting.calendar import DAY_S
from forecasting.contract import Parameters, Window, origin_points
from forecasting.experts import trees
from forecasting.experts.features import Features, lagged, rolling_mean
from forecasting.series import Values

LEVELS: Final = (0.5, 0.9)
ROWS_PER_SERIES: Final = 10_000
ROWS: Final = 120_000  # of all series together
_FOLDS = 2
_LIMIT = 20.0  # of a target, in usual moves: what is beyond tells nothing of how to split
_ITERATIONS = 160
_LEARNING_RATE = 0.1
_LEAF_ROWS = 60  # an extreme quantile of a leaf needs more rows than a mean


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Training rows of one horizon: (rows, features), (rows,) each."""

    features: NDArray[np.float32]
    target: Values
    weight: Values
    day: Values  # since the epoch, whole numbers

    @classmethod
    def joined(cls, parts: Sequence["Rows"]) -> "Rows":
        """Return the rows of several windows together."""
        return cls(
            np.concatenate([part.features for part in parts]),
            np.concatenate([part.target for part in parts]),
            np.concatenate([part.weight for part in parts]),
            np.concatenate([part.day for part in parts]),
        )


def training_rows(window: Window, horizon: int, rng: np.random.Generator, per_series: int = ROWS_PER_SERIES) -> Rows:
    """Return rows drawn from the origins of a window whose outcome is known, a day after its start at the earliest."""
    at = np.arange(window.calendar.day_points, window.points - horizon)
    if len(at) == 0:
        return Rows(np.empty((0, 0), dtype=np.float32), np.empty(0), np.empty(0), np.empty(0))
    features, usual = _features(window, horizon, at)
    now = lagged(window, 0, at)
    target = (window.level[:, at + horizon] - now) / np.where(usual > _SMALLEST, usual, np.nan)
    usable = window.known[:, at + horizon] & np.isfinite(target)
    weight = np.maximum(np.exp(now) - window.offset[:, None], 0.0) * usual
    chosen = [_choose(usable[i], weight[i], rng, per_series) for i in range(window.count)]
    series = np.repeat(np.arange(window.count), [len(rows) for rows, _ in chosen])
    places = np.concatenate([rows for rows, _ in chosen])
    weights = np.concatenate([weights for _, weights in chosen])
    limited = np.clip(target[series, places], -_LIMIT, _LIMIT)
    return Rows(features[series, places], limited, weights, _days(window, at)[places])


_SMALLEST = 1e-6  # of a usual move: a series that moves less is constant


def _choose(
    usable: NDArray[np.bool_], weight: Values, rng: np.random.Generator, most: int
) -> tuple[NDArray[np.int64], Values]:
    rows = np.flatnonzero(usable).astype(np.int64)
    if len(rows) > most:
        rows = np.sort(rng.choice(rows, most, replace=False))
    mean = weight[rows].mean() if len(rows) else 1.0
    return rows, np.clip(weight[rows] / max(mean, 1e-12), 0.05, 10.0)


def _days(window: Window, at: NDArray[np.int64]) -> Values:
    return np.floor((window.grid.start_s + at * window.grid.step_s) / DAY_S)


def fit_boosting(rows: Iterable[tuple[int, Rows]], *, trained_until_s: float, seed: int = 0) -> Parameters:
    """Return the parameters of the models of each (horizon in seconds, rows); those with too few are left out."""
    found: dict[str, np.ndarray] = {"trained_until_s": np.array(float(trained_until_s))}
    for horizon_s, part in rows:
        for fold in range(_FOLDS):
            chosen = part.day % _FOLDS == fold
            if chosen.sum() < 20 * _LEAF_ROWS:
                break
            for level in LEVELS:
                model = _model(level, seed).fit(
                    part.features[chosen], part.target[chosen], sample_weight=part.weight[chosen]
                )
                found.update({f"{horizon_s}/{level}/{fold}/{k}": v for k, v in _arrays(model).items()})
    return found


def _model(level: float, seed: int) -> HistGradientBoostingRegressor:
    # Early stopping would draw its validation rows at random from a time series.
    return HistGradientBoostingRegressor(
        loss="quantile", quantile=level, max_iter=_ITERATIONS, learning_rate=_LEARNING_RATE, max_depth=trees.DEPTH,
        max_leaf_nodes=None, min_samples_leaf=_LEAF_ROWS, early_stopping=False, random_state=seed,
    )  # fmt: skip


def _arrays(model: HistGradientBoostingRegressor) -> Parameters:
    # scikit-learn has no public view of its trees; a test compares ours with its predictions.
    nodes = [tree.nodes for (tree,) in model._predictors]  # noqa: SLF001
    return trees.heap_of(nodes, float(np.ravel(model._baseline_prediction)[0]))  # noqa: SLF001


@dataclass(frozen=True, slots=True)
class Boosting:
    """One quantile of the global model. What it gives is calibrated like any other expert's number."""

    level: float = 0.9
    needs_days: float = 2.0

    @property
    def name(self) -> str:
        """Its name, with the quantile."""
        return f"boosting-{self.level:g}"

    def fit(self, window: Window, horizons: tuple[int, ...], seed: int = 0) -> Parameters:
        """Return the global model of the series of this window alone."""
        rng = np.random.default_rng(seed)
        per_series = max(1, min(ROWS_PER_SERIES, ROWS // window.count))
        step_s = window.grid.step_s
        rows = [(horizon * step_s, training_rows(window, horizon, rng, per_series)) for horizon in horizons]
        return fit_boosting(rows, trained_until_s=window.grid.last_s, seed=seed)

    def predict(
        self, parameters: Parameters, window: Window, horizons: tuple[int, ...], origins: int, stride: int = 1
    ) -> Values:
        """Return the level at each origin plus the predicted move."""
        at = origin_points(window, origins, stride)
        return np.stack([self._predict(parameters, window, horizon, at) for horizon in horizons], axis=1)

    def _predict(self, parameters: Parameters, window: Window, horizon: int, at: NDArray[np.int64]) -> Values:
        prefix = f"{horizon * window.grid.step_s}/{self.level}/"
        folds = [_part(parameters, f"{prefix}{fold}/") for fold in range(_FOLDS)]
        if not all(folds):
            return np.full((window.count, len(at)), np.nan)
        features, usual = _features(window, horizon, at)
        days = _days(window, at)
        future = window.grid.start_s + at * window.grid.step_s > float(parameters["trained_until_s"])
        moves = np.zeros((window.count, len(at)))
        for fold, model in enumerate(folds):
            used = future | (days % _FOLDS != fold)
            rows = features[:, used].reshape(-1, features.shape[2])
            moves[:, used] += trees.predict(model, rows).reshape(window.count, -1) * np.where(future[used], 0.5, 1.0)
        return lagged(window, 0, at) + moves * np.where(usual > _SMALLEST, usual, 0.0)


def _part(parameters: Parameters, prefix: str) -> Parameters:
    return {name.removeprefix(prefix): array for name, array in parameters.items() if name.startswith(prefix)}


def _features(window: Window, horizon: int, at: NDArray[np.int64]) -> tuple[NDArray[np.float32], Values]:
    """Return features (series, origins, features) in usual moves, and the usual move (series, origins)."""
    day = window.calendar.day_points
    usual = _usual_move(window, horizon, at)
    scale = np.where(usual > _SMALLEST, usual, 1.0)
    made = Features(window, at)
    steps = np.abs(np.diff(window.level, axis=1, prepend=window.level[:, :1]))
    lively = np.log((rolling_mean(steps, 12, at) + _SMALLEST) / (rolling_mean(steps, day, at) + _SMALLEST))
    above = made.now - rolling_mean(window.level, day, at)
    angle = np.broadcast_to(2 * np.pi * window.calendar.time_of_day[at], made.now.shape)
    features = made.of(horizon, [lively, above, np.log(scale), np.sin(angle), np.cos(angle)])
    features[:, :, : made.count] /= scale[:, :, None]
    return features, usual


def _usual_move(window: Window, horizon: int, at: NDArray[np.int64]) -> Values:
    """Return the mean absolute move in `horizon` steps over the last two days, (series, origins)."""
    moves = np.abs(window.level[:, horizon:] - window.level[:, :-horizon])
    moves = np.concatenate([np.full((window.count, horizon), np.nan), moves], axis=1)
    return rolling_mean(moves, 2 * window.calendar.day_points, at)
