"""Follows the plan store and keeps the holder up to date."""

import asyncio
from typing import Final

import structlog

from scaler.adapters.keda.holder import PlanHolder
from scaler.ports import PlanStore, StoreError

_log = structlog.get_logger(__name__)

POLL_S: Final = 1.0  # two stat calls while nothing changes


class PlanFollower:
    """Polls a plan store every `poll_s` seconds. A store that cannot be read changes nothing of what is held."""

    def __init__(self, store: PlanStore, holder: PlanHolder, *, poll_s: float = POLL_S) -> None:
        self._store = store
        self._holder = holder
        self._clock = holder.clock
        self._poll_s = poll_s
        self._token: object = None
        self._problem = ""

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            await self.poll()
            await asyncio.sleep(self._clock.wall_duration(self._poll_s))

    async def poll(self) -> None:
        """Look once. Never raises, for whatever a store does must not end the following."""
        try:
            await self._load()
        except StoreError as error:
            self._failed(str(error))
        except Exception as error:  # noqa: BLE001 - the loop's edge: a fault of a store is a store that cannot be read
            self._failed(f"{type(error).__name__}: {error}")
        else:
            if self._problem:
                _log.info("plan_store_readable_again")
            self._problem = ""

    async def _load(self) -> None:
        token, stored = await self._store.load_if_changed(self._token)
        if token is self._token:
            return
        self._token = token
        if stored is None:
            self._holder.nothing_stored()
        elif not self._holder.accept(stored):
            version, held = stored.plan.version, self._holder.version
            _log.warning("plan_refused", version=str(version), heartbeat=str(stored.heartbeat.version), held=str(held))

    def _failed(self, problem: str) -> None:
        self._holder.unreadable(problem)
        self._token = None  # when it can be read again, what it holds is news
        if problem != self._problem:  # once per kind of failure, not once per poll
            _log.warning("plan_store_unreadable", error=problem)
        self._problem = problem
