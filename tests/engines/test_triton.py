"""A real Triton under more load than it can serve: its own counters, through a real Prometheus, become the decision.

The truth is what the clients saw. Ten seconds of twice what the model serves come, then nothing more; and after all is
served the same again, in the midst of which the server is killed.
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import pytest

from scaler.adapters.aggregated import AggregatedReplicas
from scaler.adapters.asking import Server
from scaler.adapters.clock import SystemClock
from scaler.adapters.observer import CollectingObserver
from scaler.adapters.prometheus import PrometheusSettings, PrometheusSource
from scaler.config.models import DecisionSettings, Policy, RateLimit, WorkloadSettings
from scaler.core.observation import ReplicaCounts
from scaler.core.values import Known, Missing, Reading, Reason, Stale, WorkloadId, value_of
from scaler.ports import ClusterSnapshot, WorkloadView
from tests.engines import installation
from tests.engines.load import Answered, ClientLog, client_of
from tests.engines.site import Tick, Ticker, running_prometheus
from tests.engines.triton import DEADLINE_S, Model, end_group, running_triton
from tests.metrics_fakes import FixedView

OBSTACLE = installation.obstacle()
pytestmark = [
    pytest.mark.prometheus,
    pytest.mark.xdist_group("engines"),  # with --dist loadgroup one process runs them, and the servers, once
    pytest.mark.skipif(OBSTACLE is not None, reason=f"no real engine was tested against: {OBSTACLE}"),
]
SERVICE_MS = 100
CAPACITY_RPS = 1000 / SERVICE_MS  # of one instance that serves one request at a time
OFFERED_RPS = 2 * CAPACITY_RPS
OFFERED = 200  # requests: ten seconds of them
RENDER, EMBED = WorkloadId("demo", "render"), WorkloadId("demo", "embed")
DECISION = DecisionSettings(
    rate_window_s=5,
    stale_after_s=10,
    frozen_after_s=10,
    hold_s=5,
    rate=RateLimit(period_s=5),
)
POLICY = Policy(
    decision=DECISION,
    workloads=tuple(
        WorkloadSettings(namespace=w.namespace, name=w.name, engine="triton", capacity_per_replica=CAPACITY_RPS)
        for w in (RENDER, EMBED)
    ),
)
TOLERANCE = 0.1  # of what the clients saw
NEEDED = math.ceil(OFFERED_RPS / CAPACITY_RPS / DECISION.utilisation_target)
# After this long nothing from before keeps a target up: samples went stale, and windows and rate limits ran out.
LONGEST_MEMORY_S = DECISION.stale_after_s + DECISION.rate_window_s + DECISION.hold_s + DECISION.rate.period_s


@dataclass(frozen=True)
class Run:
    """What happened in two rounds of load: the ticks, and the log of the clients of the first one."""

    idle: Tick
    ticks: Sequence[Tick]  # of the first round
    after: Tick
    clients: ClientLog
    second: Sequence[Tick]  # up to the kill
    dead: Sequence[Tick]  # from the kill on

    @property
    def busy(self) -> Sequence[Tick]:
        """The ticks of which every rate is one of the overload: the window began after it did, and it still goes on."""
        first_s, last_s = self.clients.sent_s[0], max(a.done_s for a in self.clients.answered)
        margin_s = 1.0  # a rate may span more than its window by up to a scrape and a tick
        return [t for t in self.ticks if first_s + DECISION.rate_window_s + margin_s < t.now_s < last_s]


async def _run(folder: Path) -> Run:
    clock = SystemClock()
    async with (
        running_triton(folder / "render", [Model("render")]) as render,
        running_triton(folder / "embed", [Model("embed")]) as embed,
        running_prometheus(
            folder / "prometheus",
            {("demo", "render-0"): render.metrics_address, ("demo", "embed-0"): embed.metrics_address},
        ) as prometheus_url,
        client_of(render.url, "render", clock) as first,
        client_of(render.url, "render", clock) as second,
    ):
        source = PrometheusSource(PrometheusSettings(prometheus_url), clock)
        one = ReplicaCounts(spec=1, ready=1)
        views = {w: WorkloadView(one, (f"{w.name}-0",)) for w in (RENDER, EMBED)}
        view = FixedView(ClusterSnapshot(clock.now_s(), views))
        # As a controller reads a Prometheus: aggregated in the server.
        replicas = AggregatedReplicas(Server(source, DEADLINE_S), clock, DECISION)
        ticker = Ticker(CollectingObserver(source, view, clock, DECISION, replicas=replicas), POLICY, clock)
        try:
            idle = await _until(ticker, _have_two_samples)
            offer = asyncio.create_task(first.offer(SERVICE_MS, OFFERED_RPS, OFFERED))
            await _until(ticker, lambda _: offer.done())
            await offer
            after = await _until(ticker, _is_over)
            rounds = [ticker.ticks, [], []]
            ticker.ticks = rounds[1]
            offer = asyncio.create_task(second.offer(SERVICE_MS, OFFERED_RPS, OFFERED))
            await _until(ticker, lambda tick: tick.recommendation(RENDER).target == NEEDED)
            end_group(render.process)
            ticker.ticks = rounds[2]
            await _until(ticker, lambda tick: tick.now_s > rounds[1][-1].now_s + LONGEST_MEMORY_S)
            await offer
        finally:
            await source.close()
    return Run(idle, rounds[0], after, first.log, rounds[1], rounds[2])


def _have_two_samples(tick: Tick) -> bool:
    seen = [tick.replica(w) for w in (RENDER, EMBED)]
    rates = [reading for r in seen for reading in (r.running, r.completions_rps, r.queue_time_s)]
    return Missing(Reason.TOO_FEW_SAMPLES) not in rates


def _is_over(tick: Tick) -> bool:
    """Return whether the load has left all windows, and its last effect the target."""
    return value_of(tick.replica(RENDER).completions_rps) == 0 and tick.recommendation(RENDER).target == 1


async def _until(ticker: Ticker, holds: Callable[[Tick], bool]) -> Tick:
    """Tick until something holds; at least once."""
    async with asyncio.timeout(DEADLINE_S):
        while not holds(tick := await ticker.tick()):
            pass
    return tick


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return asyncio.run(_run(tmp_path_factory.mktemp("triton")))


def test_an_idle_engine_is_known_to_be_idle(run: Run) -> None:
    """Before any request: nothing waits, runs or completes, each a known 0; a mean of nothing is absent, not NaN."""
    for workload in (RENDER, EMBED):
        replica = run.idle.replica(workload)
        assert {_value(r) for r in (replica.waiting, replica.running, replica.completions_rps)} == {0.0}
        assert replica.queue_time_s == Missing(Reason.NO_COMPLETIONS)
        assert run.idle.recommendation(workload).target == 1


def test_every_tick_could_see(run: Run) -> None:
    """No tick missed anything, and the clients got every answer."""
    assert [t.problems for t in run.ticks if t.problems] == []
    assert {a.status for a in run.clients.answered} == {200}
    assert len(run.busy) >= 5


def test_the_queue_time_is_what_clients_waited(run: Run) -> None:
    """The mean queue time of the server's counters is the clients' mean latency without the service time."""
    seen, clients = [], []
    for tick in run.busy:
        reading = tick.replica(RENDER).queue_time_s
        answered = _answered(run, tick, reading)
        seen.append(_value(reading))
        clients.append(fmean(a.done_s - a.sent_s for a in answered) - SERVICE_MS / 1000)
    assert fmean(clients) > 1.0  # else the load was none
    assert fmean(seen) == pytest.approx(fmean(clients), rel=TOLERANCE)


def test_completions_are_those_that_clients_got(run: Run) -> None:
    """The rate of completions is that of the answers."""
    seen, clients = [], []
    for tick in run.busy:
        reading = tick.replica(RENDER).completions_rps
        seen.append(_value(reading))
        clients.append(len(_answered(run, tick, reading)) / DECISION.rate_window_s)
    assert fmean(seen) == pytest.approx(fmean(clients), rel=TOLERANCE)


def test_waiting_is_what_clients_wait_for(run: Run) -> None:
    """At each scrape all requests without an answer wait in the server, but the one that runs."""
    seen, clients = [], []
    for tick in run.busy:
        reading = tick.replica(RENDER).waiting
        seen.append(_value(reading))
        clients.append(float(run.clients.outstanding(tick.sampled_s(reading)) - 1))
    assert max(clients) > OFFERED / 4
    assert seen == pytest.approx(clients, rel=TOLERANCE, abs=5)


def test_one_instance_runs_one_request(run: Run) -> None:
    """Triton exports no gauge of what runs; the time spent on requests per second is how many run at once."""
    assert fmean(_value(t.replica(RENDER).running) for t in run.busy) == pytest.approx(1.0, rel=TOLERANCE)


def test_saturation_and_the_recommendation_follow_the_load(run: Run) -> None:
    """Under twice its capacity a replica is saturated, and what is asked for serves all of it; later one is enough."""
    offering = [t for t in run.busy if t.now_s < run.clients.sent_s[-1]]
    assert all(_value(t.recommendation(RENDER).saturation.value) > 1 for t in offering)
    assert all(t.recommendation(RENDER).saturation.binding == "queue_time" for t in offering)
    targets = [t.recommendation(RENDER).target for t in offering]
    assert targets[-1] in {NEEDED, NEEDED + 1}, targets
    assert _value(run.after.recommendation(RENDER).saturation.value) == 0
    assert run.after.recommendation(RENDER).target == 1


def test_the_idle_neighbour_stays_as_it_is(run: Run) -> None:
    """An engine that got no request while another was overloaded is asked for one replica throughout."""
    assert {t.recommendation(EMBED).target for t in run.ticks} == {1}
    assert {_value(t.replica(EMBED).waiting) for t in run.ticks} == {0.0}


def test_a_killed_engine_does_not_look_idle(run: Run) -> None:
    """When the overloaded server is killed its readings end, with a reason, and the target stays what it was."""
    replica, told = run.dead[-1].replica(RENDER), run.second[-1].recommendation(RENDER).target
    for reading in (replica.waiting, replica.running, replica.completions_rps):
        assert isinstance(reading, Stale) or reading == Missing(Reason.SOURCE_DOWN)
    assert {t.recommendation(RENDER).target for t in run.dead} == {told}
    assert run.dead[-1].recommendation(RENDER).evidence_age_s > DECISION.stale_after_s
    assert {_value(t.replica(EMBED).waiting) for t in run.dead} == {0.0}


def _answered(run: Run, tick: Tick, reading: Reading) -> Sequence[Answered]:
    """Return the clients' answers of the window that a reading is about."""
    until_s = tick.sampled_s(reading)
    return run.clients.between(until_s - DECISION.rate_window_s, until_s)


def _value(reading: Reading) -> float:
    assert isinstance(reading, Known), reading
    return reading.value
