"""Own series, read back from a real Prometheus that holds days of them."""

import math
from pathlib import Path

import aiohttp
import numpy as np
import pytest

from scaler.adapters.clock import SystemClock
from scaler.adapters.history.model import Grid, HistorySignal
from scaler.adapters.history.own import OwnHistory, OwnSettings
from scaler.adapters.history.ranges import MAX_POINTS, PrometheusRanges
from scaler.adapters.prometheus import PrometheusSettings
from scaler.core.values import WorkloadId
from tests.history_rig import DAY_S, NEEDED, PROMETHEUS, PROMTOOL, START_S, Asked, Recorded, every, prometheus_of

pytestmark = [
    pytest.mark.prometheus,
    pytest.mark.skipif(PROMETHEUS is None or PROMTOOL is None, reason=NEEDED),
]
CHAT, DRAW = WorkloadId("demo", "chat"), WorkloadId("demo", "draw")
DEMAND = "headway_demand_per_second"
RULE = "headway:demand_per_second:mean1m"


def labels(key: WorkloadId = CHAT, pod: str = "a", **more: str) -> dict[str, str]:
    return {"namespace": key.namespace, "workload": key.name, "pod": pod, **more}


def ranges(url: str) -> PrometheusRanges:
    return PrometheusRanges(PrometheusSettings(url, total_timeout_s=60.0, read_timeout_s=60.0), SystemClock())


async def test_fourteen_days_come_back_as_they_were_exported(tmp_path: Path) -> None:
    """Each minute's value is in its place on the grid, across more points than one query may have."""
    values = [(START_S + 60 * i, 10 + (i % 1440) / 100) for i in range(1, 14 * 1440 + 1)]
    grid = Grid.between(START_S, START_S + 14 * DAY_S, 60)
    async with prometheus_of(tmp_path, [Recorded(DEMAND, labels(), values)]) as url:
        source = ranges(url)
        asked = Asked(source)
        try:
            store = OwnHistory(asked, OwnSettings(scrape_interval_s=30))
            batch = await store.read(HistorySignal.DEMAND, [CHAT, DRAW], grid)
        finally:
            await source.close()
    assert grid.count == 20_160 > MAX_POINTS
    assert len(asked.queries) >= 2
    assert batch.problems == ()
    assert batch.series[CHAT].start_s == START_S + 60
    np.testing.assert_allclose(batch.series[CHAT].values, [value for _, value in values], rtol=1e-12)
    assert np.isnan(batch.series[DRAW].values).all()


async def test_prometheus_refuses_more_points_than_the_limit(tmp_path: Path) -> None:
    """The limit that reading in chunks is for is really there."""
    async with prometheus_of(tmp_path, [Recorded(DEMAND, labels(), every(60, START_S, START_S + 600))]) as url:
        source = ranges(url)
        try:
            await source.matrix(DEMAND, Grid(START_S, 60, MAX_POINTS))
            with pytest.raises(ValueError, match="at most 11000"):
                await source.matrix(DEMAND, Grid(START_S, 60, MAX_POINTS + 1))
            too_many = {"query": DEMAND, "start": "0", "end": str(11_001 * 60), "step": "60"}
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"{url}/api/v1/query_range", params=too_many) as r,
            ):
                assert (r.status, "11,000 points" in await r.text()) == (400, True)
        finally:
            await source.close()


async def test_a_gap_stays_a_gap(tmp_path: Path) -> None:
    """Nothing is carried over a gap of three minutes, over which a bare selector would repeat the last value."""
    before, after = START_S + 600, START_S + 780
    samples = [*every(15, START_S + 15, before, 5.0), *every(15, after + 15, START_S + 1200, 7.0)]
    grid = Grid.between(START_S, START_S + 1200, 60)
    async with prometheus_of(tmp_path, [Recorded(DEMAND, labels(), samples)]) as url:
        source = ranges(url)
        try:
            bare = (await source.matrix(DEMAND, grid)).rows[0].values
            batch = await OwnHistory(source).read(HistorySignal.DEMAND, [CHAT], grid)
        finally:
            await source.close()
    assert not np.isnan(bare).any()
    assert batch.series[CHAT].values.tolist()[:10] == [5.0] * 10
    assert all(math.isnan(value) for value in batch.series[CHAT].values[10:13])
    assert batch.series[CHAT].values.tolist()[13:] == [7.0] * 7
