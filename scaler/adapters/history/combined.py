"""The history that forecasts read: own series, and where they have nothing what was backfilled."""

import asyncio
from collections.abc import Sequence

from forecasting.series import Grid
from scaler.adapters.history.kept import KeptHistory
from scaler.core.history import HistoryBatch, HistorySignal
from scaler.core.values import WorkloadId
from scaler.ports import HistoryStore


class CombinedHistory:
    """A HistoryStore. Where both have a value the own one counts: what was served is a lower bound of demand."""

    def __init__(self, own: HistoryStore, kept: KeptHistory | None = None) -> None:
        self._own = own
        self._kept = kept

    async def read(self, signal: HistorySignal, workloads: Sequence[WorkloadId], grid: Grid) -> HistoryBatch:
        """Return the past of workloads; only demand is ever backfilled."""
        batch = await self._own.read(signal, workloads, grid)
        if self._kept is not None and signal is HistorySignal.DEMAND:
            values = {key: series.values for key, series in batch.series.items()}
            await asyncio.to_thread(self._kept.fill, values, grid)  # in place: the batch is this call's own
        return batch
