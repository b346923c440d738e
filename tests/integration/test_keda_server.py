"""The scaler's port as a whole: health, pings, being stopped, being killed and started again."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import grpc
import pytest
from grpc import aio
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub
from prometheus_client import CollectorRegistry

from external_scaler_proto import externalscaler_pb2 as pb
from external_scaler_proto.externalscaler_pb2_grpc import ExternalScalerStub
from scaler.adapters.clock import SystemClock
from scaler.adapters.keda.server import SERVER_OPTIONS, ScalerServer, ServerSettings
from scaler.adapters.keda.wire import SERVICE
from scaler.adapters.plan_store import FilePlanStore
from tests.scaler_rig import (
    CHANNEL_OPTIONS,
    CHAT,
    LIMIT_S,
    LOOPBACK,
    Served,
    accept_anything,
    answer,
    read,
    reference,
    serving,
    soon,
    stored,
    until,
    value,
)

ROOT = Path(__file__).resolve().parents[2]
PINGING = (
    *CHANNEL_OPTIONS,
    ("grpc.keepalive_time_ms", 500),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
)


async def health(served: Served, service: str) -> int:
    """Return the health status of a service."""
    response = await HealthStub(served.channel).Check(HealthCheckRequest(service=service))
    status: int = response.status
    return status


@pytest.mark.parametrize("service", ["", SERVICE])
async def test_health_follows_readiness(service: str) -> None:
    """The port serves before the plan store was read, and says that it is not to be sent anything yet."""
    async with serving() as served:
        assert await health(served, service) == HealthCheckResponse.NOT_SERVING
        served.holder.unreadable("no such folder")
        assert await health(served, service) == HealthCheckResponse.NOT_SERVING
        served.holder.nothing_stored()
        async with asyncio.timeout(LIMIT_S):
            while await health(served, service) != HealthCheckResponse.SERVING:  # noqa: ASYNC110 - as KEDA sees it
                await asyncio.sleep(0.005)


async def test_there_is_no_reflection() -> None:
    """Who does not know the contract is not told it."""
    async with serving() as served:
        call = served.channel.unary_unary(
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", None, lambda response: response
        )
        with pytest.raises(aio.AioRpcError) as caught:
            await call(b"")
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_a_request_that_is_too_large_is_refused() -> None:
    """What a caller sends is bounded before anything reads it."""
    async with serving() as served:
        with pytest.raises(aio.AioRpcError) as caught:
            await served.stub.GetMetricSpec(reference(CHAT, filler="x" * (1 << 20)))
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_a_port_in_use_is_an_error() -> None:
    """Two scalers on one port would share the calls between two plans."""
    async with serving() as served:
        taken = ServerSettings(f"127.0.0.1:{served.server.port}")
        second = ScalerServer(served.holder, taken, CollectorRegistry(), validate=accept_anything)
        with pytest.raises(OSError, match="cannot be bound"):
            await second.start()


async def test_ipv6() -> None:
    """The port can be bound on IPv6, and on all interfaces."""
    async with serving(stored({CHAT: answer(7)})) as served:
        for address, target in (("[::1]:0", "[::1]"), (":0", "127.0.0.1")):
            settings = ServerSettings(address)
            async with (
                ScalerServer(served.holder, settings, CollectorRegistry(), validate=accept_anything) as server,
                aio.insecure_channel(f"{target}:{server.port}", options=CHANNEL_OPTIONS) as channel,
            ):
                assert await value(ExternalScalerStub(channel)) == 7


@asynccontextmanager
async def pinged(options: list[tuple[str, int]]) -> AsyncIterator[aio.Channel]:
    """Connect a client that pings while it has no call, to a server with some options."""
    server = aio.server(options=options)
    port = server.add_insecure_port(LOOPBACK)
    await server.start()
    async with aio.insecure_channel(f"127.0.0.1:{port}", options=PINGING) as channel:
        await soon(channel.channel_ready())
        yield channel
    await server.stop(0)


async def test_a_client_that_pings_often_is_not_cut_off() -> None:
    """With grpc's own options such a client is cut off after a few pings; with the scaler's it is not.

    Both connections are open for the same time, with the same pings, ten times as often as every 5 s.
    """
    ready = grpc.ChannelConnectivity.READY
    async with pinged([]) as control, pinged(list(SERVER_OPTIONS.items())) as channel:
        staying = asyncio.ensure_future(channel.wait_for_state_change(ready))
        await soon(control.wait_for_state_change(ready))  # GOAWAY, too_many_pings
        await asyncio.sleep(0.5)
        assert not staying.done()
        assert channel.get_state() is ready
        staying.cancel()


async def test_a_pinging_client_keeps_its_stream() -> None:
    """Pings beside an open stream and calls do no harm either."""
    async with (
        serving(stored({CHAT: answer(7)})) as served,
        aio.insecure_channel(f"127.0.0.1:{served.server.port}", options=PINGING) as channel,
    ):
        stub = ExternalScalerStub(channel)
        stream = stub.StreamMetricSpec(reference())
        assert await read(stream) is not None
        reading = asyncio.ensure_future(read(stream))
        for _ in range(8):
            await asyncio.sleep(0.5)  # one ping
            assert await value(stub) == 7
        assert not reading.done()
        reading.cancel()


@asynccontextmanager
async def scaler_process(plan: Path, address: str = LOOPBACK) -> AsyncIterator[tuple[asyncio.subprocess.Process, int]]:
    """Start a scaler as a process; give it and its port; kill it at the end."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.scaler_process", str(plan), address), cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        yield process, int(await soon(process.stdout.readline()))
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_sigterm_with_open_streams(tmp_path: Path) -> None:
    """A scaler that is told to stop ends its streams normally and exits with 0."""
    plan = stored({CHAT: answer(2, present=False)}, at_s=SystemClock().now_s())
    await FilePlanStore(tmp_path / "plan").publish(plan.plan, plan.heartbeat)
    async with scaler_process(tmp_path / "plan") as (process, port):
        async with aio.insecure_channel(f"127.0.0.1:{port}", options=CHANNEL_OPTIONS) as channel:
            stub = ExternalScalerStub(channel)
            active = [stub.StreamIsActive(reference()) for _ in range(8)]
            specs = [stub.StreamMetricSpec(reference()) for _ in range(8)]
            for stream in active:
                assert await read(stream) == pb.IsActiveResponse(result=True)
            for spec in specs:
                assert await read(spec) is not None
            process.send_signal(signal.SIGTERM)
            assert [await read(stream) for stream in active] == [None] * 8
            assert [await read(spec) for spec in specs] == [None] * 8
            codes = {*[await stream.code() for stream in active], *[await spec.code() for spec in specs]}
            assert codes == {grpc.StatusCode.OK}
        assert await soon(process.wait()) == 0


class Load:
    """Clients that ask all the time, and what they were told."""

    def __init__(self, stub: ExternalScalerStub) -> None:
        self._stub = stub
        self.values: list[float] = []
        self.failures: list[grpc.StatusCode] = []

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            try:
                self.values.append(await value(self._stub))
            except aio.AioRpcError as error:
                self.failures.append(error.code())
            await asyncio.sleep(0.002)


async def test_a_scaler_that_is_killed_under_load_and_started_again(tmp_path: Path) -> None:
    """The client gets errors, then values again; never one that was not published, or is older than one it got."""
    store, clock = FilePlanStore(tmp_path / "plan"), SystemClock()

    async def publish(replicas: int) -> None:
        plan = stored({CHAT: answer(replicas)}, version=(1, replicas), at_s=clock.now_s())
        await store.publish(plan.plan, plan.heartbeat)

    await publish(1)
    async with AsyncExitStack() as stack:
        async with scaler_process(tmp_path / "plan") as (process, port):
            target = f"127.0.0.1:{port}"
            channel = await stack.enter_async_context(aio.insecure_channel(target, options=CHANNEL_OPTIONS))
            load = Load(ExternalScalerStub(channel))
            clients = [asyncio.create_task(load.run()) for _ in range(8)]
            await until(lambda: 1 in load.values)
            await publish(2)
            await until(lambda: 2 in load.values)
            process.kill()
            await until(lambda: len(load.failures) > 10)
        await publish(3)
        await stack.enter_async_context(scaler_process(tmp_path / "plan", target))
        await until(lambda: 3 in load.values)
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
    assert load.values == sorted(load.values)
    assert set(load.values) == {1, 2, 3}
    assert set(load.failures) == {grpc.StatusCode.UNAVAILABLE}
