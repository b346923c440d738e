"""Direct ridge regression on lags, seasons and Fourier terms: one linear model a series and horizon.

The target is the log ratio of the level at the horizon to the present one, so that growth beyond what was seen can be
foreseen, and a model that has learned nothing is the last value. Hoerl and Kennard 1970; "direct" as in Ben Taieb and
Hyndman 2012: each horizon has a model of its own, no prediction is fed back.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forecasting.contract import Parameters, Window, origin_points
from forecasting.experts.features import Features
from forecasting.series import Values


@dataclass(frozen=True, slots=True)
class Ridge:
    """Ridge on lags and Fourier terms."""

    penalty: float = 0.01  # per row, of standardised features
    half_life_days: float = 14.0
    rows: int = 800  # neighbours tell nearly the same: of more rows, only each second, third ... is learned from
    name: str = "ridge"
    needs_days: float = 1.5

    def fit(self, window: Window, horizons: tuple[int, ...]) -> Parameters:
        """Return `coefficients` (series, horizons, features) on raw features, and `intercept` (series, horizons)."""
        rows = window.points - window.calendar.day_points - 1
        if rows < window.calendar.day_points // 2:
            return {}
        features = Features(window, origin_points(window, rows, max(1, rows // self.rows)))
        fitted = [self._fit_one(window, features, horizon) for horizon in horizons]
        return {
            "coefficients": np.stack([coefficients for coefficients, _ in fitted], axis=1),
            "intercept": np.stack([intercept for _, intercept in fitted], axis=1),
        }

    def _fit_one(self, window: Window, features: Features, horizon: int) -> tuple[Values, Values]:
        usable = features.at + horizon < window.points  # the last origins have no outcome yet
        then = features.at[usable] + horizon
        design = features.of(horizon, _rows_of(features.fourier(), window.count))[:, usable]
        move = window.level[:, then] - features.now[:, usable]
        age_days = (window.points - 1 - then) / window.calendar.day_points
        weight = 0.5 ** (age_days / self.half_life_days) * (window.known[:, then] & np.isfinite(move))
        return _weighted_ridge(design, np.where(np.isfinite(move), move, 0.0), weight, self.penalty)

    def predict(
        self, parameters: Parameters, window: Window, horizons: tuple[int, ...], origins: int, stride: int = 1
    ) -> Values:
        """Return the level at each origin plus the predicted log ratio."""
        at = origin_points(window, origins, stride)
        if not parameters:
            return np.full((window.count, len(horizons), len(at)), np.nan)
        features = Features(window, at)
        # A fit from before two weeks were there knows no weekly terms: they come last, and stay out.
        terms = parameters["coefficients"].shape[2]
        fourier, found = _rows_of(features.fourier()[:, : terms - features.count], window.count), []
        for i, horizon in enumerate(horizons):
            coefficients = parameters["coefficients"][:, i].astype(np.float32)
            move = np.matmul(features.of(horizon, fourier), coefficients[:, :, None])[:, :, 0]
            found.append(features.now + move + parameters["intercept"][:, i, None])
        return np.stack(found, axis=1)


def _rows_of(terms: Values, series: int) -> list[Values]:
    """Return each of the terms (origins, terms) for all series."""
    return [np.broadcast_to(term, (series, len(term))) for term in terms.T]


def _weighted_ridge(
    design: NDArray[np.float32], target: Values, weight: Values, penalty: float
) -> tuple[Values, Values]:
    """Return raw coefficients (series, features) and intercepts (series,) of a ridge on standardised features."""
    total = np.maximum(weight.sum(axis=1), 1e-12)
    share = (weight / total[:, None]).astype(np.float32)
    mean = np.matmul(share[:, None, :], design)[:, 0]
    root = np.sqrt(share)
    offset = (share * target).sum(axis=1)
    design -= mean[:, None, :]
    design *= root[:, :, None]
    gram = np.matmul(design.transpose(0, 2, 1), design).astype(np.float64)
    cross = np.matmul(design.transpose(0, 2, 1), (root * (target - offset[:, None])).astype(np.float32)[:, :, None])
    spread = np.sqrt(np.einsum("nkk->nk", gram))
    scale = np.where(spread > 1e-6, 1 / np.maximum(spread, 1e-6), 0.0)
    normal = gram * scale[:, :, None] * scale[:, None, :] + penalty * np.eye(gram.shape[1])
    coefficients = np.linalg.solve(normal, (cross[:, :, 0] * scale)[:, :, None])[:, :, 0] * scale
    return coefficients, offset - (coefficients * mean).sum(axis=1)
