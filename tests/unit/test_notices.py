"""Notices are posted beside the tick, and what waits is bounded."""

import asyncio
from collections.abc import Sequence

from scaler.adapters.clock import SystemClock
from scaler.core.values import WorkloadId
from scaler.ports import Notice
from scaler.runtime.notices import NoticePoster

CHAT = WorkloadId("demo", "chat")


class RecordingNotices:
    """Keeps what is posted; waits for leave before it takes a batch."""

    def __init__(self) -> None:
        self.leave = asyncio.Event()
        self.posted: list[Notice] = []
        self.batches = asyncio.Semaphore(0)

    async def post(self, notices: Sequence[Notice], now_s: float) -> None:
        """Keep them."""
        await self.leave.wait()
        self.posted += notices
        self.batches.release()


async def test_telling_does_not_wait_for_the_posting() -> None:
    """A slow receiver gets everything, in order, and whoever tells it goes on at once."""
    notices = RecordingNotices()
    poster = NoticePoster(notices, SystemClock())
    told = [Notice(CHAT, "EvidenceStopped", str(number)) for number in range(3)]
    async with asyncio.timeout(10):
        running = asyncio.create_task(poster.run())
        for notice in told:
            poster.tell([notice])
            await asyncio.sleep(0)
        notices.leave.set()
        while len(notices.posted) < len(told):
            await notices.batches.acquire()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert notices.posted == told


async def test_what_waits_is_bounded_and_what_is_dropped_is_counted() -> None:
    """The newest are kept: they say how things are now."""
    notices = RecordingNotices()
    notices.leave.set()
    poster = NoticePoster(notices, SystemClock())
    poster.tell([Notice(CHAT, "WaitingForCapacity", str(number)) for number in range(1_200)])
    async with asyncio.timeout(10):
        running = asyncio.create_task(poster.run())
        await notices.batches.acquire()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert poster.dropped == 200
    assert [notice.message for notice in notices.posted][:1] == ["200"]
