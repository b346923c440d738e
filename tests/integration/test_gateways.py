"""Gateways' demand through a real Prometheus: what was scraped leads to arrivals, also with no replica at all."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from scaler.adapters.signals.gateways import GatewayCollector
from scaler.config.models import DecisionSettings, SourceRef, WorkloadSettings
from scaler.core.observation import GatewayReading
from scaler.core.values import Known, Missing, Reading, Reason
from tests.gateway_rig import Site, Target, eventually, running_site
from tests.metrics_fakes import FIXTURES

pytestmark = [
    pytest.mark.prometheus,
    pytest.mark.skipif(
        shutil.which("prometheus") is None, reason="no prometheus on PATH: gateways were not read through a real one"
    ),
]
WINDOW_S = 4.0  # longer than a busy machine takes from a scrape to a look
DECISION = DecisionSettings(rate_window_s=WINDOW_S)
TENANTS = frozenset({"demo", "rival"})
ENVOY_POD = {"namespace": "gateways", "pod": "envoy-0"}
SENT = {"chat": 5, "render": 8, "refused": 3, "narrow": 6, "idle": 0}  # as the recorded exposition says


def recorded(name: str) -> str:
    return (FIXTURES / f"{name}.txt").read_text()


def before(text: str) -> str:
    """Return an exposition of Envoy as it was before the first request."""
    return re.sub(r"(?m)^(envoy_cluster_\S+) \S+$", r"\1 0", text)


def routed(preset: str, *identity: str, name: str = "chat") -> WorkloadSettings:
    ref = SourceRef(preset=preset, identity=(identity[0], identity[1]))
    return WorkloadSettings(namespace="demo", name=name, demand_source=ref)


async def readings(site: Site, *workloads: WorkloadSettings) -> dict[str, GatewayReading]:
    """Return the readings of workloads by name; no query may fail."""
    collector = GatewayCollector(site.source, DECISION)
    found = await collector.readings(workloads, TENANTS, 0.0)
    assert collector.failures == ()
    return {key.name: reading for key, reading in found.items()}


async def chat(site: Site, workload: WorkloadSettings) -> GatewayReading:
    return (await readings(site, workload))["chat"]


def value(reading: Reading) -> float:
    return reading.value if isinstance(reading, Known) else -1.0


def sent(reading: Reading) -> float:
    """Return how many requests a rate over the window stands for."""
    return value(reading) * WINDOW_S


async def was_there_a_window_ago(site: Site, name: str, targets: int = 1) -> None:
    """Wait until a series has been there for a window: what is new then, in its target, began at 0 since."""
    query = f"count({name} offset {WINDOW_S:g}s)"
    await eventually(lambda: site.value(query), lambda count: count >= targets)


def about(count: float) -> Callable[[float], bool]:
    """Return whether a number is near another: a server extrapolates a rate to the ends of its window."""
    return lambda seen: 0.9 * count <= seen <= 1.3 * count


async def test_envoy_s_requests_are_counted_once_whatever_became_of_them(tmp_path: Path) -> None:
    """Found no replica, retried, given up, refused, over a limit, still under way: each request sent counts as one."""
    text = recorded("envoy")
    gateway = Target(before(text), ENVOY_POD)
    workloads = [routed("envoy", "gateways", cluster, name=cluster) for cluster in SENT]
    async with running_site(tmp_path, {"/envoy": gateway}) as site:
        idle = await eventually(
            lambda: readings(site, *workloads), lambda seen: all(value(r.arrivals_rps) == 0 for r in seen.values())
        )
        assert {value(reading.waiting) for reading in idle.values()} == {0.0}
        gateway.text = text
        await eventually(
            lambda: readings(site, *workloads),
            lambda seen: all(about(count)(sent(seen[name].arrivals_rps)) for name, count in SENT.items()),
        )


async def test_a_gateway_that_has_served_for_long_is_no_flood_when_it_is_first_seen(tmp_path: Path) -> None:
    """What a counter held before it was first scraped did not arrive now."""
    counter = 'rq_total{envoy_cluster_name="chat"}'
    served = before(recorded("envoy")).replace(f"{counter} 0", f"{counter} 1000000")
    pods = {"/envoy-0": Target(served, ENVOY_POD)}
    workload = routed("envoy", "gateways", "chat")
    async with running_site(tmp_path, pods) as site:
        await eventually(lambda: chat(site, workload), lambda seen: value(seen.arrivals_rps) == 0)
        await was_there_a_window_ago(site, "envoy_server_live")
        pods["/envoy-1"] = Target(served, {"namespace": "gateways", "pod": "envoy-1"})
        site.show(pods)
        for _ in range(12):
            await site.scrapes("/envoy-1", 1)
            assert value((await chat(site, workload)).arrivals_rps) <= 0  # or not known yet


async def test_epp_holds_requests_while_there_is_no_endpoint(tmp_path: Path) -> None:
    """A pool that had no request is known to have none; its first ones count as they arrive, once, and are held."""
    picker = Target(recorded("epp_idle"), {"namespace": "llm-d", "pod": "epp-0"})
    workload = routed("epp", "llm-d", "chat")
    async with running_site(tmp_path, {"/epp": picker}) as site:
        idle = await eventually(lambda: chat(site, workload), lambda seen: isinstance(seen.arrivals_rps, Known))
        assert (value(idle.arrivals_rps), value(idle.waiting)) == (0.0, 0.0)
        await was_there_a_window_ago(site, "llm_d_epp_flow_control_pool_saturation")
        picker.text = recorded("epp")
        busy = await eventually(lambda: chat(site, workload), lambda seen: value(seen.arrivals_rps) > 0)
        assert (sent(busy.arrivals_rps), value(busy.waiting)) == (45.0, 3.0)
        quiet = await eventually(lambda: chat(site, workload), lambda seen: value(seen.arrivals_rps) == 0)
        assert value(quiet.waiting) == 3.0


async def test_epp_under_its_older_names(tmp_path: Path) -> None:
    """The names of the Gateway API Inference Extension lead to the same readings."""
    picker = Target(recorded("epp_gie"), {"namespace": "llm-d", "pod": "epp-0"})
    workload = routed("epp", "llm-d", "chat")
    async with running_site(tmp_path, {"/epp": picker}) as site:
        seen = await eventually(lambda: chat(site, workload), lambda seen: value(seen.arrivals_rps) == 0)
        assert value(seen.waiting) == 1.0
        picker.text = recorded("epp_gie").replace('target_model_name="qwen"} 12', 'target_model_name="qwen"} 32')
        await eventually(lambda: chat(site, workload), lambda seen: about(20)(sent(seen.arrivals_rps)))


async def test_istio_s_reporters_are_not_added_up(tmp_path: Path) -> None:
    """A request counts once though gateway, second port and sidecar tell it; what a rival exports does not count."""
    build = 'istio_build{component="proxy"} 1\n'
    ingress = {"namespace": "istio-system", "pod": "ingress-0"}
    lies = recorded("istio_replica").replace("} 20", "} 5000")
    site_targets = {
        "/ingress": Target(build, ingress),
        "/ingress-merged": Target(build, ingress | {"job": "merged"}),
        "/replica": Target(build, {"namespace": "demo", "pod": "chat-0"}),
        "/rival": Target(build, {"namespace": "rival", "pod": "liar-0"}),
    }
    workload = routed("istio", "demo", "chat")
    async with running_site(tmp_path, site_targets) as site:
        assert (await chat(site, workload)).arrivals_rps == Missing(Reason.NO_SERIES)
        await was_there_a_window_ago(site, "istio_build", len(site_targets))
        texts = {"/ingress": "istio", "/ingress-merged": "istio", "/replica": "istio_replica"}
        for path, name in texts.items():
            site_targets[path].text = recorded(name)
        site_targets["/rival"].text = lies
        # 20 served and 5 that found no endpoint; the sidecar saw 24.
        seen = await eventually(lambda: chat(site, workload), lambda seen: sent(seen.arrivals_rps) >= 25.0)
        for path in site_targets:
            await site.scrapes(path, 1)
            assert sent((await chat(site, workload)).arrivals_rps) <= 1.3 * 25.0
    assert sent(seen.arrivals_rps) == 25.0
    assert seen.waiting == Missing(Reason.NOT_EXPORTED)


async def test_istio_s_waypoint_sees_requests_that_found_no_endpoint(tmp_path: Path) -> None:
    """Without sidecars the waypoint of the workload's own namespace tells all of them."""
    waypoint = Target('istio_build{component="proxy"} 1\n', {"namespace": "demo", "pod": "waypoint-0"})
    workload = routed("istio", "demo", "chat")
    async with running_site(tmp_path, {"/waypoint": waypoint}) as site:
        await was_there_a_window_ago(site, "istio_build")
        waypoint.text = recorded("istio_waypoint")
        seen = await eventually(lambda: chat(site, workload), lambda seen: value(seen.arrivals_rps) > 0)
    assert sent(seen.arrivals_rps) == 20.0


async def test_a_gateway_pod_that_does_not_answer_makes_demand_unknown(tmp_path: Path) -> None:
    """The other pod's share would look like a fall in demand; once the pod is gone for good, the rest is all."""
    text = before(recorded("envoy"))
    pods = {
        "/envoy-0": Target(text, ENVOY_POD),
        "/envoy-1": Target(text, {"namespace": "gateways", "pod": "envoy-1"}),
    }
    workload = routed("envoy", "gateways", "chat")
    async with running_site(tmp_path, pods) as site:
        await eventually(lambda: chat(site, workload), lambda seen: value(seen.arrivals_rps) == 0)
        pods["/envoy-1"].text = None
        await eventually(lambda: chat(site, workload), lambda seen: seen.arrivals_rps == Missing(Reason.SOURCE_DOWN))
        site.show({"/envoy-0": pods["/envoy-0"]})
        await eventually(lambda: chat(site, workload), lambda seen: value(seen.arrivals_rps) == 0)
        pods["/envoy-0"].text = None
        gone = await eventually(lambda: chat(site, workload), lambda seen: isinstance(seen.arrivals_rps, Missing))
        assert gone.arrivals_rps == gone.waiting == Missing(Reason.SOURCE_DOWN)
        site.show({})
        await eventually(lambda: chat(site, workload), lambda seen: seen.arrivals_rps == Missing(Reason.NO_SERIES))


async def test_a_counter_that_restarts_is_no_negative_demand(tmp_path: Path) -> None:
    """A gateway's process that starts anew at 0 has what it counted since."""
    text = recorded("envoy")
    gateway = Target(text, ENVOY_POD)
    workload = routed("envoy", "gateways", "render")
    async with running_site(tmp_path, {"/envoy": gateway}) as site:
        await eventually(lambda: chat(site, workload), lambda seen: value(seen.arrivals_rps) == 0)
        gateway.text = before(text).replace(
            'rq_total{envoy_cluster_name="render"} 0', 'rq_total{envoy_cluster_name="render"} 3'
        )
        await eventually(lambda: chat(site, workload), lambda seen: about(3)(sent(seen.arrivals_rps)))


async def test_any_name_of_a_route_makes_a_query_that_the_server_takes(tmp_path: Path) -> None:
    """Quotes, line breaks, what means something in a pattern, and letters of other scripts."""
    names = ['a"b', "back\\slash", "line\nbreak", "(.*)|[x", "k\u00fche", "a b~#-&", "outbound|80||chat.demo.svc"]
    workloads = [
        routed(gateway, names[i - 1], name, name=f"{gateway}-{i}")
        for gateway in ("envoy", "istio", "epp")
        for i, name in enumerate(names)
    ]
    async with running_site(tmp_path, {}) as site:
        seen = await readings(site, *workloads)
    assert {reading.arrivals_rps for reading in seen.values()} == {Missing(Reason.NO_SERIES)}


def test_the_recorded_envoy_adds_up() -> None:
    """The parts that the preset adds up are, in the recording, what was sent to each cluster."""
    text = recorded("envoy")
    parts = {"rq_total": 1, "cx_none_healthy": 1, "rq_pending_failure_eject": 1, "rq_pending_overflow": 1}
    for cluster, count in SENT.items():
        total = sum(
            sign * float(found[1])
            for part, sign in (parts | {"rq_cancelled": 1, "rq_retry": -1}).items()
            if (
                found := re.search(
                    rf'^envoy_cluster_upstream_{part}{{envoy_cluster_name="{cluster}"}} (\S+)$', text, re.MULTILINE
                )
            )
        )
        assert total == count, cluster
