"""The forecaster: experts, calibrated alike and combined, for a batch of series. One expert alone is a forecaster too.

`fit` learns from a window of history and replays its last days; it is run every hour for all series. `forecast` needs
only what came since, and is cheap. Both are pure functions of what they are given.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, tzinfo
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from forecasting import calibration, combination
from forecasting.calibration import Shifts, Windows
from forecasting.contract import Expert, Parameters, Window, origin_points
from forecasting.detection import shifted_since
from forecasting.fitted import TARGETS, Calibrated, Fitted
from forecasting.forecast import QUANTILES, Absent, Forecasts, Target
from forecasting.readiness import readiness
from forecasting.series import Batch, Values
from forecasting.window import window_of

# A fit looks at no more points: 15 days of 5 minutes, and more days where the step is longer.
MOST_POINTS: Final = 4320
# A forecast is at most so many times what was ever seen in the window.
BOUND: Final = 4.0
# Each so many origins are replayed, at most.
_REPLAYED: Final = 360
# Seasons are looked up a little beyond the horizon.
_AHEAD: Final = 4
# The loss that weighs the 0.99 quantile is that of 0.9: at 0.99 a few days hold too few misses to rank experts by.
_WEIGHED_BY: Final = (0, 1, 1)
# What a model raises that cannot cope with its data. Anything else is a fault of ours, and not hidden.
_FAILURES: Final = (ValueError, ArithmeticError, np.linalg.LinAlgError)
REFERENCE: Final = "last-value"
# A season is looked up a day before, free of spikes that are told from the hours after them: those must have passed.
FURTHEST_S: Final = 12 * 3600
NO_PREDICTION: Final = "no_prediction"
_ALWAYS: Final = (REFERENCE, "yesterday")


@dataclass(frozen=True, slots=True)
class Forecaster:
    """A set of experts and where it is used.

    `horizons_s` must be whole numbers of the step of the batches that it is given.
    """

    experts: Sequence[Expert]
    horizons_s: tuple[int, ...] = (300, 900, 1800, 3600)
    zone: tzinfo = UTC
    holidays: frozenset[date] = frozenset()

    def fit(self, batch: Batch, given: Mapping[str, Parameters] | None = None) -> Fitted:
        """Return what is learned from the last `MOST_POINTS` of a batch.

        `given` are parameters that were found elsewhere (slow models, by rotation): those experts are not fitted here.
        """
        recent = batch.until(batch.grid.count, MOST_POINTS)
        window = self.window(recent)
        learned = self.learn(window, given or {})
        return self.calibrate(learned, window, recent, self.replay(learned, window))

    def forecast(self, fitted: Fitted, batch: Batch) -> Forecasts:
        """Return the forecasts from the last point of a batch, which may be later than that of the fit."""
        recent = batch.until(batch.grid.count, MOST_POINTS)
        window = self.window(recent, fitted.offset)
        predicted = self.predict(fitted.experts, window, 1)
        found = {target: np.moveaxis(quantiles(fitted, predicted, target)[..., 0], 1, 2) for target in TARGETS}
        absent = _absent(recent, found)
        for values in found.values():
            values[[why is not None for why in absent]] = np.nan
        return Forecasts(
            at_s=recent.grid.last_s,
            horizons_s=tuple(h * fitted.step_s for h in fitted.horizons),
            quantiles=QUANTILES,
            point=found[Target.POINT],
            window_max=found[Target.WINDOW_MAX],
            level=np.exp(window.level[:, -1]) - window.offset,
            absent=absent,
        )

    def steps(self, batch: Batch) -> tuple[int, ...]:
        """Return the horizons in steps of a batch, ascending; ValueError if one is no whole number of them."""
        step_s = batch.grid.step_s
        for horizon_s in self.horizons_s:
            if horizon_s < step_s or horizon_s % step_s:
                raise ValueError(f"horizons_s must be whole numbers of the step of {step_s} s, was {horizon_s}")
            if horizon_s > max(FURTHEST_S, step_s):
                raise ValueError(f"horizons_s must be at most {FURTHEST_S} s, was {horizon_s}")
        return tuple(horizon_s // step_s for horizon_s in sorted(self.horizons_s))

    def window(self, batch: Batch, offset: Values | None = None) -> Window:
        """Return the window that the experts see of a batch."""
        ahead = max(self.steps(batch)) + _AHEAD
        return window_of(batch, ahead, zone=self.zone, holidays=self.holidays, offset=offset)

    def learn(self, window: Window, given: Mapping[str, Parameters]) -> dict[str, Parameters]:
        """Return the parameters of each expert, given or fitted; those that need more history are left out.

        So is one whose fit fails: the others go on without it, and it is missing from what is returned.
        """
        found = {}
        for expert in self.experts:
            if not self.is_ready(expert, window):
                continue
            parameters = given.get(expert.name)
            with suppress(*_FAILURES):
                found[expert.name] = expert.fit(window, self._horizons(window)) if parameters is None else parameters
        return found

    @staticmethod
    def is_ready(expert: Expert, window: Window) -> bool:
        """Return whether there is enough history for an expert."""
        return window.points >= expert.needs_days * window.calendar.day_points

    def predict(self, learned: Mapping[str, Parameters], window: Window, origins: int, stride: int = 1) -> Values:
        """Return what all experts say of the last origins, (series, experts, horizons, origins), in logarithms."""
        return np.stack([self._of_expert(expert, learned, window, origins, stride) for expert in self.experts], axis=1)

    def replay(self, learned: Mapping[str, Parameters], window: Window) -> Values:
        """Return what all experts would have said in the last days, at the origins of `replayed`."""
        origins, stride = replayed(window, self._horizons(window))
        return self.predict(learned, window, origins, stride)

    def _horizons(self, window: Window) -> tuple[int, ...]:
        return tuple(horizon_s // window.grid.step_s for horizon_s in sorted(self.horizons_s))

    def _of_expert(
        self, expert: Expert, learned: Mapping[str, Parameters], window: Window, origins: int, stride: int
    ) -> Values:
        horizons = self._horizons(window)
        if expert.name in learned:
            with suppress(*_FAILURES):
                return expert.predict(learned[expert.name], window, horizons, origins, stride)
        return np.full((window.count, len(horizons), len(origin_points(window, origins, stride))), np.nan)

    def calibrate(self, learned: Mapping[str, Parameters], window: Window, batch: Batch, predicted: Values) -> Fitted:
        """Return the fit: weights and calibration of the experts from their `replay`."""
        targets = {target: self._calibrate(window, batch, of_target(predicted, target), target) for target in TARGETS}
        horizons, grid = self._horizons(window), window.grid
        return Fitted(grid.last_s, grid.step_s, horizons, window.offset, _bound(batch), dict(learned), targets)

    def _calibrate(self, window: Window, batch: Batch, predicted: Values, target: Target) -> Calibrated:
        origins, stride = replayed(window, self._horizons(window))
        actual = outcomes(window, batch, self._horizons(window), origin_points(window, origins, stride), target)
        windows = Windows.of(window.calendar.day_points, stride)
        predicted, actual, offset = _single(predicted), _single(actual), _single(window.offset)
        shifts = Shifts.fit(predicted, actual, offset, QUANTILES, windows)
        truth = np.exp(actual) - offset[:, None, None]
        half_life = combination.HALF_LIFE_DAYS * window.calendar.day_points / stride
        weight, mixed, skill = self._weigh(shifts, predicted, truth, offset, half_life)
        residuals = actual[..., None] - np.log(mixed + offset[:, None, None, None])
        last = calibration.after_shift(residuals, _since_shift(residuals), QUANTILES, windows)
        gain = _gain(residuals[..., QUANTILES.index(0.5)])
        return Calibrated(shifts, weight, np.where(np.isfinite(last), last, 0.0), skill, gain)

    def _weigh(
        self, shifts: Shifts, predicted: Values, truth: Values, offset: Values, half_life: float
    ) -> tuple[Values, Values, Values]:
        """Return weights (series, candidates, horizons, quantiles), the mixed replay and the skill."""
        names = [expert.name for expert in self.experts]
        reference = _candidates_of(names, (REFERENCE,)) or list(range(2 * len(names)))
        losses, weighted, mixed = [], [], []
        shifted = np.exp(predicted)
        for place in range(len(QUANTILES)):
            candidates = shifts.candidates(shifted, offset, place)
            if _WEIGHED_BY[place] == place:
                loss = combination.pinball(QUANTILES[place], truth[:, None], candidates)
                losses.append(combination.discounted_loss(loss, half_life))
            weight = combination.weights(losses[_WEIGHED_BY[place]], reference, _candidates_of(names, _ALWAYS))
            weighted.append(weight)
            mixed.append(combination.mix(weight, candidates))
        own = combination.discounted_loss(combination.pinball(QUANTILES[1], truth, mixed[1]), half_life)
        naive = losses[1][:, reference].min(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            skill = np.where(naive > 0, 1 - own / naive, np.where(own > 0, -np.inf, 0.0))
        return np.stack(weighted, axis=-1), np.stack(mixed, axis=-1), np.where(np.isfinite(skill), skill, 0.0)


def _candidates_of(names: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Return the places of the candidates of some experts: by ratio, and by amount."""
    places = [i for i, name in enumerate(names) if name in wanted]
    return places + [len(names) + i for i in places]


def replayed(window: Window, horizons: tuple[int, ...]) -> tuple[int, int]:
    """Return how many of the last points are replayed, and each which of them.

    They reach over the long window of residuals, as far as there are points.
    """
    most = Windows.of(window.calendar.day_points).long + max(horizons)
    origins = max(1, min(most, window.points - window.calendar.day_points // 2))
    return origins, max(1, -(-origins // _REPLAYED))


def of_target(predicted: Values, target: Target) -> Values:
    """Return what experts say of a target: of the window's maximum, the highest point up to each horizon."""
    if target is Target.POINT:
        return predicted
    return np.fmax.accumulate(predicted, axis=2)


def outcomes(window: Window, batch: Batch, horizons: tuple[int, ...], at: NDArray[np.int64], target: Target) -> Values:
    """Return what came after the origins `at`, (series, horizons, origins), as logarithms.

    NaN where it is not known, or not yet. A maximum is known when all of its window is.
    """
    rates = batch.values if target is Target.POINT else np.fmax(batch.peaks, batch.values)
    level = np.log(rates + window.offset[:, None])
    padded = np.concatenate([level, np.full((window.count, max(horizons)), np.nan)], axis=1)
    if target is Target.POINT:
        return np.stack([padded[:, at + horizon] for horizon in horizons], axis=1)
    found, highest = [], padded[:, at + 1]
    for step in range(1, max(horizons) + 1):
        highest = np.maximum(highest, padded[:, at + step])
        if step in horizons:
            found.append(highest)
    return np.stack(found, axis=1)


def _absent(batch: Batch, found: Mapping[Target, Values]) -> list[Absent | None]:
    """Return why a series has no forecast, or None: too little history, or no expert that says anything."""
    whole = np.all([np.isfinite(values).all(axis=(1, 2)) for values in found.values()], axis=0)
    return [
        why if why is not None or said else Absent(NO_PREDICTION)
        for why, said in zip(readiness(batch), whole.tolist(), strict=True)
    ]


def _single(values: Values) -> Values:
    """Return values in single precision: seven digits are plenty for errors, and half the memory is half the time."""
    return cast(Values, values.astype(np.float32))  # what is done with them is the same for both


def _since_shift(residuals: Values) -> NDArray[np.int64]:
    """Return how many of the last replayed origins came after a shift, (series,), by the first horizon's median."""
    errors = residuals[:, 0, :, QUANTILES.index(0.5)]
    known = np.isfinite(errors)
    usual = np.where(known, np.abs(errors), 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    return shifted_since(errors / np.maximum(1.25 * usual, 1e-9)[:, None])  # of a normal error, 1.25 mean deviations


def _gain(residuals: Values) -> Values:
    """Return the regression of each horizon's errors on the first one's, (series, horizons), from (.., origins)."""
    known = np.isfinite(residuals).all(axis=1, keepdims=True)
    errors = np.where(known, residuals, 0.0)
    first = errors[:, :1]
    variance = (first**2).sum(axis=2)
    shared = (errors * first).sum(axis=2)
    return np.asarray(np.clip(np.where(variance > 0, shared / np.where(variance > 0, variance, 1.0), 0.0), 0.0, 1.0))


def _bound(batch: Batch) -> Values:
    """Return the highest forecast of each series: a multiple of what was seen."""
    seen = np.where(np.isfinite(batch.values), np.fmax(batch.peaks, batch.values), 0.0)
    return np.asarray(BOUND * seen.max(axis=1))


def quantiles(fitted: Fitted, predicted: Values, target: Target) -> Values:
    """Return rates (series, quantiles, horizons, origins) that do not cross, are not negative, and are bounded."""
    part, shifted, found = fitted.targets[target], np.exp(of_target(predicted, target)), []
    shift = fitted.offset[:, None, None]
    for place in range(len(QUANTILES)):
        candidates = part.shifts.candidates(shifted, fitted.offset, place)
        mixed = combination.mix(part.weights[..., place], candidates)
        found.append((mixed + shift) * np.exp(part.last[..., place, None]) - shift)
    bounded = np.clip(np.stack(found, axis=1), 0.0, fitted.bound[:, None, None, None])
    return np.sort(bounded, axis=1)
