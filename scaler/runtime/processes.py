"""Processes of `headway serve`: starts them, starts them again when they end, and ends them together."""

import asyncio
import os
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
LIVED_LONG_S: Final = 60.0  # after so long a life, an end is a new trouble and not the old one again
STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # the last one: the terminal has gone
_BAD_INPUT: Final = 2  # the status of a role that cannot use what it was given
_LAST_LINES: Final = 20


@dataclass(frozen=True, slots=True)
class Role:
    """A process to keep running: its name in logs, `headway`'s arguments, the file it makes when it listens."""

    name: str
    arguments: tuple[str, ...]
    announced: Path


class RoleError(Exception):
    """A role cannot start, and would not the next time either; the message says why, as far as its log does."""


def stop_on_signals(stop: asyncio.Event) -> None:
    """Set `stop` on SIGTERM, SIGINT and SIGHUP, for the running event loop."""
    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, stop.set)


async def keep_running(
    roles: Sequence[Role], stop: asyncio.Event, *, log: Path | None = None, grace_s: float = 15.0
) -> None:
    """Run each role as a process of its own until `stop` is set, then end them all within `grace_s` seconds.

    One that ends by itself is started again, after 1 s, 2 s and so on up to 30 s. Their logs go to our stderr, or are
    added to the file `log`. RoleError, with all ended, when one refuses its input before it has ever listened.
    """
    with ExitStack() as stack:
        stderr = None if log is None else stack.enter_context(log.open("ab"))
        try:
            async with asyncio.TaskGroup() as group:
                for role in roles:
                    group.create_task(_keep(role, stop, stderr, grace_s))
        except ExceptionGroup as errors:
            error = errors.exceptions[0]
            raise (RoleError(f"{error}{_why(log, error)}") if isinstance(error, _RefusedError) else error) from None


class _RefusedError(Exception):
    """A role refused its input."""

    def __init__(self, role: Role) -> None:
        super().__init__(f"the {role.name} cannot start")
        self.role = role


def _why(log: Path | None, error: _RefusedError) -> str:
    """Return what a role said last; on our own stderr it stands already."""
    if log is None:
        return ""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    said = [number for number, line in enumerate(lines) if line.startswith(f"headway {error.role.name}: ")]
    return "\n" + "\n".join(lines[said[-1] :] if said else lines[-_LAST_LINES:])


async def _keep(role: Role, stop: asyncio.Event, stderr: BinaryIO | None, grace_s: float) -> None:
    loop = asyncio.get_running_loop()
    delay_s = FIRST_RESTART_S
    while not stop.is_set():
        began_s = loop.time()
        status = await _run(role, stop, stderr, grace_s)
        if status is None or stop.is_set():
            return
        if status == _BAD_INPUT and not role.announced.exists():
            raise _RefusedError(role)
        if loop.time() - began_s > LIVED_LONG_S:
            delay_s = FIRST_RESTART_S
        _log.error("process_ended", role=role.name, status=status, restart_in_s=delay_s)
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), delay_s)
        delay_s = min(2 * delay_s, LONGEST_RESTART_S)


async def _run(role: Role, stop: asyncio.Event, stderr: BinaryIO | None, grace_s: float) -> int | None:
    """Run a role once; return its status when it ends by itself, None when `stop` ended it."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "scaler", *role.arguments, stderr=stderr)
    ended = asyncio.create_task(process.wait())
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({ended, stopped}, return_when=asyncio.FIRST_COMPLETED)
        return ended.result() if ended.done() else None
    finally:  # also when the other role could not start
        stopped.cancel()
        if not ended.done():
            await _end(process, ended, grace_s)


async def _end(process: asyncio.subprocess.Process, ended: "asyncio.Task[int]", grace_s: float) -> None:
    tell(process, signal.SIGTERM)
    try:
        await asyncio.wait_for(ended, grace_s)
    except TimeoutError:
        tell(process, signal.SIGKILL)
        await process.wait()


def tell(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """Send a signal to a child of the event loop, or nothing to one that has ended.

    Its own methods look first whether it has ended, and take its status away from the event loop that waits for it,
    which then warns of an unknown child and reports 255.
    """
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)
