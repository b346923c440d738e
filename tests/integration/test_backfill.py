"""What engines served before Headway was there, through a real Prometheus with kube-state-metrics' series."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

from forecasting.series import Grid
from scaler.adapters.clock import SystemClock
from scaler.adapters.history.backfill import Backfill, BackfillSettings
from scaler.adapters.history.combined import CombinedHistory
from scaler.adapters.history.joins import PastTarget, served_query, served_signal
from scaler.adapters.history.kept import KeptHistory
from scaler.adapters.history.own import OwnHistory
from scaler.adapters.history.ranges import PrometheusRanges, RangeAnswer
from scaler.adapters.prometheus import PrometheusSettings
from scaler.adapters.signals.presets import ENGINES
from scaler.config.models import Unit
from scaler.core.history import HistorySignal
from scaler.core.values import WorkloadId
from tests.history_rig import NEEDED, PROMETHEUS, PROMTOOL, START_S, Asked, Recorded, every, prometheus_of

pytestmark = [
    pytest.mark.prometheus,
    pytest.mark.skipif(PROMETHEUS is None or PROMTOOL is None, reason=NEEDED),
]
HOUR_S = 3600
PIECE = Grid(START_S + 300, 300, 24)  # two hours
CHAT = WorkloadId("demo", "chat")
TARGET = PastTarget(CHAT, "vllm", Unit.REQUESTS, "Deployment", "chat")
SERVED = "vllm:request_success_total"


def counter(rps: float, begin_s: int, end_s: int, step_s: int = 15) -> list[tuple[int, float]]:
    """Return a counter that rises evenly."""
    return [(at_s, rps * (at_s - begin_s)) for at_s in range(begin_s, end_s + 1, step_s)]


def pod(
    name: str,
    rps: float,
    begin_s: int = START_S - 600,
    end_s: int = START_S + 2 * HOUR_S,
    *,
    replica_set: str = "chat-6d",
    down: tuple[int, int] | None = None,
) -> Iterator[Recorded]:
    """Yield what there is of a pod: its counters in two parts, `up`, and what kube-state-metrics says, twice."""

    def seen(samples: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
        return [(at, value) for at, value in samples if down is None or not down[0] < at <= down[1]]

    labels = {"namespace": "demo", "pod": name, "model_name": "m", "engine": "0"}
    for reason, share in (("stop", 0.75), ("length", 0.25)):
        samples = seen(counter(rps * share, begin_s, end_s))
        yield Recorded(SERVED, {**labels, "finished_reason": reason}, samples)
    ups = [(at, float(down is None or not down[0] < at <= down[1])) for at, _ in every(15, begin_s, end_s)]
    yield Recorded("up", {"namespace": "demo", "pod": name, "job": "engines"}, ups)
    for instance in ("ksm-0", "ksm-1"):
        kube = {"namespace": "demo", "pod": name, "instance": instance}
        owner = {"owner_kind": "ReplicaSet", "owner_name": replica_set, "owner_is_controller": "true"}
        yield Recorded("kube_pod_owner", {**kube, **owner}, every(30, begin_s, end_s))
        yield Recorded("kube_pod_status_ready", {**kube, "condition": "true"}, every(30, begin_s, end_s))


def replica_set(
    name: str, deployment: str, begin_s: int = START_S - 600, end_s: int = START_S + 2 * HOUR_S
) -> Iterator[Recorded]:
    for instance in ("ksm-0", "ksm-1"):
        labels = {"namespace": "demo", "replicaset": name, "owner_kind": "Deployment", "owner_name": deployment}
        yield Recorded("kube_replicaset_owner", {**labels, "instance": instance}, every(30, begin_s, end_s))


@asynccontextmanager
async def past(folder: Path, *recorded: Iterator[Recorded], flags: Sequence[str] = ()) -> AsyncIterator[Asked]:
    """Run a Prometheus with a past; yield what asks it."""
    async with prometheus_of(folder, [series for some in recorded for series in some], *flags) as url:
        source = PrometheusRanges(PrometheusSettings(url, total_timeout_s=60.0, read_timeout_s=60.0), SystemClock())
        try:
            yield Asked(source)
        finally:
            await source.close()


def by_owner(answer: RangeAnswer) -> Mapping[str, list[float]]:
    return {row.labels["owner_name"]: row.values.tolist() for row in answer.rows}


async def test_a_pod_that_is_gone_counts_while_it_was_there(tmp_path: Path) -> None:
    """Two pods, of which one ended after an hour with its ReplicaSet: the sum of both, then the rest."""
    gone_s = START_S + HOUR_S + 130  # between two points: at the second nothing is said of it any more
    async with past(
        tmp_path,
        pod("chat-6d-a", 4.0),
        pod("chat-5c-b", 2.0, end_s=gone_s, replica_set="chat-5c"),
        replica_set("chat-6d", "chat"),
        replica_set("chat-5c", "chat", end_s=gone_s),
        pod("other-1-a", 100.0, replica_set="other-1"),
        replica_set("other-1", "other"),
    ) as asked:
        answer = await asked.matrix(served_query([TARGET], 300), PIECE)
    found = by_owner(answer)
    assert set(found) == {"chat"}
    np.testing.assert_allclose(found["chat"][:12], 6.0, rtol=1e-3)
    assert 4.5 < found["chat"][12] < 6.0
    np.testing.assert_allclose(found["chat"][13:], 4.0, rtol=1e-3)
    assert answer.samples
    assert answer.samples > 1000


async def test_a_renamed_deployment_keeps_its_past_where_its_former_name_is_given(tmp_path: Path) -> None:
    """Under the old name first, under the new one later: one series with the former name, half of one without."""
    renamed_s = START_S + HOUR_S
    renamed = PastTarget(CHAT, "vllm", Unit.REQUESTS, "Deployment", "chat", ("old-chat",))
    async with past(
        tmp_path,
        pod("old-1-a", 3.0, end_s=renamed_s, replica_set="old-1"),
        replica_set("old-1", "old-chat", end_s=renamed_s),
        pod("chat-6d-a", 3.0, begin_s=renamed_s),
        replica_set("chat-6d", "chat", begin_s=renamed_s),
    ) as asked:
        whole = by_owner(await asked.matrix(served_query([renamed], 300), PIECE))
        half = by_owner(await asked.matrix(served_query([TARGET], 300), PIECE))
    assert set(whole) == {"chat"}
    known = np.array(whole["chat"])
    assert not np.isnan(known).any()
    np.testing.assert_allclose(np.delete(known, 12), 3.0, rtol=1e-3)
    assert np.isnan(half["chat"][:12]).all()


async def test_a_pod_that_does_not_answer_makes_its_workload_unknown(tmp_path: Path) -> None:
    """Of two ready pods one is not scraped for half an hour: what both served is unknown, not what one did."""
    down = (START_S + 1800, START_S + 3600)
    async with past(
        tmp_path, pod("chat-6d-a", 4.0), pod("chat-6d-b", 4.0, down=down), replica_set("chat-6d", "chat")
    ) as asked:
        found = np.array(by_owner(await asked.matrix(served_query([TARGET], 300), PIECE))["chat"])
    np.testing.assert_allclose(found[:6], 8.0, rtol=1e-3)
    assert np.isnan(found[7:12]).all()
    assert not (found < 7.9).any()
    np.testing.assert_allclose(found[13:], 8.0, rtol=1e-3)


async def test_exporters_that_disagree_do_not_fail_the_query(tmp_path: Path) -> None:
    """One kube-state-metrics gives a pod two owners; the pod counts once, and the other pods as ever."""
    wrong = {"namespace": "demo", "pod": "chat-6d-a", "instance": "ksm-1", "owner_kind": "ReplicaSet"}
    samples = every(30, START_S, START_S + 2 * HOUR_S)
    async with past(
        tmp_path,
        pod("chat-6d-a", 4.0),
        iter([Recorded("kube_pod_owner", {**wrong, "owner_name": "chat-5c"}, samples)]),
        replica_set("chat-6d", "chat"),
        replica_set("chat-6d", "chat-copy"),
        replica_set("chat-5c", "chat"),
    ) as asked:
        both = PastTarget(WorkloadId("demo", "copy"), "vllm", Unit.REQUESTS, "Deployment", "chat-copy")
        found = by_owner(await asked.matrix(served_query([TARGET, both], 300), PIECE))
    total = np.nansum(list(found.values()), axis=0)
    np.testing.assert_allclose(total, 4.0, rtol=1e-3)


async def test_every_engine_s_query_is_one_that_a_server_evaluates(tmp_path: Path) -> None:
    """All engines, units and kinds, through the parser of a real Prometheus."""
    asked_for = 0
    async with past(tmp_path, replica_set("chat-6d", "chat")) as asked:
        for engine in ENGINES:
            for unit in Unit:
                for kind in ("Deployment", "StatefulSet"):
                    if served_signal(engine, unit) is not None:
                        target = PastTarget(CHAT, engine, unit, kind, "chat", ("old.name",))
                        assert (await asked.matrix(served_query([target], 300), PIECE)).rows == ()
                        asked_for += 1
    assert asked_for > 20


class Pauses:
    """Notes pauses instead of waiting."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


async def test_what_was_backfilled_is_read_where_own_series_have_nothing(tmp_path: Path) -> None:
    """Own series win where both are; each piece is asked once, newest first, and a second run asks for nothing."""
    end_s = START_S + 6 * HOUR_S
    own_from_s = START_S + 4 * HOUR_S
    exported = Recorded(
        "headway_demand_per_second", {"namespace": "demo", "workload": "chat"}, every(15, own_from_s + 15, end_s, 9.0)
    )
    async with past(
        tmp_path,
        pod("chat-6d-a", 4.0, end_s=end_s),
        replica_set("chat-6d", "chat", end_s=end_s),
        iter([exported]),
    ) as asked:
        kept = KeptHistory(tmp_path / "kept", 2**20, 300, 2 * HOUR_S)
        kept.open()
        pauses = Pauses()
        settings = BackfillSettings(lookback_s=6 * HOUR_S, samples_per_minute=60_000)
        backfill = Backfill(asked, OwnHistory(asked), kept, settings, pauses)
        progress = await backfill.run([TARGET], end_s + 60)
        served = [grid.start_s for query, grid in asked.queries if SERVED in query]
        again = await backfill.run([TARGET], end_s + 60)
        batch = await CombinedHistory(OwnHistory(asked), kept).read(
            HistorySignal.DEMAND, [CHAT], Grid.between(START_S, end_s, 300)
        )
    assert (progress.total, progress.answered, progress.empty, progress.problem) == (1, 1, 0, "")
    assert served == [START_S + 2 * HOUR_S + 300]
    assert again.total == 0
    values = batch.series[CHAT].values
    assert np.isnan(values[:24]).all()  # the look-back begins a minute after the first piece did
    np.testing.assert_allclose(values[24:48], 4.0, rtol=1e-3)
    assert values[48:].tolist() == [9.0] * 24
    look, query, *_ = pauses.seconds
    assert look == 1.0
    assert query > 1.0  # by the server's own count of samples
