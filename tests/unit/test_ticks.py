"""Ticks: on time, one at a time, and a clean end. Real time, in milliseconds; the tests wait on events."""

import asyncio

import pytest

from scaler.runtime.ticks import Ticks

INTERVAL_S = 0.01
PATIENCE_S = 10.0


async def test_a_call_that_overruns_is_not_run_twice_at_once(caplog: pytest.LogCaptureFixture) -> None:
    """The calls that it overran are skipped and counted, without a line of log for each."""
    ticks = Ticks()
    running = most = calls = 0
    skipped, go = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        nonlocal running, most, calls
        running += 1
        calls += 1
        most = max(most, running)
        if calls == 1:
            await go.wait()
        elif calls == 3:
            skipped.set()
        running -= 1

    async def release() -> None:
        if ticks.skipped >= 3:
            go.set()

    ticks.every(INTERVAL_S, slow, "slow")
    ticks.every(INTERVAL_S, release, "release")
    ticks.start()
    await asyncio.wait_for(skipped.wait(), PATIENCE_S)
    await ticks.stop()
    assert most == 1
    assert ticks.skipped >= 3
    assert "skipped" not in caplog.text


async def test_stopping_waits_for_what_is_running_and_calls_nothing_more() -> None:
    """A tick is finished, not cut."""
    ticks = Ticks()
    began, go = asyncio.Event(), asyncio.Event()
    finished = 0

    async def tick() -> None:
        nonlocal finished
        began.set()
        await go.wait()
        finished += 1

    ticks.every(INTERVAL_S, tick, "tick")
    ticks.start()
    await asyncio.wait_for(began.wait(), PATIENCE_S)
    stopping = asyncio.create_task(ticks.stop())
    await asyncio.sleep(0)
    assert not stopping.done()
    go.set()
    await asyncio.wait_for(stopping, PATIENCE_S)
    assert finished == 1


async def test_stopping_before_the_start_does_nothing() -> None:
    """A role may fail before its first tick."""
    await Ticks().stop()
