"""Combination: each expert weighs by how little it has cost lately, in pinball loss at the quantile that is asked for.

Weights follow the exponentially discounted loss (Bates and Granger 1969; Stock and Watson 2004), as a power of its
inverse: steady where experts are alike, and quick to leave one that fails. An expert that gives no number has infinite
loss. One that does no better than the last value weighs nothing; the last value and the season's are always in the
race.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from forecasting.series import Values

HALF_LIFE_DAYS: Final = 2.0
POWER: Final = 8.0
# More than so many candidates make the mean dull: good ones are diluted by others that are nearly as good.
MOST: Final = 4
_EVEN = 1e-9  # losses closer than this share are the same


def pinball(quantile: float, actual: Values, forecast: Values) -> Values:
    """Return the pinball loss (Koenker and Bassett 1978), in the unit of the series; NaN where either is unknown."""
    error = actual - forecast
    return np.maximum(quantile * error, (quantile - 1) * error)


def discounted_loss(losses: Values, half_life: float) -> Values:
    """Return the weighted mean of losses (..., origins), the newest last; inf if none is known.

    `half_life` is in origins.
    """
    origins = losses.shape[-1]
    weight = 0.5 ** (np.arange(origins - 1, -1, -1) / half_life)
    known = np.isfinite(losses)
    total = (known * weight).sum(axis=-1)
    mean = (np.where(known, losses, 0.0) * weight).sum(axis=-1) / np.maximum(total, 1e-300)
    return np.where(total > 0, mean, np.inf)


def weights(loss: Values, reference: Sequence[int], always: Sequence[int]) -> Values:
    """Return weights that add up to 1 from losses (series, candidates, ...).

    `reference` are the candidates of the last value, which others must beat; `always` are those that may weigh whatever
    they cost. Where no candidate has a finite loss, all weights are 0.
    """
    best = loss.min(axis=1, keepdims=True)
    bar = loss[:, list(reference)].min(axis=1, keepdims=True) * (1 + _EVEN)
    rank = np.argsort(np.argsort(loss, axis=1, kind="stable"), axis=1, kind="stable")
    raced = (loss <= bar) | _marked(loss.shape[1], always).reshape(1, -1, *[1] * (loss.ndim - 2))
    good = np.isfinite(loss) & raced & (rank < MOST)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(best > 0, best / loss, (loss <= 0).astype(float)) ** POWER
    chosen = np.where(good, share, 0.0)
    total = chosen.sum(axis=1, keepdims=True)
    return np.where(total > 0, chosen / np.where(total > 0, total, 1.0), 0.0)


def _marked(count: int, places: Sequence[int]) -> NDArray[np.bool_]:
    marked = np.zeros(count, dtype=bool)
    marked[list(places)] = True
    return marked


def mix(weight: Values, candidates: Values) -> Values:
    """Return the weighted mean of candidates (series, candidates, horizons, origins) as (series, horizons, origins).

    A candidate without a number now leaves its weight to the others; NaN where none has one.
    """
    known = np.isfinite(candidates)
    present = weight[..., None] * known
    total = present.sum(axis=1)
    mean = (present * np.where(known, candidates, 0.0)).sum(axis=1) / np.where(total > 0, total, 1.0)
    return np.where(total > 0, mean, np.nan)
