"""Surges, from demand alone: when a rise was more than what the lead time lets a reactive fleet follow."""

import numpy as np

from scaler.traces.model import FloatArray

BIN_S = 60.0
RISE = 1.3  # times the mean one lead time earlier
FLOOR = 0.2  # of the 99.9th percentile of the means
SIGMAS = 4.0


def surge_starts(counts: FloatArray, lead_time_s: float) -> list[int]:
    """Return the bins of 60 s in which surges begin.

    `counts` are requests per 60-s bin; NaN for unknown ones, which begin no surge. A bin is in a surge if its count is
    at least 1.3 times that of one lead time earlier, at least 20 % of the 99.9th percentile, and the rise is
    significant at 4 sigma with the dispersion that the series itself shows from bin to bin. Starts within a lead time
    are one surge.
    """
    lead = max(1, round(lead_time_s / BIN_S))
    if len(counts) <= lead or not np.isfinite(counts).any():
        return []
    before, now = counts[:-lead], counts[lead:]
    floor = FLOOR * float(np.nanquantile(counts, 0.999))
    noise = SIGMAS * np.sqrt(_dispersion(counts) * (before + now))
    rising = (now >= RISE * before) & (now >= floor) & (now - before >= noise)
    starts: list[int] = []
    last = -len(counts)
    for bin_ in map(int, np.flatnonzero(rising) + lead):
        if bin_ - last > lead:
            starts.append(bin_)
        last = bin_
    return starts


def _dispersion(counts: FloatArray) -> float:
    """Return variance over mean from bin to bin; at least 1, a Poisson process'. The median is deaf to surges."""
    total = counts[1:] + counts[:-1]
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.diff(counts) ** 2 / total
    ratio = ratio[np.isfinite(ratio)]
    # Of a squared normal deviate the median is 0.4549 of the mean.
    return max(1.0, float(np.median(ratio)) / 0.4549) if len(ratio) else 1.0
