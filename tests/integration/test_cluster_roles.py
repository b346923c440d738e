"""Headway's real processes against an API server: ScaledObjects in, a plan in ConfigMaps, KEDA's answers out.

The API server is the suite's double. What it answers is what a real one answers to the same calls; that a real one is
asked rightly is for the tests with a real control plane.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import grpc
import yaml
from grpc import aio

from scaler.adapters.kubernetes.plan_maps import head_of
from tests.api_server_double import ApiServerDouble
from tests.kubernetes_objects import deployment, pod, scaled_object
from tests.roles_rig import PATIENCE_S, Keda, Rig, rig_in, until, until_answer

ADDRESS = "headway.headway:6000"
SCALED_OBJECTS = "/apis/keda.sh/v1alpha1/namespaces/demo/scaledobjects"
DEPLOYMENTS = "/apis/apps/v1/namespaces/demo/deployments"
PODS = "/api/v1/namespaces/demo/pods"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/headway/leases/headway-controller"
CONFIG_MAPS = "/api/v1/namespaces/headway/configmaps"
EVENTS = "/apis/events.k8s.io/v1/namespaces/demo/events"


@contextmanager
def cluster_of_one() -> Iterator[ApiServerDouble]:
    """An API server with one workload of two ready replicas."""
    with ApiServerDouble() as server:
        server.put(f"{DEPLOYMENTS}/chat", deployment("chat", namespace="demo", replicas=2))
        server.put(f"{SCALED_OBJECTS}/chat", _chat())
        for number in range(2):
            _ready_pod(server, number)
        yield server


def _chat(**more: Any) -> dict[str, Any]:
    return scaled_object(
        "chat", namespace="demo", address=ADDRESS, most=50, engine="vllm", slotsPerReplica="32", **more
    )


def _ready_pod(server: ApiServerDouble, number: int) -> None:
    server.put(f"{PODS}/chat-{number}", pod(f"chat-{number}", namespace="demo", app="chat"))


@asynccontextmanager
async def in_cluster(folder: Path, server: ApiServerDouble, **decision: object) -> AsyncIterator[Rig]:
    """The rig, configured for that cluster; the engine is scraped by a targets file."""
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "double",
        "clusters": [{"name": "double", "cluster": {"server": server.url}}],
        "users": [{"name": "nobody", "user": {}}],
        "contexts": [{"name": "double", "context": {"cluster": "double", "user": "nobody"}}],
    }
    (folder / "kubeconfig").write_text(yaml.safe_dump(kubeconfig))
    any_port = "127.0.0.1:0"
    parts = {
        "cluster": {"kubernetes": {"kubeconfig": "kubeconfig"}},
        "planStore": {"configMap": {"shards": 2}},
        "leadership": {"lease": {"duration": "3s", "renewDeadline": "2s", "retryPeriod": "200ms"}},
        "events": True,
        "scaler": {"grpcAddress": any_port, "httpAddress": any_port, "planPoll": "20ms", "knownAs": [ADDRESS]},
        "controller": {"tick": "100ms", "httpAddress": any_port, "adminAddress": any_port},
        "workloads": None,
    }
    async with rig_in(folder, parts=parts, **decision) as rig:
        yield rig


async def test_a_scaled_object_of_the_cluster_is_scaled_and_follows_its_manifest(tmp_path: Path) -> None:
    """The ScaledObject's bounds bind; when they change, so does the answer; when it goes, nobody answers for it."""
    with cluster_of_one() as server:
        async with in_cluster(tmp_path, server) as rig:
            await rig.start("controller")
            _, addresses = await rig.start("scaler")
            async with aio.insecure_channel(addresses["grpc"]) as channel:
                keda = Keda(channel)
                rig.engine.running = 32  # both replicas full: 2 / 0.85
                assert await until_answer(keda.replicas, lambda a: a == 3, "a third replica") == 3
                server.put(f"{SCALED_OBJECTS}/chat", _chat(minReplicas="7"))
                assert await until_answer(keda.replicas, lambda a: a == 7, "the new lower bound") == 7
                server.put(f"{SCALED_OBJECTS}/chat", _chat(slo="never"))  # refused: the last valid settings hold
                await until(lambda: _reasons(server) & {"SettingsRefused"}, "an Event that says so")
                assert await keda.replicas() == 7
                server.remove(f"{SCALED_OBJECTS}/chat")
                refused = await until_answer(keda.replicas, lambda a: not isinstance(a, float), "no answer any more")
                assert refused is grpc.StatusCode.UNAVAILABLE


async def test_a_hot_standby_takes_over_and_the_epoch_rises(tmp_path: Path) -> None:
    """Of two controllers one publishes; when it is killed the other leads in a later epoch, and answers never fall."""
    with cluster_of_one() as server:
        async with in_cluster(tmp_path, server) as rig:
            first, _ = await rig.start("controller")
            await until(lambda: server.at(f"{CONFIG_MAPS}/headway-plan"), "a first plan")
            held = _lease(server)
            await rig.start("controller")
            _, addresses = await rig.start("scaler")
            async with aio.insecure_channel(addresses["grpc"]) as channel:
                keda = Keda(channel)
                rig.engine.running = 32
                assert await until_answer(keda.replicas, lambda a: a == 3, "the surge's answer") == 3
                first.kill()
                await first.wait()
                rig.engine.running = 0
                await until(lambda: _lease(server)["leaseTransitions"] > held["leaseTransitions"], "another leader")
                assert await keda.replicas() == 3
                for number in range(2, 4):
                    _ready_pod(server, number)
                rig.show_pods(4)
                rig.engine.running = 32
                assert await until_answer(keda.replicas, lambda a: a == 5, "the new leader's answer") == 5


async def test_an_api_server_that_is_gone_lowers_nothing(tmp_path: Path) -> None:
    """Without the view nothing falls, though the engine is idle; the scaler answers on; when it is back, it falls."""
    windows = {
        "hold": "200ms",
        "rateWindow": "400ms",
        "staleAfter": "500ms",
        "frozenAfter": "1s",
        "viewStaleAfter": "3s",
    }
    with cluster_of_one() as server:
        async with in_cluster(tmp_path, server, rate={"period": "1s"}, **windows) as rig, _bookmarks(server):
            _, controller = await rig.start("controller")
            _, addresses = await rig.start("scaler")
            async with aio.insecure_channel(addresses["grpc"]) as channel:
                keda = Keda(channel)
                rig.engine.running = 32
                await until_answer(keda.replicas, lambda a: a == 3, "the answer under load")
                server.leave()
                rig.engine.running = 0
                stale = (
                    'headway_source_failures_total{reason="view_stale",what="cluster"}'  # a standby exports this too
                )
                await until_answer(lambda: rig.metrics(controller["http"]), lambda text: stale in text, "a stale view")
                assert await keda.replicas() == 3
                server.come_back()
                assert await until_answer(keda.replicas, lambda a: a == 1, "the idle engine's answer") == 1


async def test_a_controller_that_cannot_see_the_cluster_neither_leads_nor_publishes(tmp_path: Path) -> None:
    """It leaves the Lease to those who can decide; told to end, it ends, and the plan is what it was."""
    with cluster_of_one() as server:
        async with in_cluster(tmp_path, server) as rig:
            first, _ = await rig.start("controller")
            await until(lambda: _holder(server) and server.at(f"{CONFIG_MAPS}/headway-plan"), "a first plan")
            first.terminate()
            await asyncio.wait_for(first.wait(), PATIENCE_S)
            assert _holder(server) == ""  # released
            before = server.at(f"{CONFIG_MAPS}/headway-plan")
            server.fail("status", verb="list", path="scaledobjects", status=403, reason="Forbidden")
            second, _ = await rig.start("controller")
            log = tmp_path / "log-1"
            await until(lambda: "waiting_for_cluster" in log.read_text(), "the second one to say that it waits")
            second.terminate()
            assert await asyncio.wait_for(second.wait(), PATIENCE_S) == 0
            assert "lease_acquired" not in log.read_text()
            assert server.at(f"{CONFIG_MAPS}/headway-plan") == before


async def test_a_manifest_that_is_spoilt_when_all_start_anew_makes_nobody_inactive(tmp_path: Path) -> None:
    """Nothing is told about replicas, which holds them; and that there are some stays known to a scaler that starts."""
    with cluster_of_one() as server:
        async with in_cluster(tmp_path, server) as rig:
            first, _ = await rig.start("controller")
            await until(lambda: _holder(server) and server.at(f"{CONFIG_MAPS}/headway-plan"), "a first plan")
            first.terminate()
            await asyncio.wait_for(first.wait(), PATIENCE_S)
            before = _epoch(server)
            server.put(f"{SCALED_OBJECTS}/chat", _chat(slo="never"))
            await rig.start("controller")
            await until(lambda: _epoch(server) > before, "the next leader's plan")
            _, addresses = await rig.start("scaler")
            async with aio.insecure_channel(addresses["grpc"]) as channel:
                keda = Keda(channel)
                assert await keda.replicas() is grpc.StatusCode.UNAVAILABLE
                assert await keda.active()


async def test_a_leader_that_ends_hands_over_though_the_api_server_hangs(tmp_path: Path) -> None:
    """The Lease is released before anything that may hang is closed, and the process ends within a pod's grace."""
    with cluster_of_one() as server:
        async with in_cluster(tmp_path, server) as rig:
            process, _ = await rig.start("controller")
            await until(lambda: _holder(server) and server.at(f"{CONFIG_MAPS}/headway-plan"), "a first plan")
            server.fail("hang", verb="list")
            server.fail("status", verb="watch", status=410, reason="Expired")
            server.forget()
            server.cut_watches()
            await until(lambda: len({at for verb, at in server.requests if verb == "list"}) == 6, "lists that hang")
            process.terminate()
            await until(lambda: _holder(server) == "", "the Lease's release")
            assert process.returncode is None  # what hangs is still being closed
            assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 0


@asynccontextmanager
async def _bookmarks(server: ApiServerDouble) -> AsyncIterator[None]:
    """Let every watch hear several times a second that nothing has happened; a real server says so every minute."""

    async def repeat() -> None:
        while True:
            server.bookmark()
            await asyncio.sleep(0.1)

    task = asyncio.create_task(repeat())
    try:
        yield
    finally:
        task.cancel()


def _lease(server: ApiServerDouble) -> dict[str, Any]:
    lease = server.at(LEASE)
    return {} if lease is None else dict(lease["spec"])


def _epoch(server: ApiServerDouble) -> int:
    """The epoch of the plan that is stored."""
    index = head_of(server.at(f"{CONFIG_MAPS}/headway-plan"), "headway-plan").index
    assert index is not None
    return index.version.epoch


def _holder(server: ApiServerDouble) -> str | None:
    """Who holds the Lease, empty for nobody; None while there is none."""
    return _lease(server).get("holderIdentity")


def _reasons(server: ApiServerDouble) -> set[str]:
    return {event["reason"] for event in server.items(EVENTS)}
