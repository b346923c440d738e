"""Seeing that something does not happen: values that are sampled while something else goes on."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_LOOK_EVERY_S = 0.1


def stays(ask: Callable[[], T], value: T, *, for_s: float) -> None:
    """Sample for so long, and fail with what was seen at any sample that is something else."""
    seen = samples(ask, lambda: False, within_s=for_s)
    assert set(seen) == {value}, f"was to stay {value!r} for {for_s:g} s, was {_runs(seen)}"


def samples(ask: Callable[[], T], done: Callable[[], object], *, within_s: float) -> list[T]:
    """Sample until something is done, or for so long; return every value seen, the first and the last included."""
    end = time.perf_counter() + within_s
    seen = [ask()]
    while not done() and time.perf_counter() < end:
        time.sleep(_LOOK_EVERY_S)
        seen.append(ask())
    return seen


def _runs(seen: list[T]) -> str:
    """Write the values in their order, each once for as long as it stayed."""
    changes = [value for before, value in zip([None, *seen], seen, strict=False) if value != before]
    return " -> ".join(repr(value) for value in changes)
