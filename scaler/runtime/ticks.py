"""When things happen: every so often, never two of a kind at once, and a late one once instead of many times.

APScheduler keeps the time. A call that takes longer than its interval skips the ones it overran; they are counted.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from apscheduler.events import EVENT_JOB_MAX_INSTANCES, JobEvent
from apscheduler.executors.asyncio import AsyncIOExecutor
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.interval import IntervalTrigger


class Ticks:
    """Calls coroutine functions at fixed intervals on the running event loop."""

    def __init__(self) -> None:
        self.skipped = 0  # calls that were due while the one before still ran
        logging.getLogger("apscheduler.scheduler").setLevel(logging.ERROR)  # it warns of each skip; we count them
        self._scheduler = AsyncIOScheduler(executors={"default": AsyncIOExecutor()}, timezone="UTC")
        self._scheduler.add_listener(self._skip, EVENT_JOB_MAX_INSTANCES)
        self._locks: list[asyncio.Lock] = []

    def every(self, seconds: float, call: Callable[[], Awaitable[object]], name: str) -> None:
        """Call every `seconds` of the wall, the first time after one interval. `call` must not raise."""
        lock = asyncio.Lock()
        self._locks.append(lock)

        async def locked() -> None:
            async with lock:
                await call()

        self._scheduler.add_job(
            locked,
            IntervalTrigger(seconds=seconds, timezone="UTC"),
            id=name,
            name=name,
            max_instances=1,  # never two at once
            coalesce=True,  # a loop that was held up runs once, not once per interval that it missed
            misfire_grace_time=None,  # and it does run, however late
        )

    def start(self) -> None:
        """Start. Needs a running event loop."""
        self._scheduler.start()

    async def stop(self) -> None:
        """Call nothing any more, and wait for what is running: a tick is finished, not cut.

        Who cancels the waiting cuts it.
        """
        if not self._scheduler.running:
            return
        self._scheduler.pause()
        try:
            for lock in self._locks:
                async with lock:
                    pass
        finally:
            self._scheduler.shutdown(wait=False)  # cancels what still runs

    def _skip(self, _: JobEvent) -> None:
        self.skipped += 1
