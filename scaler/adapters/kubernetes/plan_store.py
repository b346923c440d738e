"""The plan store of a cluster: ConfigMaps in Headway's own namespace, safe against two writers that both would lead.

What each thing costs the API server. Writer: a heartbeat is one PUT; a plan is one PUT for each shard whose answers
changed and one for the index. Each scaler: one watch, opened anew every 4 to 5 minutes after one LIST of one object,
and one GET for each shard that changed; a look while nothing changed costs nothing. Only while the watch is not well,
one LIST of one object every 5 s.
"""

import asyncio
from collections.abc import Callable
from typing import ParamSpec

from scaler.adapters.kubernetes.api import ApiConnection
from scaler.adapters.kubernetes.plan_maps import PlanStoreSettings
from scaler.adapters.kubernetes.plan_reader import PlanReader
from scaler.adapters.kubernetes.plan_writer import PlanWriter
from scaler.core.published import Heartbeat, PublishedPlan, StoredPlan

P = ParamSpec("P")


class ConfigMapPlanStore:
    """Implements `ports.PlanStore`.

    **Fencing.** The index is written only over the very index that was read or written before, and only with a newer
    (epoch, sequence) than it has. A writer that begins, or was interrupted, first claims the index for its epoch; a
    shard is written only over one that no newer epoch has written. So of two writers that both believe they lead, the
    one of the lower epoch is refused (StoreError, naming the other) from the moment when the newer one begins; the
    version that readers see never falls, and what an index names is always there.

    **Reading.** A plan is put together from shards whose digests the index names; where one is not there, the index is
    read again, and a plan that cannot be put together is a StoreError. No index means that there has never been a plan:
    deleting it is how a person starts anew.
    """

    def __init__(self, api: ApiConnection, settings: PlanStoreSettings) -> None:
        self._writer = PlanWriter(api, settings)
        self._reader = PlanReader(api, settings)
        self._api = api
        self._writing = asyncio.Lock()
        self._reading = asyncio.Lock()

    def close(self) -> None:
        """End the watch. Reading goes on to work, by asking."""
        self._reader.watch.stop()

    async def publish(self, plan: PublishedPlan, heartbeat: Heartbeat) -> None:
        """Replace plan and heartbeat. StoreError when it cannot or may not, ValueError when the two do not fit.

        After a StoreError it may have happened all the same; so another plan needs another sequence.
        """
        if plan.version != heartbeat.version:
            raise ValueError(f"heartbeat version must be the plan's {plan.version}, was {heartbeat.version}")
        await self._write(self._writer.publish, plan, heartbeat)

    async def beat(self, heartbeat: Heartbeat) -> None:
        """Replace the heartbeat only; StoreError when it cannot, or the plan stored is not the one it vouches for."""
        await self._write(self._writer.beat, heartbeat)

    async def load(self) -> StoredPlan | None:
        """Ask the server; None when there has never been a plan, StoreError when it cannot tell.

        DamagedError, which is one, where parts of the plan are gone for good.
        """
        async with self._reading:
            return await self._api.run(self._reader.load)

    async def load_if_changed(self, seen: object) -> tuple[object, StoredPlan | None]:
        """Return a new token and what is stored, or `seen` and None when the watch has shown no change since."""
        if self._reader.unchanged(seen):
            return seen, None
        async with self._reading:
            return await self._api.run(self._reader.load_if_changed, seen)

    def stored_epoch(self) -> int:
        """Return the epoch of the stored plan, 0 where there is none; StoreError when it cannot tell. Blocks."""
        return self._reader.epoch()

    async def _write(self, write: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        async with self._writing:  # the later of two writes must be the one that stays
            try:
                await self._api.run(write, *args, **kwargs)
            finally:
                self._reader.wrote()
