"""Own series, read back from a real Prometheus that holds days of them."""

import math
from pathlib import Path

import aiohttp
import numpy as np
import pytest

from forecasting.series import Grid
from scaler.adapters.clock import SystemClock
from scaler.adapters.history.own import OwnHistory, OwnSettings
from scaler.adapters.history.ranges import MAX_POINTS, PrometheusRanges
from scaler.adapters.prometheus import PrometheusSettings
from scaler.core.history import HistorySignal
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


async def read(
    url: str, grid: Grid, settings: OwnSettings | None = None, signal: HistorySignal = HistorySignal.DEMAND
) -> list[float]:
    """Return what is read of one workload."""
    source = ranges(url)
    try:
        batch = await OwnHistory(source).read(signal, [CHAT], grid)
    finally:
        await source.close()
    assert batch.problems == ()
    return [round(float(value), 9) for value in batch.series[CHAT].values]


async def test_two_leaders_are_one_workload(tmp_path: Path) -> None:
    """Where two controllers' series overlap each sample counts once; before and after, the one that there is."""
    first = Recorded(DEMAND, labels(pod="a"), every(15, START_S + 15, START_S + 330, 8.0))
    second = Recorded(DEMAND, labels(pod="b"), every(15, START_S + 315, START_S + 600, 12.0))
    async with prometheus_of(tmp_path, [first, second]) as url:
        found = await read(url, Grid.between(START_S, START_S + 600, 60))
    assert found == [8.0] * 5 + [round((2 * 8 + 4 * 12) / 6, 9)] + [12.0] * 4


async def test_recorded_series_come_first_and_exported_ones_fill_in(tmp_path: Path) -> None:
    """Before the rules were installed the exported samples count, afterwards the recorded ones."""
    exported = Recorded(DEMAND, labels(), every(15, START_S + 15, START_S + 1200, 8.0))
    recorded = Recorded(RULE, {"namespace": "demo", "workload": "chat"}, every(60, START_S + 607, START_S + 1200, 9.0))
    async with prometheus_of(tmp_path, [exported, recorded]) as url:
        found = await read(url, Grid.between(START_S, START_S + 1200, 300))
        peaks = await read(url, Grid.between(START_S, START_S + 1200, 300), signal=HistorySignal.DEMAND_PEAK)
    assert found == [8.0, 8.0, 9.0, 9.0] == peaks


async def test_the_peak_is_the_largest_minute_of_a_step(tmp_path: Path) -> None:
    """One minute of five at 30 is a peak of 30 and a mean of 14, with and without recorded series."""
    values = [(START_S + 15 * i, 30.0 if 9 <= i <= 12 else 10.0) for i in range(1, 21)]
    minutes = [(START_S + 60 * i, 30.0 if i == 3 else 10.0) for i in range(1, 6)]
    before = (START_S, 99.0)  # of the step before, to the second
    grid = Grid.between(START_S, START_S + 300, 300)
    for folder, series in (
        (tmp_path / "exported", Recorded(DEMAND, labels(), [before, *values])),
        (tmp_path / "recorded", Recorded(RULE, {"namespace": "demo", "workload": "chat"}, [before, *minutes])),
    ):
        folder.mkdir()
        async with prometheus_of(folder, [series]) as url:
            assert await read(url, grid, signal=HistorySignal.DEMAND_PEAK) == [30.0]
            assert await read(url, grid) == [14.0]


async def test_every_signal_is_read_from_the_series_that_is_exported_for_it(tmp_path: Path) -> None:
    """Ready replicas and no other state; capacity; lead time."""
    times = (15, START_S + 15, START_S + 300)
    series = [
        Recorded("headway_replicas", labels(state="ready"), every(*times, 3.0)),
        Recorded("headway_replicas", labels(state="spec"), every(*times, 7.0)),
        Recorded("headway_capacity_per_second", labels(), every(*times, 4.5)),
        Recorded("headway_lead_time_seconds", labels(), every(*times, 240.0)),
    ]
    grid = Grid.between(START_S, START_S + 300, 300)
    async with prometheus_of(tmp_path, series) as url:
        assert await read(url, grid, signal=HistorySignal.REPLICAS) == [3.0]
        assert await read(url, grid, signal=HistorySignal.CAPACITY) == [4.5]
        assert await read(url, grid, signal=HistorySignal.LEAD_TIME) == [240.0]


async def test_other_clusters_and_hostile_names_do_not_get_in(tmp_path: Path) -> None:
    """A regular expression, quotes and a new line in a name are text; the series of another cluster is not read."""
    hostile = WorkloadId("demo", 'a|.*"}\n\\')
    times = (15, START_S + 15, START_S + 300)
    series = [
        Recorded(DEMAND, labels(hostile, cluster="a"), every(*times, 1.0)),
        Recorded(DEMAND, labels(CHAT, cluster="a"), every(*times, 2.0)),
        Recorded(DEMAND, labels(CHAT, cluster="b"), every(*times, 50.0)),
        Recorded(DEMAND, labels(WorkloadId("demo", "a"), cluster="a"), every(*times, 70.0)),
    ]
    async with prometheus_of(tmp_path, series) as url:
        source = ranges(url)
        try:
            store = OwnHistory(source, OwnSettings(labels={"cluster": "a"}))
            grid = Grid.between(START_S, START_S + 300, 300)
            alone = await store.read(HistorySignal.DEMAND, [hostile], grid)
            both = await store.read(HistorySignal.DEMAND, [hostile, CHAT], grid)
        finally:
            await source.close()
    assert alone.series[hostile].values.tolist() == [1.0]
    assert [both.series[key].values.tolist() for key in (hostile, CHAT)] == [[1.0], [2.0]]


async def test_an_outage_is_missing_and_never_zero(tmp_path: Path) -> None:
    """A chunk that failed, and one whose answer was partial, are missing and told of; the other chunks are there."""
    grid = Grid.between(START_S, START_S + 1200, 60)
    async with prometheus_of(
        tmp_path, [Recorded(DEMAND, labels(), every(15, START_S + 15, START_S + 1200, 5.0))]
    ) as url:
        source = ranges(url)
        try:
            asked = Asked(source, fail_at=(2,))
            settings = OwnSettings(answer_bytes=10 * 32)
            batch = await OwnHistory(asked, settings).read(HistorySignal.DEMAND, [CHAT], grid)
            partial = Asked(source, partial=("a store did not answer",))
            doubtful = await OwnHistory(partial, settings).read(HistorySignal.DEMAND, [CHAT], grid)
        finally:
            await source.close()
    assert batch.series[CHAT].values.tolist()[:10] == [5.0] * 10
    assert np.isnan(batch.series[CHAT].values[10:]).all()
    assert len(batch.problems) == 1
    assert "refused" in batch.problems[0]
    assert np.isnan(doubtful.series[CHAT].values).all()
    assert len(doubtful.problems) == 2
