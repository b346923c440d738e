"""Gateways' answers become readings: who may speak of a route, what is added up, and what cannot be believed."""

import math
import re
from collections.abc import Mapping

import pytest

from scaler.adapters.signals.gateways import GATEWAYS, GatewayCollector
from scaler.adapters.signals.gateways.queries import grouped_by, queries_of
from scaler.config.gateways import ROUTE_LABELS
from scaler.config.models import DecisionSettings, SourceRef, WorkloadSettings
from scaler.core.observation import GatewayReading
from scaler.core.values import Known, Missing, Reason, Stale, WorkloadId
from tests.query_fakes import FakeQueries, Fate, Rows

DECISION = DecisionSettings()  # a window of 60 s, samples of 90 s are stale
CHAT = WorkloadId("demo", "chat")
TENANTS = frozenset({"demo", "rival"})
ENVOY_ROUTE = {"namespace": "gateways", "envoy_cluster_name": "chat"}


def is_ages(query: str) -> bool:
    return "time() - " in query


def is_lost(query: str) -> bool:
    return "up == 0" in query


def is_waiting(query: str) -> bool:
    return not is_ages(query) and not is_lost(query) and "offset" not in query


def is_arrivals(query: str) -> bool:
    return "offset" in query


def routed(preset: str = "envoy", *identity: str, share: float = 1.0, name: str = "chat") -> WorkloadSettings:
    first, second = identity or ("gateways", "chat")
    ref = SourceRef(preset=preset, identity=(first, second), share=share)
    return WorkloadSettings(namespace="demo", name=name, demand_source=ref)


def server(labels: Mapping[str, str], rps: float = 4.0, age_s: float = 5.0) -> FakeQueries:
    """Return a server that has a route's rows in all answers, and lost no target."""
    return (
        FakeQueries()
        .when(is_arrivals, [(labels, rps)])
        .when(is_waiting, [(labels, 3.0)])
        .when(is_ages, [(labels, age_s)])
        .when(is_lost, [])
    )


async def read(source: FakeQueries, workload: WorkloadSettings) -> GatewayReading:
    return (await GatewayCollector(source, DECISION).readings([workload], TENANTS, 0.0))[CHAT]


async def test_a_route_s_arrivals_and_what_is_held() -> None:
    """The values are those of the server, their age is that of the samples."""
    reading = await read(server(ENVOY_ROUTE), routed())
    assert reading == GatewayReading(Known(4.0, 5.0), Known(3.0, 5.0))


async def test_a_share_of_a_route() -> None:
    """Where several workloads or clusters serve one route, each has its part of the requests."""
    reading = await read(server(ENVOY_ROUTE), routed(share=0.25))
    assert reading == GatewayReading(Known(1.0, 5.0), Known(0.75, 5.0))


async def test_another_route_s_rows_are_not_taken() -> None:
    """A route without rows is unknown, and never without traffic."""
    reading = await read(server(ENVOY_ROUTE | {"envoy_cluster_name": "other"}), routed())
    assert reading == GatewayReading(Missing(Reason.NO_SERIES), Missing(Reason.NO_SERIES))


@pytest.mark.parametrize(
    ("namespace", "counts"), [("istio-system", True), ("demo", True), ("", True), ("rival", False)]
)
async def test_who_may_speak_of_a_route(namespace: str, counts: bool) -> None:
    """Targets in the workload's own namespace, and where Headway scales nothing; not another tenant's."""
    labels = {
        "namespace": namespace,
        "reporter": "source",
        "destination_service_namespace": "demo",
        "destination_service_name": "chat",
    }
    reading = await read(server(labels), routed("istio", "demo", "chat"))
    assert reading.arrivals_rps == (Known(4.0, 5.0) if counts else Missing(Reason.NO_SERIES))


async def test_a_rival_cannot_make_a_route_unknown() -> None:
    """What another tenant says of ages and of targets that are down is not heard either."""
    own: dict[str, str] = {
        "namespace": "istio-system",
        "reporter": "source",
        "destination_service_namespace": "demo",
        "destination_service_name": "chat",
    }
    rival = own | {"namespace": "rival"}
    source = (
        server(own)
        .when(is_ages, [(own, 5.0), (rival, 500.0)])
        .when(is_lost, [(rival, 1.0)])
        .when(is_arrivals, [(own, 4.0), (rival, math.nan)])
    )
    assert (await read(source, routed("istio", "demo", "chat"))).arrivals_rps == Known(4.0, 5.0)


async def test_reporters_are_not_added_up() -> None:
    """Of source, waypoint and destination the one that saw most counts; what one kind says is added up."""
    base = {"namespace": "demo", "destination_service_namespace": "demo", "destination_service_name": "chat"}
    rows: Rows = [
        (base | {"reporter": "source", "namespace": "istio-system"}, 6.0),
        (base | {"reporter": "source"}, 3.0),
        (base | {"reporter": "waypoint"}, 8.0),
        (base | {"reporter": "destination"}, 7.0),
    ]
    source = server(base | {"reporter": "source"}).when(is_arrivals, rows)
    assert (await read(source, routed("istio", "demo", "chat"))).arrivals_rps == Known(9.0, 5.0)


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("chat.demo.svc.cluster.local", "chat"),
        ("chat.demo.svc.cluster.local:8080", "chat.demo.svc.cluster.local:8080"),
        ("chat.demo.svc", "chat.demo.svc"),
    ],
)
async def test_a_service_without_endpoints_is_known_by_its_host(host: str, name: str) -> None:
    """Istio does not tell the namespace of a service that has no endpoint (istio#49842); its host does."""
    labels = {
        "namespace": "istio-system",
        "reporter": "source",
        "destination_service": host,
        "destination_service_namespace": "unknown",
        "destination_service_name": name,
    }
    assert (await read(server(labels), routed("istio", "demo", "chat"))).arrivals_rps == Known(4.0, 5.0)


@pytest.mark.parametrize(
    "host", ["demo.chat.svc", "chat.demo.example.org", "a.chat.demo.svc", "chat.demo.svcx", "unknown"]
)
async def test_another_host_is_another_service(host: str) -> None:
    """A host that is not the service's own, within the cluster, says nothing of it."""
    labels = {
        "namespace": "istio-system",
        "reporter": "source",
        "destination_service": host,
        "destination_service_namespace": "unknown",
        "destination_service_name": "chat",
    }
    assert (await read(server(labels), routed("istio", "demo", "chat"))).arrivals_rps == Missing(Reason.NO_SERIES)


@pytest.mark.parametrize(
    ("rps", "reason"),
    [
        (math.nan, Reason.INVALID_VALUE),
        (math.inf, Reason.INVALID_VALUE),
        (1e9, Reason.INVALID_VALUE),
        (-math.inf, Reason.INVALID_VALUE),
        (-1.0, Reason.NEGATIVE),
    ],
)
async def test_values_that_cannot_be_are_missing(rps: float, reason: Reason) -> None:
    """They are no demand, and no want of it."""
    assert (await read(server(ENVOY_ROUTE, rps=rps), routed())).arrivals_rps == Missing(reason)


async def test_a_rate_is_no_evidence_when_half_of_its_window_is_empty() -> None:
    """It would look like a fall in demand; what is held now is a gauge, and good for longer."""
    reading = await read(server(ENVOY_ROUTE, age_s=31.0), routed())
    assert reading == GatewayReading(Stale(31.0), Known(3.0, 31.0))


async def test_a_server_that_stopped_scraping_makes_all_stale() -> None:
    """It goes on answering for five minutes."""
    reading = await read(server(ENVOY_ROUTE, age_s=91.0), routed())
    assert reading == GatewayReading(Stale(91.0), Stale(91.0))


@pytest.mark.parametrize("age_s", [math.nan, -100.0])
async def test_ages_that_cannot_be(age_s: float) -> None:
    """Samples from the future would look fresh for as long as they are ahead."""
    assert (await read(server(ENVOY_ROUTE, age_s=age_s), routed())).arrivals_rps == Missing(Reason.INVALID_VALUE)


async def test_a_clock_that_is_a_little_ahead_is_no_age() -> None:
    """Two machines' clocks differ."""
    assert (await read(server(ENVOY_ROUTE, age_s=-2.0), routed())).arrivals_rps == Known(4.0, 0.0)


async def test_a_target_that_does_not_answer() -> None:
    """Its part of the requests is not in the sum, which is therefore no demand."""
    reading = await read(server(ENVOY_ROUTE).when(is_lost, [(ENVOY_ROUTE, 1.0)]), routed())
    assert reading == GatewayReading(Missing(Reason.SOURCE_DOWN), Missing(Reason.SOURCE_DOWN))


async def test_a_route_with_one_scrape_has_no_rate_yet() -> None:
    """It is there, so this is no want of series; and it is no want of requests either."""
    assert (await read(server(ENVOY_ROUTE).when(is_arrivals, []), routed())).arrivals_rps == Missing(
        Reason.TOO_FEW_SAMPLES
    )


async def test_nothing_is_held_where_a_gateway_has_no_such_series() -> None:
    """A queue without series in a gateway that answers is empty: EPP makes them with the first request."""
    assert (await read(server(ENVOY_ROUTE).when(is_waiting, []), routed())).waiting == Known(0.0, 5.0)


@pytest.mark.parametrize(
    ("fate", "reason"),
    [
        (Reason.SOURCE_TIMEOUT, Reason.SOURCE_TIMEOUT),
        (RuntimeError("boom"), Reason.INVALID_VALUE),
        (("a store is gone",), Reason.PARTIAL_ANSWER),
    ],
)
@pytest.mark.parametrize("which", [is_arrivals, is_ages, is_lost])
async def test_a_query_that_fails_makes_demand_unknown(which: object, fate: Fate, reason: Reason) -> None:
    """Whichever of the queries it is: without ages or lost targets the sum is no evidence."""
    collector = GatewayCollector(server(ENVOY_ROUTE).when(which, fate), DECISION)  # type: ignore[arg-type]  # parametrised
    readings = await collector.readings([routed()], TENANTS, 0.0)
    assert readings[CHAT].arrivals_rps == Missing(reason)
    assert [(failure.what, failure.reason) for failure in collector.failures] == [("envoy", reason)]


async def test_one_gateway_s_failure_leaves_the_others_readings() -> None:
    """Each preset has its own queries."""
    source = server(ENVOY_ROUTE).containing("istio_requests_total", Reason.SOURCE_DOWN)
    collector = GatewayCollector(source, DECISION)
    readings = await collector.readings([routed(), routed("istio", "demo", "other", name="other")], TENANTS, 0.0)
    assert readings[CHAT].arrivals_rps == Known(4.0, 5.0)
    assert readings[WorkloadId("demo", "other")].arrivals_rps == Missing(Reason.SOURCE_DOWN)


async def test_queries_do_not_grow_with_workloads() -> None:
    """A fixed number for each gateway in use, and none for a workload without a route or with a queue."""
    others = [
        WorkloadSettings(namespace="demo", name="plain"),
        routed("rabbitmq", "/", "jobs", name="queue"),
    ]
    counts = {}
    for many in (1, 1000):
        source = FakeQueries()
        collector = GatewayCollector(source, DECISION)
        routes = [routed("envoy", "gateways", f"c{i}", name=f"w{i}") for i in range(many)]
        readings = await collector.readings([*routes, *others], TENANTS, 0.0)
        assert len(readings) == many
        counts[many] = (len(source.asked), collector.queries)
    assert counts == {1: (4, 4), 1000: (4, 4)}


@pytest.mark.parametrize("name", sorted(GATEWAYS))
def test_queries_stay_short(name: str) -> None:
    """A server has a limit: where the routes' names would exceed it, all routes are asked for."""
    few = queries_of(GATEWAYS[name], [("a", "b")], 60.0, 900.0)
    many = queries_of(GATEWAYS[name], [(f"ns-{i}", "x" * 200) for i in range(1000)], 60.0, 900.0)
    assert "ns-" not in many.arrivals
    assert few.longest <= 16_000
    assert many.longest <= 16_000


@pytest.mark.parametrize("name", sorted(GATEWAYS))
def test_a_hostile_name_stays_a_literal(name: str) -> None:
    """Whatever a route is called, nothing but the text within quotation marks depends on it."""

    def structure(*route: str) -> str:
        query = queries_of(GATEWAYS[name], [(route[0], route[1])], 60.0, 900.0).arrivals
        return re.sub(r'"(?:\\.|[^"\\])*"', '""', query)

    assert structure('a"} or up{x="', 'b\\".*|c\n') == structure("a", "b")


@pytest.mark.parametrize("name", sorted(GATEWAYS))
def test_rows_name_their_route_and_their_target_s_namespace(name: str) -> None:
    """Without them nobody could tell whose they are, nor who says so."""
    assert {*ROUTE_LABELS[name], "namespace"} <= set(grouped_by(GATEWAYS[name]))
