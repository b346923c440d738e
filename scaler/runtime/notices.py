"""Takes notices from the tick and posts them beside it: whoever they go to may be slow, and a tick must not be."""

import asyncio
from collections import deque
from collections.abc import Sequence

import structlog

from scaler.ports import Clock, Notice, Notices

_log = structlog.get_logger(__name__)

_MOST_WAITING = 1_000


class NoticePoster:
    """Posts notices one batch after another. What waits is bounded: the oldest are dropped, and counted."""

    def __init__(self, notices: Notices, clock: Clock) -> None:
        self._notices = notices
        self._clock = clock
        self._waiting: deque[Notice] = deque(maxlen=_MOST_WAITING)
        self._told = asyncio.Event()
        self.dropped = 0

    def tell(self, notices: Sequence[Notice]) -> None:
        """Take notices to post soon. Returns at once."""
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
