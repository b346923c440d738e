"""Processes of `headway serve`: starts them, starts them again when they end, and ends them together."""

import asyncio
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import structlog

_log = structlog.get_logger(__name__)

FIRST_RESTART_S: Final = 1.0
LONGEST_RESTART_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Role:
    """A process to keep running: its name in logs, and `headway`'s arguments."""

    name: str
    arguments: tuple[str, ...]


def stop_on_signals(stop: asyncio.Event) -> None:
    """Set `stop` on SIGTERM and SIGINT, for the running event loop."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)


async def keep_running(
    roles: Sequence[Role], stop: asyncio.Event, *, log: Path | None = None, grace_s: float = 15.0
) -> None:
    """Run each role as a process of its own until `stop` is set, then end them all within `grace_s` seconds.

    One that ends by itself is started again, after 1 s, 2 s and so on up to 30 s. Their logs go to our stderr, or are
    added to the file `log`.
    """
    with ExitStack() as stack:
        stderr = None if log is None else stack.enter_context(log.open("ab"))
        async with asyncio.TaskGroup() as group:
            for role in roles:
                group.create_task(_keep(role, stop, stderr, grace_s))


async def _keep(role: Role, stop: asyncio.Event, stderr: BinaryIO | None, grace_s: float) -> None:
    delay_s = FIRST_RESTART_S
    while not stop.is_set():
        process = await asyncio.create_subprocess_exec(sys.executable, "-m", "scaler", *role.arguments, stderr=stderr)
        ended = asyncio.create_task(process.wait())
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait({ended, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if not ended.done():
            await _end(process, ended, grace_s)
            return
        _log.error("process_ended", role=role.name, status=ended.result(), restart_in_s=delay_s)
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), delay_s)
        delay_s = min(2 * delay_s, LONGEST_RESTART_S)


async def _end(process: asyncio.subprocess.Process, ended: "asyncio.Task[int]", grace_s: float) -> None:
    process.terminate()
    try:
        await asyncio.wait_for(ended, grace_s)
    except TimeoutError:
        process.kill()
        await process.wait()
