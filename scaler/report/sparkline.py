"""A curve in one line of text, over a history that grows without end and is kept in a bounded number of buckets."""

from itertools import pairwise

_BARS = "▁▂▃▄▅▆▇█"
_ASCII_BARS = "_.:-=+*#"


class History:
    """The means of a series since its start, in at most `2 * columns` buckets of equal, growing numbers of samples."""

    __slots__ = ("_count", "_limit", "_means", "_size", "_sum")

    def __init__(self, columns: int = 120) -> None:
        self._limit = 2 * columns
        self._means: list[float] = []
        self._size = 1  # samples per bucket
        self._sum = 0.0  # of the bucket that is being filled
        self._count = 0

    def add(self, value: float) -> None:
        """Take one more sample."""
        self._sum += value
        self._count += 1
        if self._count < self._size:
            return
        self._means.append(self._sum / self._count)
        self._sum, self._count = 0.0, 0
        if len(self._means) == self._limit:
            pairs = zip(self._means[::2], self._means[1::2], strict=True)
            self._means = [(first + second) / 2 for first, second in pairs]
            self._size *= 2

    def values(self) -> tuple[float, ...]:
        """Return the means of the full buckets, oldest first."""
        return tuple(self._means)


def sparkline(values: tuple[float, ...], columns: int, *, ascii_only: bool = False) -> str:
    """Draw the values in at most `columns` characters, from zero to their maximum; each shows its bucket's highest."""
    if not values or columns < 1:
        return ""
    bars = _ASCII_BARS if ascii_only else _BARS
    shown = _highest(values, columns)
    top = max(shown)
    if top <= 0:
        return bars[0] * len(shown)
    return "".join(bars[min(len(bars) - 1, int(max(0.0, value) / top * len(bars)))] for value in shown)


def _highest(values: tuple[float, ...], columns: int) -> list[float]:
    if len(values) <= columns:
        return list(values)
    edges = [round(index * len(values) / columns) for index in range(columns + 1)]
    return [max(values[first:last]) for first, last in pairwise(edges)]
