"""KEDA's push streams, over a real connection."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TypeAlias

import grpc
from google.protobuf.message import Message
from grpc import aio

from external_scaler_proto import externalscaler_pb2 as pb
from external_scaler_proto.externalscaler_pb2_grpc import ExternalScalerStub
from scaler.core.values import WorkloadId
from tests.scaler_rig import (
    CHANNEL_OPTIONS,
    CHAT,
    LIMIT_S,
    Served,
    answer,
    read,
    reference,
    serving,
    soon,
    stored,
    until,
    value,
)

OTHER = WorkloadId("lab", "chat")
ASLEEP = answer(0, active=False, present=False)
WANTED = answer(2, active=True, present=False)
AWAKE = answer(2, active=True, present=True)

TRUE = pb.IsActiveResponse(result=True)

# A window of 1 KiB that does not grow: a stream that is not read blocks soon.
SMALL_WINDOW = (*CHANNEL_OPTIONS, ("grpc.http2.lookahead_bytes", 1024), ("grpc.http2.bdp_probe", 0))

Stream: TypeAlias = aio.UnaryStreamCall[pb.ScaledObjectRef, pb.IsActiveResponse]


async def opened(served: Served, workload: WorkloadId = CHAT) -> Stream:
    """Open a stream and wait until its handler watches the workload."""
    stream = served.stub.StreamIsActive(reference(workload))
    await until(lambda: workload in served.holder._watchers.workloads)
    return stream


def open_streams(served: Served) -> float | None:
    """Return how many StreamIsActive streams the scaler counts as open."""
    return served.registry.get_sample_value("headway_scaler_open_streams", {"rpc": "StreamIsActive"})


async def test_it_wakes_a_workload() -> None:
    """The stream is silent while the workload is to sleep and says `true` when activation becomes wanted."""
    async with serving(stored({CHAT: ASLEEP})) as served:
        stream = await opened(served)
        reading = asyncio.ensure_future(read(stream))
        served.holder.accept(stored({CHAT: WANTED}, version=(1, 2)))
        assert await reading == TRUE


async def test_a_stream_that_opens_late() -> None:
    """A client that connects after activation became wanted is told at once."""
    async with serving(stored({CHAT: WANTED})) as served:
        assert await read(await opened(served)) == TRUE


async def test_it_never_says_false_and_tells_each_activation_once() -> None:
    """Going to sleep sends nothing, since KEDA 2.17 acts on `false` at once; waking again sends a second `true`."""
    async with serving(stored({CHAT: AWAKE})) as served:
        stream = await opened(served)
        assert await read(stream) == TRUE
        for sequence, item in enumerate((ASLEEP, AWAKE, answer(9), ASLEEP), start=2):
            served.holder.accept(stored({CHAT: item}, version=(1, sequence)))
            await until(lambda: _seen(served))
        await served.server.stop(2)
        rest = [message async for message in _rest(stream)]
        assert rest == [TRUE]
        assert await stream.code() is grpc.StatusCode.OK


async def test_it_repeats_while_nothing_comes_of_it() -> None:
    """KEDA may drop a `true`, so it comes again while there are no replicas, and stops once there are."""
    async with serving(stored({CHAT: WANTED}), repeat_s=0.01) as served:
        stream = await opened(served)
        for _ in range(5):
            assert await read(stream) == TRUE
        served.holder.accept(stored({CHAT: AWAKE}, version=(1, 2)))
        assert await _silent(stream)  # once the repeats that were under way are drained


async def test_it_does_not_repeat_for_what_is_awake() -> None:
    """Each `true` for a workload with replicas costs an API write and keeps it from ever going to sleep."""
    async with serving(stored({CHAT: AWAKE}), repeat_s=0.01) as served:
        stream = await opened(served)
        assert await read(stream) == TRUE
        assert await _silent(stream)


async def test_a_stream_is_about_its_own_workload() -> None:
    """The other workload of the same name stays asleep."""
    async with serving(stored({CHAT: ASLEEP, OTHER: ASLEEP})) as served:
        mine, others = await opened(served, CHAT), await opened(served, OTHER)
        served.holder.accept(stored({CHAT: WANTED, OTHER: ASLEEP}, version=(1, 2)))
        assert await read(mine) == TRUE
        await served.server.stop(2)
        assert await read(others) is None


async def test_the_spec_stream() -> None:
    """It sends what GetMetricSpec returns, and stays open until the scaler stops."""
    async with serving() as served:
        stream = served.stub.StreamMetricSpec(reference())
        assert await read(stream) == await served.stub.GetMetricSpec(reference())
        reading = asyncio.ensure_future(read(stream))
        await asyncio.sleep(0.05)
        assert not reading.done()
        await served.server.stop(2)
        assert await reading is None
        assert await stream.code() is grpc.StatusCode.OK


async def test_stopping_ends_streams_normally() -> None:
    """After a normal end KEDA reconnects in two seconds; after an error it backs off, up to a minute."""
    async with serving(stored({CHAT: WANTED}), grace_s=20) as served:
        streams = [served.stub.StreamIsActive(reference()) for _ in range(16)]
        for stream in streams:
            assert await read(stream) == TRUE
        await soon(served.server.stop())  # and does not use up its grace, which is as long as the limit
        assert [await read(stream) for stream in streams] == [None] * 16
        assert {await stream.code() for stream in streams} == {grpc.StatusCode.OK}
        assert open_streams(served) == 0
        assert not list(served.holder._watchers.workloads)


async def test_a_cancelled_stream_leaves_nothing() -> None:
    """KEDA reopens its streams at each change of a ScaledObject; the old ones must not pile up."""
    async with serving(stored({CHAT: ASLEEP})) as served:
        streams = [served.stub.StreamIsActive(reference()) for _ in range(20)]
        await until(lambda: open_streams(served) == 20)
        for stream in streams:
            stream.cancel()
        await until(lambda: open_streams(served) == 0)
        assert not list(served.holder._watchers.workloads)
        assert served.count("StreamIsActive", "CANCELLED") == 20


async def test_a_client_that_never_reads() -> None:
    """It costs its flow-control window, holds up nobody else, and is cut when the grace is over."""
    async with serving(stored({CHAT: WANTED}), repeat_s=0, grace_s=0.2) as served:
        sent = 0
        repeat_after_s = served.server._servicer._repeat_after_s

        def counted() -> float:
            nonlocal sent
            sent += 1
            return repeat_after_s()

        served.server._servicer._repeat_after_s = counted  # type: ignore[method-assign]  # called once per `true`
        async with aio.insecure_channel(f"127.0.0.1:{served.server.port}", options=SMALL_WINDOW) as channel:
            stream = ExternalScalerStub(channel).StreamIsActive(reference())
            blocked = await _settled(lambda: sent)
            assert blocked > 50  # it did write, again and again, until it could not
            assert await value(served.stub) == 2
            await soon(served.server.stop())
            assert sent == blocked
            assert open_streams(served) == 0
            stream.cancel()


def _seen(served: Served, workload: WorkloadId = CHAT) -> bool:
    """Return whether every stream of a workload has looked at the newest plan."""
    return not any(watch._woken.is_set() for watch in served.holder._watchers._watches[workload])


async def _rest(stream: Stream) -> AsyncIterator[Message]:
    while (message := await read(stream)) is not None:
        yield message


async def _silent(stream: Stream) -> bool:
    """Return whether a stream falls silent: for a time in which it would have repeated itself many times."""
    for _ in range(100):
        try:
            await asyncio.wait_for(read(stream), 0.3)
        except TimeoutError:
            return True
    return False


async def _settled(number: Callable[[], int]) -> int:
    """Return a number once it has stopped changing."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            before = number()
            await asyncio.sleep(0.3)
            if before and number() == before:
                return before
