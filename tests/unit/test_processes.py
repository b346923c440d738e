"""Keeping processes running: how long a restart waits, and when it is no use."""

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import structlog

from scaler.runtime import processes
from scaler.runtime.processes import Role, RoleError, keep_running, tell

NOT_A_COMMAND = ("no-such-command",)  # argparse ends with status 2


async def test_a_role_that_refuses_its_input_is_not_started_again(tmp_path: Path) -> None:
    """The error ends with what the role wrote into its log."""
    log = tmp_path / "log"
    with pytest.raises(RoleError, match=r"(?s)the scaler cannot start\n.*no-such-command"):
        await keep_running([Role("scaler", NOT_A_COMMAND, tmp_path / "scaler.json")], asyncio.Event(), log=log)


@pytest.mark.parametrize(("lived_s", "delays_s"), [(59.0, [1, 2, 4, 8]), (61.0, [1, 1, 1, 1])])
async def test_a_long_life_resets_the_restart_delay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lived_s: float, delays_s: list[float]
) -> None:
    """After more than a minute an end is a new trouble."""
    stop = asyncio.Event()
    now_s = 0.0

    async def live(*_: object) -> int:
        nonlocal now_s
        now_s += lived_s
        return 1

    async def no_wait(waiting: object, _: float) -> None:
        waiting.close()  # type: ignore[attr-defined]  # a coroutine
        if len(events) == len(delays_s):
            stop.set()

    fake = SimpleNamespace(get_running_loop=lambda: SimpleNamespace(time=lambda: now_s), wait_for=no_wait)
    monkeypatch.setattr(processes, "_run", live)
    monkeypatch.setattr(processes, "asyncio", fake)
    with structlog.testing.capture_logs() as events:
        await processes._keep(Role("scaler", (), tmp_path / "scaler.json"), stop, None, 1.0)
    assert [event["restart_in_s"] for event in events] == delays_s


async def test_a_process_that_has_just_ended_keeps_its_status(capfd: pytest.CaptureFixture[str]) -> None:
    """A signal that comes too late takes nothing from the event loop, which has not looked yet."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", "raise SystemExit(7)")
    with contextlib.suppress(ChildProcessError):  # a thread of the loop's may have been faster
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222 -- the loop is to see nothing
    tell(process, signal.SIGTERM)
    assert await process.wait() == 7
    tell(process, signal.SIGTERM)
    assert capfd.readouterr().err == ""
