"""The simulated fleet under any traffic and any scaling: nothing is lost, nothing is made up, one seed one run."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scaler.backtest.plant import Plant
from scaler.backtest.profiles import LeadTime
from scaler.traces.arrivals import Arrivals
from tests.plant_builders import ROUND, T0, requests_at

TIGHT = replace(
    ROUND,
    slots=3,
    kv_tokens=60,
    max_model_len=60,
    prefill_budget_tokens=30,
    drain_s=25.0,
    lead_time=LeadTime(15.0, 0.5),
)

requests = st.lists(st.tuples(st.integers(0, 200), st.integers(1, 70), st.integers(1, 40)), max_size=30)
scalings = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 4)), max_size=6)


def made(traffic: list[tuple[int, int, int]]) -> Arrivals:
    ordered = sorted(traffic)
    return requests_at(
        *(at for at, _, _ in ordered), prompt=[p for _, p, _ in ordered], output=[o for _, _, o in ordered]
    )


def scaled(fleet: Plant, steps: list[tuple[int, int]]) -> None:
    at_s = T0
    for after_s, replicas in steps:
        at_s += after_s
        fleet.scale(replicas, at_s)


@given(requests, scalings)
def test_every_request_is_somewhere(traffic: list[tuple[int, int, int]], steps: list[tuple[int, int]]) -> None:
    """At every moment those that arrived wait, run, have finished or were lost, and never the same twice."""
    fleet = Plant(TIGHT, made(traffic), 1, 1, T0)
    at_s = T0
    for after_s, replicas in [*steps, (400, 1)]:
        at_s += after_s
        fleet.scale(replicas, at_s)
        view = fleet.view(at_s)
        assert view.arrived == view.waiting + view.running + view.finished + view.lost
        assert view.arrived == sum(T0 + at <= at_s for at, _, _ in traffic)
        assert sum(metrics.running for metrics in fleet.pods().values()) == view.running
        for metrics in fleet.pods().values():
            assert metrics.running <= TIGHT.slots
            assert -1e-9 <= metrics.kv_usage <= 1 + 1e-9


@given(requests)
def test_a_steady_fleet_finishes_all_that_fits(traffic: list[tuple[int, int, int]]) -> None:
    """With a replica that stays, all requests that the model can take finish, with every token counted once."""
    fleet = Plant(TIGHT, made(traffic), 1, 1, T0)
    fleet.advance(T0 + 50_000)
    view = fleet.view(T0 + 50_000)
    fitting = [(prompt, min(output, 60 - prompt)) for _, prompt, output in traffic if prompt < 60]
    assert (view.finished, view.lost) == (len(fitting), len(traffic) - len(fitting))
    metrics = fleet.pods()["chat-0"]
    assert metrics.success == len(fitting)
    assert metrics.prompt_tokens == sum(prompt for prompt, _ in fitting)
    assert metrics.generation_tokens == sum(output for _, output in fitting)
    assert metrics.queue_time.counts[-1] == metrics.e2e.counts[-1] == metrics.ttft.counts[-1] == len(fitting)
    assert metrics.kv_usage == 0


@given(requests, scalings, st.lists(st.integers(0, 300), max_size=10))
def test_looking_changes_nothing(
    traffic: list[tuple[int, int, int]], steps: list[tuple[int, int]], looks: list[int]
) -> None:
    """A run that is looked at in between ends as one that is not, and a second run as the first."""
    quiet, watched = (Plant(TIGHT, made(traffic), 7, 1, T0) for _ in range(2))
    scaled(quiet, steps)
    at_s = T0
    for after_s, replicas in steps:
        for look in sorted(looks):
            if at_s + look < at_s + after_s:
                watched.advance(at_s + look)
                watched.pods()
        at_s += after_s
        watched.scale(replicas, at_s)
    end_s = T0 + 1000
    assert quiet.view(end_s) == watched.view(end_s)
    assert quiet.scores(1.0).met == watched.scores(1.0).met


@given(requests, scalings)
def test_counters_never_fall(traffic: list[tuple[int, int, int]], steps: list[tuple[int, int]]) -> None:
    """Seen at any two times, no counter of a pod falls."""
    fleet = Plant(TIGHT, made(traffic), 1, 2, T0)
    scaled(fleet, steps)
    seen: dict[str, tuple[float, ...]] = {}
    for second in range(0, 400, 3):
        fleet.advance(max(fleet.now_s, T0 + second))
        for name, m in fleet.pods().items():
            counters = (
                m.success, m.generation_tokens, m.prompt_tokens, m.preemptions, m.busy_s, *m.ttft.counts,
                *m.queue_time.counts, *m.e2e.counts,
            )  # fmt: skip
            assert all(new >= old for new, old in zip(counters, seen.get(name, counters), strict=True))
            seen[name] = counters
