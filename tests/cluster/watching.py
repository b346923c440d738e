"""Seeing that something does not happen: values that are sampled while something else goes on."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from tests.cluster.processes import PATIENCE_S

T = TypeVar("T")
_LOOK_EVERY_S = 0.1


def stays(ask: Callable[[], T], value: T, *, for_s: float) -> None:
    """Sample for so long, and fail with what was seen at any sample that is something else."""
    _all_are(value, samples(ask, lambda: False, within_s=for_s))


def lasts(ask: Callable[[], object], value: object, *, for_s: float, within_s: float = PATIENCE_S) -> None:
    """Wait until all samples of so long a time are this value, and fail with what was seen if they never are."""
    seen = [ask()]
    since_s = started_s = time.perf_counter()
    while seen[-1] != value or time.perf_counter() - since_s < for_s:
        late = time.perf_counter() - started_s > within_s
        assert not late, f"was to be {value!r} for {for_s:g} s, was {_runs(seen)}"
        time.sleep(_LOOK_EVERY_S)
        seen.append(ask())
        if seen[-1] != value:
            since_s = time.perf_counter()


@contextmanager
def unchanged(ask: Callable[[], T], value: T) -> Iterator[None]:
    """Sample while something else is done, and fail with what was seen at any sample that is something else."""
    with sampled(ask) as seen:
        yield
    _all_are(value, seen)


@contextmanager
def sampled(ask: Callable[[], T]) -> Iterator[list[T]]:
    """Sample while something else is done; the list holds every value seen, one from the end included."""
    seen = [ask()]
    over = threading.Event()

    def look() -> None:
        while not over.wait(_LOOK_EVERY_S):
            seen.append(ask())

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()
    seen.append(ask())


def samples(ask: Callable[[], T], done: Callable[[], object], *, within_s: float) -> list[T]:
    """Sample until something is done, or for so long; return every value seen, the first and the last included."""
    end = time.perf_counter() + within_s
    seen = [ask()]
    while not done() and time.perf_counter() < end:
        time.sleep(_LOOK_EVERY_S)
        seen.append(ask())
    return [*seen, ask()]  # what was true when it was done


def _all_are(value: T, seen: list[T]) -> None:
    assert set(seen) == {value}, f"was to stay {value!r}, was {_runs(seen)} in {len(seen)} samples"


def _runs(seen: list[T]) -> str:
    """Write the values in their order, each once for as long as it stayed."""
    changes = [value for before, value in zip([None, *seen], seen, strict=False) if value != before]
    return " -> ".join(repr(value) for value in changes)
