"""Wakes the streams of a workload when its answer changes. A stream that waits costs nothing in between."""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from scaler.core.values import WorkloadId


class Watch:
    """One waiter's view of one workload."""

    def __init__(self) -> None:
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Let `wait` return, now or the next time that it is called."""
        self._woken.set()

    async def wait(self, timeout_s: float | None) -> bool:
        """Wait until woken, at most `timeout_s` seconds of the wall. Return whether it was woken.

        Several changes at once wake once: the waiter looks at the newest state, there is no queue that could grow.
        """
        try:
            async with asyncio.timeout(timeout_s):
                await self._woken.wait()
        except TimeoutError:
            return False
        self._woken.clear()
        return True


class Watchers:
    """All waiters, by workload."""

    def __init__(self) -> None:
        self._watches: dict[WorkloadId, set[Watch]] = {}

    @contextmanager
    def watch(self, workload: WorkloadId) -> Iterator[Watch]:
        """Watch a workload for the length of the context."""
        watch = Watch()
        watches = self._watches.setdefault(workload, set())
        watches.add(watch)
        try:
            yield watch
        finally:
            watches.discard(watch)
            if not watches:
                self._watches.pop(workload, None)

    @property
    def workloads(self) -> Iterable[WorkloadId]:
        """The workloads that somebody watches."""
        return self._watches.keys()

    def wake(self, workloads: Iterable[WorkloadId]) -> None:
        """Wake the waiters of these workloads."""
        for workload in workloads:
            for watch in self._watches.get(workload, ()):
                watch.wake()

    def wake_all(self) -> None:
        """Wake every waiter."""
        self.wake(list(self._watches))
