"""The plant's histograms count as Prometheus does."""

import pytest

from scaler.backtest.histogram import Histogram


def test_a_value_on_a_bound_belongs_to_it() -> None:
    """`le` means at most: a value on a bound is in its bucket, one above is not, and +Inf has them all."""
    histogram = Histogram((1.0, 2.0))
    for value in (0.0, 1.0, 1.5, 2.0, 2.1):
        histogram.observe(value)
    reading = histogram.read()
    assert (reading.bounds, reading.counts) == ((1.0, 2.0), (2, 4, 5))
    assert reading.total == pytest.approx(6.6)


def test_counts_go_on_after_a_look() -> None:
    """Looking counts nothing twice, and many values are counted like few."""
    histogram = Histogram((0.5,))
    for number in range(10_000):
        histogram.observe(number % 2)
        if number % 1000 == 0:
            histogram.read()
    assert histogram.read().counts == (5000, 10_000)
    assert histogram.read().total == 5000
