"""Harmonic regression with autoregressive errors: a smooth season, and a memory of the last departures from it.

Fourier terms of the local day and week by least squares, then an AR(p) on what is left by the Yule-Walker equations
(Box, Jenkins, Reinsel and Ljung 2015, chapter 3; Hyndman and Athanasopoulos 2021, section 10.5).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forecasting.contract import Parameters, Window, origin_points
from forecasting.experts.features import WEEKLY_DAYS
from forecasting.series import Values


@dataclass(frozen=True, slots=True)
class Harmonic:
    """Fourier terms of day and week with AR(p) errors."""

    day_harmonics: int = 8
    week_harmonics: int = 3
    order: int = 6
    name: str = "harmonic"
    needs_days: float = 2.0

    def fit(self, window: Window, horizons: tuple[int, ...]) -> Parameters:
        """Return `season` (series, terms) and `memory` (series, horizons, order)."""
        terms = self._terms(window, np.arange(window.points))
        filled = np.where(np.isfinite(window.level), window.level, 0.0)
        known = window.known & np.isfinite(window.level)
        mean = (filled * known).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
        centred = np.where(np.isfinite(window.level), window.level, mean[:, None])
        gram = terms.T @ terms + 1e-6 * window.points * np.eye(terms.shape[1])
        season = np.linalg.solve(gram, terms.T @ centred.T).T
        left = centred - season @ terms.T
        return {"season": season, "memory": _powers(_yule_walker(left, self.order), horizons)}

    def predict(
        self, parameters: Parameters, window: Window, horizons: tuple[int, ...], origins: int, stride: int = 1
    ) -> Values:
        """Return season plus the part of the last departures that is remembered so far ahead."""
        season, memory = parameters["season"], parameters["memory"]
        at = origin_points(window, origins, stride)
        past = np.arange(max(0, int(at[0]) - self.order + 1), window.points)
        left = window.level[:, past] - season @ self._terms(window, past, season.shape[1]).T
        index = at[None, :] - np.arange(self.order)[:, None] - past[0]
        lags = np.where(index >= 0, left[:, np.maximum(index, 0)], 0.0)
        remembered = np.matmul(memory, np.where(np.isfinite(lags), lags, 0.0))
        seasons = [season @ self._terms(window, at + horizon, season.shape[1]).T for horizon in horizons]
        found = np.stack(seasons, axis=1) + remembered
        return np.where(np.isfinite(window.level[:, None, at]), found, np.nan)

    def _terms(self, window: Window, at: NDArray[np.int64], count: int | None = None) -> Values:
        """Return 1 and the sines and cosines at some points, (points, terms); of a later window as many as `count`."""
        day = window.calendar.time_of_day[at]
        week = (window.calendar.weekday[at] + day) / 7
        angles = [2 * np.pi * k * day for k in range(1, self.day_harmonics + 1)]
        angles += [2 * np.pi * k * week for k in range(1, self.week_harmonics + 1)] if _weekly(window) else []
        terms = [np.ones(len(at)), *(f(angle) for angle in angles for f in (np.sin, np.cos))]
        return np.stack(terms[:count], axis=-1)


def _weekly(window: Window) -> bool:
    return window.points >= WEEKLY_DAYS * window.calendar.day_points


def _yule_walker(left: Values, order: int) -> Values:
    """Return the AR coefficients (series, order) of series of mean zero; zeros for one without variance."""
    points = left.shape[1]
    products = [(left[:, : points - k] * left[:, k:]).sum(axis=1) / points for k in range(order + 1)]
    covariance = np.stack(products, axis=1)
    variance = covariance[:, 0]
    toeplitz = covariance[:, np.abs(np.subtract.outer(np.arange(order), np.arange(order)))]
    ridge = (1e-6 * variance + 1e-12)[:, None, None] * np.eye(order)
    return np.linalg.solve(toeplitz + ridge, covariance[:, 1:, None])[:, :, 0]


def _powers(coefficients: Values, horizons: tuple[int, ...]) -> Values:
    """Return the weights of the last `order` departures at each horizon: the first rows of companion powers."""
    series, order = coefficients.shape
    companion = np.zeros((series, order, order))
    companion[:, 0] = coefficients
    companion[:, np.arange(1, order), np.arange(order - 1)] = 1.0
    power, rows = companion, {}
    for horizon in range(1, max(horizons) + 1):
        rows[horizon] = power[:, 0]
        power = np.matmul(power, companion)
    return np.stack([rows[horizon] for horizon in horizons], axis=1)
