"""The controller's loop: ticks and checkpoints on time, one log event for each, and a clean end."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from scaler.ports import Clock, StoreError
from scaler.runtime.control import Controller, TickReport
from scaler.runtime.ticks import Ticks

_log = structlog.get_logger(__name__)

Reported = Callable[[TickReport, TickReport | None], None]


@dataclass(frozen=True, slots=True)
class Cadence:
    """How often things happen, in seconds of the controller's clock."""

    tick_s: float = 15.0
    checkpoint_s: float = 60.0


class ControlLoop:
    """Runs a controller until it is told to stop; `reported` gets each tick's report and the one before."""

    def __init__(self, controller: Controller, clock: Clock, cadence: Cadence, reported: Reported) -> None:
        self._controller = controller
        self._clock = clock
        self._cadence = cadence
        self._reported = reported
        self._ticks = Ticks()
        self.errors = 0
        self.completed = 0

    @property
    def skipped(self) -> int:
        """Ticks that were due while the one before still ran."""
        return self._ticks.skipped

    async def run(self, stop: asyncio.Event) -> None:
        """Tick at once, then on the interval, until `stop` is set; finish the tick under way and checkpoint."""
        await self._tick()
        self._ticks.every(self._clock.wall_duration(self._cadence.tick_s), self._tick, "tick")
        self._ticks.every(self._clock.wall_duration(self._cadence.checkpoint_s), self._checkpoint, "checkpoint")
        self._ticks.start()
        try:
            await stop.wait()
        finally:
            await self._ticks.stop()
            await self._checkpoint()

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
            self._reported(report, before)

    def _failed(self, event: str, error: Exception) -> None:
        self.errors += 1
        _log.error(event, error=str(error), kind=type(error).__name__, exc_info=not isinstance(error, StoreError))

    async def _checkpoint(self) -> None:
        try:
            await asyncio.to_thread(self._controller.checkpoint)
        except StoreError as error:
            _log.warning("checkpoint_failed", error=str(error))
