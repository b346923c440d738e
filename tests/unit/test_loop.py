"""The controller's loop and the posting of notices: what ends them, and what must not."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from scaler.adapters.clock import SystemClock
from scaler.core.values import WorkloadId
from scaler.ports import Notice
from scaler.runtime.control import Controller
from scaler.runtime.loop import Cadence, ControlLoop
from scaler.runtime.notices import GAP_S, NoticePoster

PATIENCE_S = 10.0
QUICK = Cadence(tick_s=0.01, checkpoint_s=60.0)


@dataclass
class ScriptedController:
    """Counts ticks and checkpoints; a tick that is to hang does so until it is cancelled."""

    hanging: bool = False
    ticks: int = 0
    checkpoints: int = 0
    last: Any = None
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    async def tick(self) -> Any:
        """Do nothing, or hang."""
        self.ticks += 1
        self.begun.set()
        if self.hanging:
            await asyncio.Event().wait()

    def checkpoint(self) -> None:
        """Count."""
        self.checkpoints += 1


def loop_of(it: ScriptedController, reported: Any = lambda *_: None, **more: float) -> ControlLoop:
    return ControlLoop(cast("Controller", it), SystemClock(), QUICK, reported, **more)


async def test_a_loop_that_is_stopped_before_it_begins_decides_nothing() -> None:
    """Who is told to end while it waits for the cluster must not publish a plan of what it has not seen."""
    controller, stop = ScriptedController(), asyncio.Event()
    stop.set()
    await asyncio.wait_for(loop_of(controller).run(stop), PATIENCE_S)
    assert controller.ticks == 0


async def test_a_report_that_fails_is_counted_and_the_ticks_go_on() -> None:
    """What is done with a report is beside the decision: its faults end neither the first tick nor a later one."""
    controller, stop = ScriptedController(), asyncio.Event()

    def reported(*_: object) -> None:
        if controller.ticks == 3:
            stop.set()
        raise RuntimeError("a fault of the reporting")

    loop = loop_of(controller, reported)
    await asyncio.wait_for(loop.run(stop), PATIENCE_S)
    assert loop.errors >= 3
    assert controller.checkpoints == 1


@pytest.mark.parametrize("first", [True, False])
async def test_a_tick_that_hangs_does_not_keep_the_loop_from_ending(first: bool) -> None:
    """After its grace the tick is cut, and the state of the ticks before is saved all the same."""
    controller, stop = ScriptedController(hanging=first), asyncio.Event()
    running = asyncio.create_task(loop_of(controller, grace_s=0.01).run(stop))
    await asyncio.wait_for(controller.begun.wait(), PATIENCE_S)
    controller.begun.clear()
    controller.hanging = True
    if not first:
        await asyncio.wait_for(controller.begun.wait(), PATIENCE_S)
    stop.set()
    await asyncio.wait_for(running, PATIENCE_S)
    assert controller.checkpoints == 1


@dataclass
class FaultyNotices:
    """Fails the first time."""

    posted: list[Notice] = field(default_factory=list)
    calls: int = 0
    done: asyncio.Event = field(default_factory=asyncio.Event)

    async def post(self, notices: Sequence[Notice], now_s: float) -> None:
        """Fail once, then take them."""
        self.calls += 1
        if self.calls == 1:
            self.done.set()
            raise RuntimeError("a fault of the posting")
        self.posted += notices
        self.done.set()


async def test_a_fault_in_posting_loses_one_batch_and_not_all_that_come() -> None:
    """The posting goes on after an error."""
    notices = FaultyNotices()
    poster = NoticePoster(notices, SystemClock())
    task = asyncio.create_task(poster.run())
    notice = Notice(WorkloadId("demo", "chat"), "EvidenceStopped", "none")
    for _ in range(2):
        notices.done.clear()
        poster.tell([notice])
        await asyncio.wait_for(notices.done.wait(), PATIENCE_S)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert notices.posted == [notice]
    assert poster.dropped == 1


@dataclass
class HandClock(SystemClock):
    """A clock that the test turns."""

    at_s: float = 0.0

    def monotonic_s(self) -> float:
        """Return the time that the test set."""
        return self.at_s


async def test_what_happened_while_nobody_led_is_told_by_who_leads_next() -> None:
    """A standby keeps its notices for as long as the leader may have been gone, and no longer."""
    notices, clock = FaultyNotices(calls=1), HandClock()
    poster = NoticePoster(notices, clock)
    task = asyncio.create_task(poster.run())
    old, recent, new = (Notice(WorkloadId("demo", "chat"), reason, "it") for reason in ("Old", "Recent", "New"))
    poster.keep([old])
    clock.at_s = GAP_S + 1
    poster.keep([recent])
    poster.tell([new])
    await asyncio.wait_for(notices.done.wait(), PATIENCE_S)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert notices.posted == [recent, new]
