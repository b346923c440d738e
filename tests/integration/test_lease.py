"""Leadership by a Lease, over HTTP and with a clock set by hand: who leads, in which epoch, and when that ends."""

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest

from scaler.adapters.kubernetes.api import ApiConnection
from scaler.adapters.kubernetes.lease import LeaseLeadership, LeaseSettings, identity_of
from scaler.core.published import Heartbeat, PlanVersion, PublishedPlan
from scaler.ports import StoreError
from tests.api_rig import config_map_store, connected
from tests.api_server_double import ApiServerDouble
from tests.scaler_rig import CHAT, START_S, ManualClock, answer, stored

LEASES = "/apis/coordination.k8s.io/v1/namespaces/headway/leases"
LEASE = f"{LEASES}/headway-controller"
SETTINGS = LeaseSettings("headway")
LIMIT_S = 60.0


@pytest.fixture
def server() -> Iterator[ApiServerDouble]:
    with ApiServerDouble() as double:
        yield double


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def api(server: ApiServerDouble, clock: ManualClock) -> Iterator[ApiConnection]:
    with connected(server, clock) as connection:
        yield connection


@pytest.fixture
def ours(api: ApiConnection) -> LeaseLeadership:
    return LeaseLeadership(api, SETTINGS, "ours")


@pytest.fixture
def theirs(api: ApiConnection) -> LeaseLeadership:
    return LeaseLeadership(api, SETTINGS, "theirs")


def let_pass(clock: ManualClock, seconds: float, *candidates: LeaseLeadership) -> None:
    """Let time pass in steps of the retry period, in which the candidates try."""
    for _ in range(round(seconds / SETTINGS.retry_period_s)):
        clock.advance(SETTINGS.retry_period_s)
        for candidate in candidates:
            candidate.attempt()


def test_the_first_leads(ours: LeaseLeadership, theirs: LeaseLeadership, server: ApiServerDouble) -> None:
    """Whoever comes first creates the Lease and leads; the other sees who does."""
    assert not ours.leading
    for candidate in (ours, theirs):
        candidate.attempt()
    assert (ours.leading, ours.epoch) == (True, 1)
    assert (theirs.leading, theirs.epoch, theirs.holder) == (False, 0, "ours")
    lease = server.at(LEASE)
    assert lease is not None
    assert lease["spec"]["leaseTransitions"] == 1
    assert lease["spec"]["leaseDurationSeconds"] == 15


def test_a_holder_that_renews_keeps_the_lead(
    ours: LeaseLeadership, theirs: LeaseLeadership, clock: ManualClock, server: ApiServerDouble
) -> None:
    """For as long as it renews nobody else leads and the epoch stays; a renewal is one call."""
    ours.attempt()
    server.forget()
    let_pass(clock, 60, ours, theirs)
    assert (ours.leading, ours.epoch, theirs.leading) == (True, 1, False)
    assert dict(server.requests) == {("update", LEASE): 30, ("get", LEASE): 30}


def test_a_holder_that_died_is_followed(ours: LeaseLeadership, theirs: LeaseLeadership, clock: ManualClock) -> None:
    """Its Lease may be taken 15 s after its last renewal was seen, not sooner; the epoch goes up."""
    ours.attempt()
    theirs.attempt()
    let_pass(clock, 14, theirs)
    assert not theirs.leading
    let_pass(clock, 2, theirs)
    assert (theirs.leading, theirs.epoch) == (True, 2)
    assert not ours.leading


def test_a_lease_that_was_just_seen_may_not_be_taken(
    ours: LeaseLeadership, theirs: LeaseLeadership, clock: ManualClock
) -> None:
    """A newcomer counts from when it saw the Lease, however old the time is that is written in it."""
    ours.attempt()
    clock.advance(600)
    theirs.attempt()
    assert not theirs.leading
    let_pass(clock, 16, theirs)
    assert theirs.leading


def test_the_lead_ends_while_a_renewal_hangs(
    ours: LeaseLeadership, clock: ManualClock, server: ApiServerDouble
) -> None:
    """Ten seconds after the last renewal began, whatever a call is waiting for."""
    ours.attempt()
    fault = server.fail("hang", verb="update")
    thread = threading.Thread(target=ours.attempt)
    thread.start()
    assert fault.hit.wait(LIMIT_S)
    led = []
    for seconds in (9.9, 0.1):
        clock.advance(seconds)
        led.append(ours.leading)
    server.heal()
    thread.join(LIMIT_S)
    assert [*led, ours.leading] == [True, False, False]


def test_a_renewal_counts_from_when_it_began(
    ours: LeaseLeadership, clock: ManualClock, server: ApiServerDouble
) -> None:
    """An answer that came late does not prolong the lead: the other has counted from the write."""
    ours.attempt()
    fault = server.fail("late", verb="update")
    thread = threading.Thread(target=ours.attempt)
    thread.start()
    assert fault.hit.wait(LIMIT_S)
    clock.advance(9)
    server.heal()
    thread.join(LIMIT_S)
    assert ours.leading
    clock.advance(1)
    assert not ours.leading


def test_a_paused_leader(ours: LeaseLeadership, theirs: LeaseLeadership, clock: ManualClock) -> None:
    """One that wakes after another took over does not lead, and its next try does not disturb the other."""
    ours.attempt()
    let_pass(clock, 20, theirs)
    assert not ours.leading
    ours.attempt()
    assert (ours.leading, ours.holder) == (False, "theirs")
    theirs.attempt()
    assert (theirs.leading, theirs.epoch) == (True, 2)


@pytest.mark.parametrize("seconds", [-86_400.0, 86_400.0])
def test_a_clock_that_jumps(ours: LeaseLeadership, theirs: LeaseLeadership, clock: ManualClock, seconds: float) -> None:
    """The wall's time decides nothing."""
    ours.attempt()
    theirs.attempt()
    clock.step(seconds)
    theirs.attempt()
    assert (ours.leading, theirs.leading) == (True, False)
    let_pass(clock, 30, ours, theirs)
    assert (ours.leading, theirs.leading) == (True, False)


@pytest.mark.parametrize("kind", ["lost", "cut"])
def test_a_lost_answer_to_a_renewal(
    ours: LeaseLeadership, clock: ManualClock, server: ApiServerDouble, kind: str
) -> None:
    """The next try looks what became of it and renews."""
    ours.attempt()
    server.fail(kind, verb="update", times=1)
    clock.advance(8)
    ours.attempt()
    clock.advance(1)
    ours.attempt()
    clock.advance(9)
    assert (ours.leading, ours.epoch) == (True, 1)


@pytest.mark.parametrize("kind", ["lost", "cut"])
def test_a_lost_answer_to_an_acquisition(ours: LeaseLeadership, server: ApiServerDouble, kind: str) -> None:
    """Whether it holds the Lease is unknown, so it does not lead until it has looked."""
    server.fail(kind, verb="create", times=1)
    ours.attempt()
    assert not ours.leading
    ours.attempt()
    assert (ours.leading, ours.epoch) == (True, 1)


def test_gone_for_ten_minutes(
    ours: LeaseLeadership, theirs: LeaseLeadership, clock: ManualClock, server: ApiServerDouble
) -> None:
    """Leading ends, for everybody; when the server is back, one leads, in a higher epoch if another does."""
    ours.attempt()
    theirs.attempt()
    server.leave()
    let_pass(clock, 600, ours, theirs)
    assert [ours.leading, theirs.leading] == [False, False]
    server.come_back()
    let_pass(clock, 20, theirs, ours)
    assert [theirs.leading, ours.leading] == [True, False]
    assert theirs.epoch == 2


def test_a_released_lease_is_taken_at_once(
    ours: LeaseLeadership, theirs: LeaseLeadership, server: ApiServerDouble
) -> None:
    """Stopping ends the lead before the Lease is given back; who tries next has it, in a higher epoch."""
    ours.attempt()
    theirs.attempt()
    ours.stop()
    assert not ours.leading
    theirs.attempt()
    assert (theirs.leading, theirs.epoch) == (True, 2)
    ours.attempt()
    assert not ours.leading
    assert theirs.leading


def test_stopping_without_the_lead_changes_nothing(
    ours: LeaseLeadership, theirs: LeaseLeadership, server: ApiServerDouble
) -> None:
    """A standby that ends does not release the leader's Lease."""
    ours.attempt()
    theirs.attempt()
    theirs.stop()
    ours.attempt()
    assert ours.leading
    assert server.count("update") == 1


def test_two_that_take_a_lease_at_the_same_time(
    ours: LeaseLeadership, theirs: LeaseLeadership, clock: ManualClock, server: ApiServerDouble
) -> None:
    """Both saw it run out; the first write wins and the other's is refused."""
    server.put(LEASE, {"metadata": {"name": "headway-controller"}, "spec": {"holderIdentity": "dead"}})
    ours.attempt()
    theirs.attempt()
    clock.advance(15)
    fault = server.fail("hang", verb="update", times=1)
    thread = threading.Thread(target=theirs.attempt)
    thread.start()
    assert fault.hit.wait(LIMIT_S)
    ours.attempt()
    server.heal()
    thread.join(LIMIT_S)
    theirs.attempt()
    assert (ours.leading, ours.epoch, theirs.leading) == (True, 1, False)


def test_the_epoch_goes_above_the_stored_plan(api: ApiConnection, server: ApiServerDouble) -> None:
    """A Lease that was deleted counts from zero again; its next holder would otherwise be refused for ever."""
    leadership = LeaseLeadership(api, SETTINGS, "ours", stored_epoch=lambda: 7)
    leadership.attempt()
    assert leadership.epoch == 8
    server.remove(LEASE)
    leadership.attempt()
    assert (leadership.leading, leadership.epoch) == (True, 9)


def test_a_leader_of_long_ago_does_not_bring_its_lease_back(
    api: ApiConnection, theirs: LeaseLeadership, server: ApiServerDouble, clock: ManualClock
) -> None:
    """A PUT of a Lease that is gone creates it; a paused leader must not so get a lead that every plan outranks."""
    ours = LeaseLeadership(api, SETTINGS, "ours", stored_epoch=lambda: theirs.epoch)
    ours.attempt()
    let_pass(clock, 18, theirs)
    assert (ours.epoch, theirs.epoch) == (1, 2)
    server.remove(LEASE)
    ours.attempt()
    assert (ours.leading, ours.epoch) == (True, 3)
    theirs.attempt()
    assert not theirs.leading


def test_a_lease_that_was_deleted_is_not_released(ours: LeaseLeadership, server: ApiServerDouble) -> None:
    """Who ends leaves no Lease behind where somebody has deleted it."""
    ours.attempt()
    server.remove(LEASE)
    ours.stop()
    assert server.at(LEASE) is None


def test_no_lead_without_knowing_the_stored_plan(api: ApiConnection) -> None:
    """Where the stored epoch cannot be told no Lease is acquired, and nothing is raised."""

    def unknown() -> int:
        raise StoreError("cannot be read")

    leadership = LeaseLeadership(api, SETTINGS, "ours", stored_epoch=unknown)
    leadership.attempt()
    assert not leadership.leading


@pytest.mark.parametrize("spec", [None, {}, {"holderIdentity": None}, {"leaseTransitions": 4, "holderIdentity": ""}])
def test_a_lease_that_nobody_holds(
    ours: LeaseLeadership, server: ApiServerDouble, spec: dict[str, object] | None
) -> None:
    """One that was made beforehand is taken at once, above what it counted."""
    server.put(LEASE, {"metadata": {"name": "headway-controller"}, **({} if spec is None else {"spec": spec})})
    ours.attempt()
    assert ours.leading
    assert ours.epoch == 1 + int(str((spec or {}).get("leaseTransitions", 0)))


def test_a_lease_that_is_nonsense(ours: LeaseLeadership, server: ApiServerDouble) -> None:
    """What cannot be read is not taken, and nothing is raised."""
    server.put(LEASE, {"metadata": {"name": "headway-controller"}, "spec": {"leaseDurationSeconds": 1}})
    document = server.at(LEASE)
    assert document is not None
    document["spec"]["leaseDurationSeconds"] = "long"
    ours.attempt()
    assert not ours.leading


@pytest.mark.parametrize("status", [403, 429, 500])
def test_refusals(ours: LeaseLeadership, server: ApiServerDouble, status: int) -> None:
    """A refusal makes nobody lead, and is survived."""
    server.fail("status", status=status)
    ours.attempt()
    assert not ours.leading
    server.heal()
    ours.attempt()
    assert ours.leading


async def test_scalers_never_go_back(api: ApiConnection, clock: ManualClock) -> None:
    """Of two that both believe they lead the plan store lets the newer through, and readers see versions rise only."""
    with config_map_store(api, "ours") as our_store, config_map_store(api, "theirs") as their_store:
        ours = LeaseLeadership(api, SETTINGS, "ours", stored_epoch=our_store.stored_epoch)
        theirs = LeaseLeadership(api, SETTINGS, "theirs", stored_epoch=their_store.stored_epoch)
        await asyncio.to_thread(ours.attempt)
        assert ours.leading
        believed = ours.epoch  # and frozen here, for longer than the Lease lasts
        await our_store.publish(*pair(believed, 5))
        await asyncio.to_thread(let_pass, clock, 20, theirs)
        await their_store.publish(*pair(theirs.epoch, 1))
        with pytest.raises(StoreError, match="must be newer"):
            await our_store.publish(*pair(believed, 6))
        seen = await our_store.load()
    assert seen is not None
    assert seen.plan.version == PlanVersion(2, 1)


def pair(epoch: int, sequence: int) -> tuple[PublishedPlan, Heartbeat]:
    item = stored({CHAT: answer(3)}, version=(epoch, sequence), at_s=START_S)
    return item.plan, item.heartbeat


async def test_the_thread(server: ApiServerDouble) -> None:
    """Started, it acquires by itself, and stopped it releases."""
    with connected(server) as api:
        leadership = LeaseLeadership(api, SETTINGS, identity_of("pod-a"))
        leadership.start()
        await asyncio.to_thread(wait_for, server, lambda: leadership.leading)
        await asyncio.to_thread(leadership.stop)
        assert not leadership.leading
    lease = server.at(LEASE)
    assert lease is not None
    assert lease["spec"]["holderIdentity"] == ""


def wait_for(server: ApiServerDouble, wanted: Callable[[], bool]) -> None:
    """Wait until something is so; whatever the server is told wakes this up, and nothing is waited for too long."""
    with server.objects.changed:
        for _ in range(600):
            if wanted():
                return
            server.objects.changed.wait(0.1)
    pytest.fail("it was never as wanted")


def test_names_of_holders() -> None:
    """Each process has one of its own."""
    assert identity_of("pod-a") != identity_of("pod-a")
    assert identity_of("pod-a").startswith("pod-a_")


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"duration_s": 0.0}, "duration_s must be > 0"),
        ({"renew_deadline_s": 15.0}, "renew_deadline_s must be < duration_s"),
        ({"retry_period_s": 9.0}, "retry_period_s must be < renew_deadline_s"),
    ],
)
def test_settings(settings: dict[str, float], named: str) -> None:
    """A holder must give up before another may take over, and must have time for a second try."""
    with pytest.raises(ValueError, match=named):
        LeaseSettings("headway", **settings)  # type: ignore[arg-type]  # a mapping of floats, none of them the name
