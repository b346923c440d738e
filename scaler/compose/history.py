"""Builds the history: own series read back from the metrics' Prometheus, and a backfill beside the ticks."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import Final

import structlog

from scaler.adapters.history.backfill import PIECE_S, STEP_S, Backfill, BackfillSettings
from scaler.adapters.history.joins import PastTarget
from scaler.adapters.history.kept import KeptHistory
from scaler.adapters.history.own import OwnHistory
from scaler.adapters.history.ranges import PrometheusRanges
from scaler.compose.metrics import prometheus_settings
from scaler.compose.outside import Outside
from scaler.config.process import ProcessConfig
from scaler.core.values import WorkloadId
from scaler.ports import Clock, StoreError

_log = structlog.get_logger(__name__)

_ANSWER_S: Final = 60.0
_AGAIN_S: Final = 3600.0  # of the wall: after it, what was given up and who is new are asked for
_REST_S: Final = 60.0  # of the wall: who leads and leads not in turn begins no oftener
_LOOK_S: Final = 5.0  # of the wall: how soon it is seen that this controller leads, or leads no more


async def backfill_of(config: ProcessConfig, outside: Outside, clock: Clock, stack: AsyncExitStack) -> Backfill | None:
    """Begin to backfill while this controller leads; None where it is not configured.

    ValueError where it cannot be done. What was kept before is read first; a folder that cannot be used is told in the
    log and costs no more than the past.
    """
    section = config.history
    if section is None or not section.backfill:
        return None
    if config.metrics is None or config.metrics.prometheus is None:
        raise ValueError("history must have metrics.prometheus: what was is read there")
    settings = prometheus_settings(config.metrics.prometheus, config.decision)
    # One connection of its own, and time: days of samples are not evaluated while a tick waits.
    patient = replace(settings, connections=1, read_timeout_s=_ANSWER_S, total_timeout_s=_ANSWER_S)
    source = PrometheusRanges(patient, clock)
    stack.push_async_callback(source.close)
    kept = KeptHistory(section.folder, section.max_bytes, STEP_S, PIECE_S)
    try:
        await asyncio.to_thread(kept.open)
    except StoreError as error:
        _log.warning("history_unusable", error=str(error))
        return None
    limits = BackfillSettings(lookback_s=section.lookback_s, samples_per_minute=section.samples_per_minute)
    backfill = Backfill(source, OwnHistory(source), kept, limits)
    task = asyncio.create_task(_keep_filled(backfill, outside, clock), name="backfill")
    stack.push_async_callback(_ended, task)
    return backfill


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _keep_filled(backfill: Backfill, outside: Outside, clock: Clock) -> None:
    """Fill what is lacking, again and again, as long as this controller leads. A standby leaves it to the leader."""
    while True:
        await _until(lambda: outside.leadership.leading and outside.cluster.ready())
        run = asyncio.create_task(_filled(backfill, outside, clock))
        try:
            while not run.done() and outside.leadership.leading:
                await asyncio.wait({run}, timeout=_LOOK_S)
        finally:
            run.cancel()
            await asyncio.gather(run, return_exceptions=True)
        with suppress(TimeoutError):
            await asyncio.wait_for(_until(lambda: not outside.leadership.leading), _AGAIN_S)
        await asyncio.sleep(_REST_S)


async def _filled(backfill: Backfill, outside: Outside, clock: Clock) -> None:
    try:
        await backfill.run(tuple(_targets(outside)), clock.now_s())
    except StoreError as error:
        _log.warning("backfill_stopped", error=str(error))
    except Exception as error:  # noqa: BLE001  # the loop's edge: the past is not worth the present
        _log.error("backfill_failed", error=str(error), kind=type(error).__name__, exc_info=True)


def _targets(outside: Outside) -> Iterator[PastTarget]:
    """Yield what each workload scales. One whose target's name no object can have has no past to ask for."""
    targets = outside.cluster.targets()
    for settings in outside.cluster.policies.current().workloads:
        key = WorkloadId(settings.namespace, settings.name)
        if (target := targets.get(key)) is not None:
            with suppress(ValueError):
                yield PastTarget(key, settings.engine, settings.unit, *target)


async def _until(true: Callable[[], bool]) -> None:
    while not true():  # noqa: ASYNC110  # leadership is judged by the clock: nothing announces its end
        await asyncio.sleep(_LOOK_S)
