"""The controller's loop: ticks and checkpoints on time, one log event for each, and a clean end."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import structlog

from scaler.ports import Clock, StoreError
from scaler.runtime.control import Controller, TickReport
from scaler.runtime.ticks import Ticks

_log = structlog.get_logger(__name__)

Reported = Callable[[TickReport, TickReport | None], None]

GRACE_S: Final = 10.0  # of the 30 s in which a pod must end: the Lease is to be released and watches closed too


@dataclass(frozen=True, slots=True)
class Cadence:
    """How often things happen, in seconds of the controller's clock."""

    tick_s: float = 15.0
    checkpoint_s: float = 60.0


class ControlLoop:
    """Runs a controller until it is told to stop; `reported` gets each tick's report and the one before."""

    def __init__(
        self,
        controller: Controller,
        clock: Clock,
        cadence: Cadence,
        reported: Reported,
        *,
        grace_s: float = GRACE_S,
    ) -> None:
        """Let a tick that is under way at the end have `grace_s` seconds of the wall."""
        self._controller = controller
        self._clock = clock
        self._cadence = cadence
        self._reported = reported
        self._grace_s = grace_s
        self._ticks = Ticks()
        self.errors = 0
        self.completed = 0

    @property
    def skipped(self) -> int:
        """Ticks that were due while the one before still ran."""
        return self._ticks.skipped

    async def run(self, stop: asyncio.Event) -> None:
        """Tick at once, then on the interval, until `stop` is set; finish the tick under way and checkpoint.

        A tick that hangs is cut after the grace. Where `stop` is set already there is none: who was told to end before
        it saw the cluster has nothing to publish.
        """
        if stop.is_set():
            return
        ticking = asyncio.create_task(self._keep_ticking(stop), name="ticks")
        stopped = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({ticking, stopped}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({ticking}, timeout=self._grace_s)
            if not ticking.done():
                _log.warning("tick_cut", after_s=self._grace_s)
        finally:
            stopped.cancel()
            ticking.cancel()  # does nothing to one that has ended
            with suppress(asyncio.CancelledError):
                await ticking
            await self._checkpoint()

    async def _keep_ticking(self, stop: asyncio.Event) -> None:
        await self._tick()
        self._ticks.every(self._clock.wall_duration(self._cadence.tick_s), self._tick, "tick")
        self._ticks.every(self._clock.wall_duration(self._cadence.checkpoint_s), self._checkpoint, "checkpoint")
        self._ticks.start()
        try:
            await stop.wait()
        finally:
            await self._ticks.stop()

    async def _tick(self) -> None:
        before = self._controller.last
        try:
            report = await self._controller.tick()
        except StoreError as error:
            self._failed("plan_store_unreadable", error)
        except Exception as error:  # noqa: BLE001 - the loop's edge: a bug in one tick must not end the ticking
            self._failed("tick_failed", error)
        else:
            self.completed += 1
            self._report(report, before)

    def _report(self, report: TickReport, before: TickReport | None) -> None:
        try:
            self._reported(report, before)
        except Exception as error:  # noqa: BLE001 - the loop's edge: the tick is done, whatever becomes of its report
            self._failed("report_failed", error)

    def _failed(self, event: str, error: Exception) -> None:
        self.errors += 1
        _log.error(event, error=str(error), kind=type(error).__name__, exc_info=not isinstance(error, StoreError))

    async def _checkpoint(self) -> None:
        try:
            await asyncio.to_thread(self._controller.checkpoint)
        except StoreError as error:
            _log.warning("checkpoint_failed", error=str(error))
