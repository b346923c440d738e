"""What must always hold of a decision, whatever is seen. In plain words first: docs/decision.md lists them."""

import json
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from scaler.config.models import DecisionSettings, Policy, RateLimit, WorkloadSettings
from scaler.core.claims import MOST_TIMES
from scaler.core.engine import step
from scaler.core.observation import GatewayReading, Observation, ReplicaCounts, WorkloadObservation
from scaler.core.plan import Recommendation
from scaler.core.state import EngineState, state_from_json, state_to_json
from scaler.core.values import Known, Missing, Reason, WorkloadId
from tests.core_builders import CHAT, T0, TICK_S, Ticker, gateway, replica, replicas, seen, workload
from tests.core_strategies import behind_gateway, blinded, gaps, gateways, healthy, lit, maybe_blinded

ANY_SETTINGS = st.builds(
    workload,
    slots_per_replica=st.sampled_from([None, 8, 32]),
    capacity_per_replica=st.sampled_from([None, 0.5, 5.0]),
    active_ratio_target=st.sampled_from([None, 0.5]),
    min_replicas=st.integers(0, 5),
    max_replicas=st.integers(1, 40),
)
ANY_DECISION = st.builds(
    DecisionSettings,
    hold_s=st.sampled_from([0.0, 60.0, 300.0]),
    rate=st.sampled_from([RateLimit(), RateLimit(up_replicas=2, down_replicas=None, down_share=None)]),
)
STORY = st.lists(maybe_blinded(), min_size=1, max_size=5)


def tell(ticker: Ticker, story: list[WorkloadObservation], *, every_s: float = TICK_S) -> list[Recommendation]:
    """Run a story tick by tick."""
    return [ticker.tick(observation, every_s=every_s) for observation in story]


@given(STORY, ANY_SETTINGS, ANY_DECISION)
def test_a_target_is_within_its_bounds_or_says_that_it_is_unknown(
    story: list[WorkloadObservation], workload_settings: WorkloadSettings, decision: DecisionSettings
) -> None:
    """Never above the maximum; never below the minimum once the scale target was seen; never negative."""
    for result in tell(Ticker(workload_settings, decision), story):
        if isinstance(result.target, Missing):
            assert isinstance(result.counts, Missing)
            continue
        assert 0 <= result.target <= workload_settings.max_replicas
        if not isinstance(result.counts, Missing):
            assert result.target >= min(workload_settings.min_replicas, workload_settings.max_replicas)


@given(STORY, st.data(), ANY_SETTINGS, ANY_DECISION)
@settings(max_examples=150)
def test_a_target_never_falls_because_something_is_unknown(
    story: list[WorkloadObservation], data: st.DataObject, chat: WorkloadSettings, decision: DecisionSettings
) -> None:
    """The same tick with less in sight gives at least what was in force, or what full sight gives if that is less.

    Bounds are not part of it: a cap that was lowered holds, whatever is seen. The ticks are a minute apart, so that the
    waits after a start are over and the target could fall.
    """
    last = data.draw(lit())
    dark = data.draw(blinded(last))
    ticker, twin = Ticker(chat, decision), Ticker(chat, decision)
    before = tell(ticker, story, every_s=60)[-1].target
    tell(twin, story, every_s=60)
    full, unlit = ticker.tick(last, every_s=60).target, twin.tick(dark, every_s=60).target
    assert isinstance(full, int)
    if isinstance(before, Missing):
        return
    assert isinstance(unlit, int)
    assert unlit >= min(before, full)


@given(STORY, st.integers(1, 500), ANY_DECISION)
def test_a_wholly_dark_workload_keeps_its_target(
    story: list[WorkloadObservation], ticks: int, decision: DecisionSettings
) -> None:
    """However long the dark lasts."""
    ticker = Ticker(decision=decision)
    before = tell(ticker, [*story, seen([replica()])])[-1].target
    result = ticker.tick(seen(counts=ReplicaCounts(spec=3, ready=3)), every_s=TICK_S * ticks)
    assert result.target == before


@given(healthy(), st.sampled_from(["running", "waiting", "completions_rps"]), st.floats(0, 50), ANY_SETTINGS)
def test_more_load_never_asks_for_fewer_replicas(
    observation: WorkloadObservation, name: str, more: float, chat: WorkloadSettings
) -> None:
    """Monotone in work in flight, waiting and completions, for engines that are moving and not in doubt.

    Without a known capacity, more completions mean that a replica does more: then a backlog needs fewer of them.
    """
    assume(name != "completions_rps" or chat.capacity_per_replica is not None)
    moving = tuple(
        replace(r, still_s=Known(0), gpu_activity=replica().gpu_activity, running=Known(max(r.running.value, 1)))
        for r in observation.replicas
        if isinstance(r.running, Known)
    )
    fuller = tuple(
        replace(r, **{name: Known(getattr(r, name).value + more)})  # type: ignore[arg-type]  # a name of a reading
        for r in moving
    )
    less = Ticker(chat).tick(replace(observation, replicas=moving)).uncapped
    loaded = Ticker(chat).tick(replace(observation, replicas=fuller)).uncapped
    assert isinstance(less, int)
    assert isinstance(loaded, int)
    assert loaded >= less


@given(behind_gateway(), st.floats(0, 200), ANY_SETTINGS)
def test_more_arrivals_at_the_gateway_never_ask_for_fewer_replicas(
    observation: WorkloadObservation, more: float, chat: WorkloadSettings
) -> None:
    """Also where they overtake what the replicas' own flow balance says."""
    assert observation.gateway is not None
    assert isinstance(observation.gateway.arrivals_rps, Known)
    arrivals = Known(observation.gateway.arrivals_rps.value + more)
    fuller = replace(observation, gateway=replace(observation.gateway, arrivals_rps=arrivals))
    tickers = Ticker(chat), Ticker(chat)
    for ticker in tickers:
        ticker.tick(observation, times=5)  # the flow balance has its window now
    less, loaded = (t.tick(seen_).uncapped for t, seen_ in zip(tickers, (observation, fuller), strict=True))
    assert isinstance(less, int)
    assert isinstance(loaded, int)
    assert loaded >= less


@given(behind_gateway(), st.data(), ANY_SETTINGS)
def test_a_gateway_that_cannot_be_read_never_lowers_a_target(
    observation: WorkloadObservation, data: st.DataObject, chat: WorkloadSettings
) -> None:
    """Whatever the replicas say meanwhile, and however long it lasts."""
    ticker = Ticker(chat)
    before = ticker.settled(observation).target
    assert isinstance(before, int)
    dark = replace(observation, gateway=gateway(data.draw(gaps), data.draw(gaps)))
    after = ticker.tick(dark, times=60).target
    assert isinstance(after, int)
    assert after >= before


@given(gateways, ANY_SETTINGS)
def test_requests_at_a_gateway_wake_a_workload_at_zero(front: GatewayReading, chat: WorkloadSettings) -> None:
    """One replica at least for the first request, with a view or without; none while nothing comes."""
    sleeping = chat.model_copy(update={"min_replicas": 0})
    nothing = ReplicaCounts(spec=0, ready=0)
    known = seen(counts=nothing, gateway=front)
    comes = any(isinstance(r, Known) and r.value > 0 for r in (front.arrivals_rps, front.waiting))
    for unseen in (False, True):
        ticker = Ticker(sleeping)
        assert ticker.tick(seen(counts=nothing, gateway=gateway())).target == 0
        tick = replace(known, counts=Missing(Reason.VIEW_STALE)) if unseen else known
        result = ticker.tick(tick)
        assert isinstance(result.target, int)
        assert (result.target >= 1) is comes
        assert result.active is comes


@given(healthy(), ANY_SETTINGS, st.integers(1, 64))
def test_slots_that_the_engine_exports_count_as_configured_ones_do(
    observation: WorkloadObservation, chat: WorkloadSettings, slots: int
) -> None:
    """It does not matter who says it; where both say something, the settings win."""
    exported = tuple(replace(r, slots=Known(float(slots))) for r in observation.replicas)
    told = chat.model_copy(update={"slots_per_replica": slots})
    by_engine = Ticker(chat.model_copy(update={"slots_per_replica": None}))
    by_settings, by_both = Ticker(told), Ticker(told)
    plain = tuple(replace(r, slots=Missing(Reason.NOT_EXPORTED)) for r in observation.replicas)
    other = tuple(replace(r, slots=Known(3.0)) for r in observation.replicas)
    targets = [
        ticker.tick(replace(observation, replicas=pods), times=40).target
        for ticker, pods in ((by_engine, exported), (by_settings, plain), (by_both, other))
    ]
    if observation.replicas:
        assert len(set(targets)) == 1
    else:
        assert targets[1] == targets[2]


@given(
    st.integers(2, 12),
    st.sampled_from([8, 32]),
    st.sampled_from([0.5, 5.0]),
    st.floats(0, 1e300),
    st.floats(0, 1e300),
)
def test_one_replica_that_lies_adds_a_bounded_number(
    count: int, slots: int, capacity: float, running: float, completions: float
) -> None:
    """However absurd its work in flight and its completions: ten times its capacity, ten times its slots a minute.

    Or twice the replicas, which a level may always ask for.
    """
    chat = workload(slots_per_replica=slots, capacity_per_replica=capacity, max_replicas=1_000_000)
    honest, liar = Ticker(chat), Ticker(chat)
    calm = replicas(count, running=slots / 2, completions_rps=capacity / 2)
    for ticker in (honest, liar):
        ticker.tick(seen(calm), times=5)
    before = honest.tick(seen(calm)).uncapped
    claims = (replica("liar", running=running, completions_rps=completions), *calm[1:])
    after = liar.tick(seen(claims)).uncapped
    assert isinstance(before, int)
    assert isinstance(after, int)
    lie = (MOST_TIMES * capacity + MOST_TIMES * slots / DecisionSettings().rate_window_s) / capacity
    assert after <= max(2 * count, before + 1 + lie / DecisionSettings().utilisation_target)


@given(healthy(), ANY_SETTINGS, st.integers(2, 30))
def test_asking_again_asks_for_the_same(observation: WorkloadObservation, chat: WorkloadSettings, ticks: int) -> None:
    """Constant load, with what was asked for still on its way, never makes the target creep up."""
    ticker = Ticker(chat)
    ticker.tick(observation)
    ticker.tick(observation, times=5)  # the growth term has its window now
    settled = ticker.tick(observation).target
    assert isinstance(settled, int)
    assert not isinstance(observation.counts, Missing)
    waiting = replace(observation.counts, spec=settled, pending=max(0, settled - observation.counts.ready))
    later = ticker.tick(replace(observation, counts=waiting), times=ticks).target
    assert isinstance(later, int)
    assert later <= settled


@given(st.integers(1, 39), st.lists(maybe_blinded(), min_size=1, max_size=8))
def test_after_a_start_nothing_falls_until_the_windows_have_filled(
    published: int, story: list[WorkloadObservation]
) -> None:
    """Whatever is seen in the first 300 s, the published target is the floor."""
    ticker = Ticker(workload(max_replicas=40))
    for observation in story:
        target = ticker.tick(replace(observation, published_target=published)).target
        assert isinstance(target, int)
        assert target >= published


@given(st.lists(st.tuples(st.sampled_from("abcdef"), maybe_blinded()), max_size=6, unique_by=lambda p: p[0]), st.data())
def test_the_order_of_workloads_does_not_matter(
    pairs: list[tuple[str, WorkloadObservation]], data: st.DataObject
) -> None:
    """The plan is a function of what is seen, not of the order in which it is told."""
    settings_of = {name: workload(name=name) for name, _ in pairs}
    observation = {WorkloadId("demo", name): item for name, item in pairs}
    shuffled = data.draw(st.permutations(pairs))
    plans = [
        step(
            EngineState.empty(),
            Observation({WorkloadId("demo", name): observation[WorkloadId("demo", name)] for name, _ in order}),
            Policy(workloads=tuple(settings_of[name] for name, _ in order)),
            T0,
        ).plan
        for order in (pairs, shuffled)
    ]
    assert dict(plans[0].recommendations) == dict(plans[1].recommendations)


@given(STORY)
def test_the_trail_leads_from_the_previous_target_to_the_new_one(story: list[WorkloadObservation]) -> None:
    """Every change of a number has its step; the steps join up; the last one is the target."""
    ticker = Ticker()
    previous = None
    for observation in story:
        result = ticker.tick(observation)
        if isinstance(result.target, Missing):
            continue
        assert all(a.after == b.before for a, b in zip(result.trail, result.trail[1:], strict=False))
        assert result.trail[-1].after == result.target
        assert previous is None or result.trail[0].before == previous
        assert result.reason.split(":")[0] in {s.name for s in result.trail}
        previous = result.target


@given(STORY)
def test_a_checkpoint_is_json_and_comes_back_equal(story: list[WorkloadObservation]) -> None:
    """The state after any story survives a round trip, and is at most 8 KB."""
    ticker = Ticker()
    tell(ticker, story)
    text = json.dumps(state_to_json(ticker.state), allow_nan=False)
    assert state_from_json(json.loads(text)) == ticker.state
    assert len(text) <= 8 * 1024


@pytest.mark.parametrize(
    "document", [None, [], {}, {"version": 0, "workloads": {}}, {"version": 1, "workloads": {"x": {}}}]
)
def test_a_checkpoint_of_another_shape_is_refused(document: object) -> None:
    """It is an error of its own, never a half-read state."""
    with pytest.raises(ValueError, match=r"checkpoint|workload"):
        state_from_json(document)


@given(STORY, STORY, ANY_DECISION)
def test_what_comes_later_does_not_change_what_was_decided(
    past: list[WorkloadObservation], future: list[WorkloadObservation], decision: DecisionSettings
) -> None:
    """No hindsight: a story and the same story with another ending agree up to where they part."""
    short, longer = Ticker(decision=decision), Ticker(decision=decision)
    assert tell(short, past) == tell(longer, [*past, *future])[: len(past)]


@given(STORY, st.floats(-1e5, 1e5))
def test_a_clock_that_is_set_never_lowers_a_target_in_the_dark(story: list[WorkloadObservation], jump_s: float) -> None:
    """Forwards or backwards, what is in force stays so."""
    ticker = Ticker()
    before = tell(ticker, [*story, seen([replica()])])[-1].target
    assert ticker.tick(seen(counts=ReplicaCounts(spec=3, ready=3)), every_s=jump_s).target == before


@given(STORY, st.lists(st.floats(-100, 100), min_size=1, max_size=8))
def test_any_sequence_of_times_can_be_decided_on(story: list[WorkloadObservation], jumps_s: list[float]) -> None:
    """Two ticks at one time, or a clock that is set back, are no error."""
    ticker = Ticker()
    for jump_s in jumps_s:
        for observation in story:
            ticker.tick(observation, every_s=jump_s)
            ticker.tick(observation, every_s=0.0)


def test_the_workload_of_the_stories_is_the_one_decided_about() -> None:
    """The builders and the engine speak of the same workload."""
    assert Ticker().tick(seen([replica()])).workload == CHAT
