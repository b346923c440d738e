"""Takes notices from the tick and posts them beside it: whoever they go to may be slow, and a tick must not be."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

import structlog

from scaler.ports import Clock, Notice, Notices

_log = structlog.get_logger(__name__)

_MOST_WAITING = 1_000
GAP_S: Final = 20.0  # in which nobody may have led: the Lease's duration, and a retry


class NoticePoster:
    """Posts notices one batch after another. What waits is bounded: the oldest are dropped, and counted."""

    def __init__(self, notices: Notices, clock: Clock) -> None:
        self._notices = notices
        self._clock = clock
        self._waiting: deque[Notice] = deque(maxlen=_MOST_WAITING)
        self._kept: deque[tuple[float, Notice]] = deque(maxlen=_MOST_WAITING)
        self._told = asyncio.Event()
        self.dropped = 0

    def keep(self, notices: Sequence[Notice]) -> None:
        """Take what is the leader's to tell, as a standby: should that one be gone already, it is posted by us.

        So what happens while nobody leads is not lost. At worst a person reads it twice.
        """
        now_s = self._clock.monotonic_s()
        self._kept.extend((now_s, notice) for notice in notices)

    def tell(self, notices: Sequence[Notice]) -> None:
        """Take notices to post soon, as the leader, after what was kept in the last `GAP_S`. Returns at once."""
        since_s = self._clock.monotonic_s() - GAP_S
        notices = (*(notice for at_s, notice in self._kept if at_s >= since_s), *notices)
        self._kept.clear()
        self.dropped += max(0, len(self._waiting) + len(notices) - _MOST_WAITING)
        self._waiting.extend(notices)
        if self._waiting:
            self._told.set()

    async def run(self) -> None:
        """Post until cancelled."""
        while True:
            await self._told.wait()
            self._told.clear()
            batch = tuple(self._waiting)
            self._waiting.clear()
            try:
                await self._notices.post(batch, self._clock.now_s())
            except Exception as error:  # noqa: BLE001 - the loop's edge: one batch must not be the last for good
                self.dropped += len(batch)
                _log.error("notices_failed", error=str(error), kind=type(error).__name__, exc_info=True)
