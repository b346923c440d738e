"""The load: a client that calls two servers in turn, as fast as they answer or on a schedule, and tells them apart.

A process of the bench. It has one connection to each server, as KEDA's operator has, and goes from one to the other
about every second: whatever else the machine does meanwhile, it does to both. It sends requests that were serialised
before and looks at answers only afterwards, to take as little as it can of the cores that it shares with them.
"""

import asyncio
import gc
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any, Final

import psutil  # type: ignore[import-untyped]  # it ships no types
from grpc import RpcError, aio

from external_scaler_proto import externalscaler_pb2 as pb
from scaler.adapters.clock import SystemClock
from scaler.adapters.keda.wire import METRIC_NAME, SERVICE
from tests.bench.arithmetic import alternating, percentile, schedule
from tests.bench.children import say, told
from tests.bench.fleet import reference_request, value_request, workload_ids

WARM_UP_S: Final = 2.0
DRAIN_S: Final = 30.0
STRIDE: Final = 7919  # a prime: goes over all workloads without two neighbours in a row
KEPT_ANSWERS: Final = 256  # of each slice, to be looked at afterwards


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two servers."""

    name: str
    address: str
    pid: int


@dataclass(frozen=True, slots=True)
class Task:
    """What to do. `rate_rps` None: as fast as answers come, with `in_flight` calls open."""

    sides: tuple[Side, Side]
    workloads: int
    rounds: int
    seconds: float  # on each side in each round
    slice_s: float  # how long it stays on a side
    rate_rps: float | None = None
    in_flight: int = 16
    mix: bool = False  # KEDA's: a spec, a value and the activity in turn
    streams: int = 0  # StreamIsActive calls to each side that are open meanwhile, on the first workloads

    @classmethod
    def of(cls, document: dict[str, Any]) -> "Task":
        """Read a task from JSON values."""
        first, second = (Side(**side) for side in document["sides"])
        return cls(**{**document, "sides": (first, second)})

    @property
    def slices(self) -> int:
        """How often a round visits each side."""
        return max(1, round(self.seconds / self.slice_s))


@dataclass(slots=True)
class Seen:
    """What the client saw of one side in one round."""

    seconds: float = 0.0  # during which calls were made
    cpu_s: float = 0.0  # that the server used meanwhile
    latencies_s: list[float] = field(default_factory=list)
    failures: int = 0
    wrong: int = 0
    error: str = ""
    answers: deque[bytes] = field(default_factory=lambda: deque(maxlen=KEPT_ANSWERS))

    def failed(self, error: str) -> None:
        """Count a call that failed, and keep the last reason."""
        self.failures += 1
        self.error = error[:300]

    def check(self) -> None:
        """Look at the answers that were kept."""
        self.wrong += sum(not _is_value(answer) for answer in self.answers)
        self.answers.clear()

    def summary(self) -> dict[str, Any]:
        """Return the figures."""
        took = self.latencies_s
        return {
            "calls": len(took),
            "failures": self.failures,
            "wrong": self.wrong,
            "error": self.error,
            "rate_rps": len(took) / self.seconds,
            "cpu_us_per_call": self.cpu_s / max(1, len(took)) * 1e6,
            "p50_ms": percentile(took, 0.5) * 1e3 if took else None,
            "p99_ms": percentile(took, 0.99) * 1e3 if took else None,
            "max_ms": max(took) * 1e3 if took else None,
        }


class Client:
    """Makes a task's calls to one side."""

    def __init__(self, task: Task, side: Side, channel: aio.Channel) -> None:
        self._task = task
        self._channel = channel
        self._clock = SystemClock()
        self._server = psutil.Process(side.pid)
        self._next = cycle(self._calls())
        self.trues_s: list[list[float]] = [[] for _ in range(task.streams)]  # when each stream said `true`

    async def slice(self, seen: Seen, seconds: float) -> None:
        """Make calls for some seconds and add what is seen."""
        began_s, cpu_s = self._clock.monotonic_s(), self._cpu_s()
        if self._task.rate_rps is None:
            await self._closed(seen, seconds)
        else:
            await self._open(seen, schedule(self._task.rate_rps, seconds))
        seen.seconds += self._clock.monotonic_s() - began_s
        seen.cpu_s += self._cpu_s() - cpu_s
        seen.check()

    async def follow(self, stream: int) -> None:
        """Note when each `true` arrives on a stream, until cancelled."""
        request = reference_request(workload_ids(self._task.workloads)[stream])
        call = self._channel.unary_stream(f"/{SERVICE}/StreamIsActive", None, None)(request)
        async for message in call:
            if pb.IsActiveResponse.FromString(message).result:
                self.trues_s[stream].append(self._clock.monotonic_s())

    def _calls(self) -> Sequence[tuple[Any, bytes, bool]]:
        """Return the calls in order: what to call, with which bytes, and whether a value is answered."""
        ids = workload_ids(self._task.workloads)
        ids = [ids[number * STRIDE % len(ids)] for number in range(len(ids))]
        value = self._channel.unary_unary(f"/{SERVICE}/GetMetrics", None, None)
        if not self._task.mix:
            return [(value, value_request(key), True) for key in ids]
        spec = self._channel.unary_unary(f"/{SERVICE}/GetMetricSpec", None, None)
        active = self._channel.unary_unary(f"/{SERVICE}/IsActive", None, None)
        return [
            call
            for key in ids
            for call in (
                (spec, reference_request(key), False),
                (value, value_request(key), True),
                (active, reference_request(key), False),
            )
        ]

    async def _one(self, seen: Seen, due_s: float) -> None:
        method, request, is_value = next(self._next)
        try:
            answer = await method(request)
        except RpcError as error:
            seen.failed(str(error))
            return
        seen.latencies_s.append(self._clock.monotonic_s() - due_s)
        if is_value:
            seen.answers.append(answer)

    async def _closed(self, seen: Seen, seconds: float) -> None:
        end_s = self._clock.monotonic_s() + seconds

        async def work() -> None:
            while (now_s := self._clock.monotonic_s()) < end_s:
                await self._one(seen, now_s)

        await asyncio.gather(*(work() for _ in range(self._task.in_flight)))

    async def _open(self, seen: Seen, due: Sequence[float]) -> None:
        start_s = self._clock.monotonic_s()
        calls = []
        for after_s in due:
            due_s = start_s + after_s
            if (early_s := due_s - self._clock.monotonic_s()) > 0:
                await asyncio.sleep(early_s)
            calls.append(asyncio.create_task(self._one(seen, due_s)))
        done, late = await asyncio.wait(calls, timeout=DRAIN_S)
        for call in late:
            call.cancel()
            seen.failed(f"not answered within {DRAIN_S:g} s")
        for call in done:
            call.result()  # a bug of the client is no failure of the server

    def _cpu_s(self) -> float:
        times = self._server.cpu_times()
        return float(times.user + times.system)


async def measure(task: Task) -> dict[str, Any]:
    """Do a task and return what the parent wants to know of it."""
    clock = SystemClock()
    first, second = task.sides
    async with aio.insecure_channel(first.address) as one, aio.insecure_channel(second.address) as other:
        clients = {first.name: Client(task, first, one), second.name: Client(task, second, other)}
        streams = [asyncio.create_task(c.follow(n)) for c in clients.values() for n in range(task.streams)]
        for client in clients.values():
            await client.slice(Seen(), min(WARM_UP_S, task.slice_s))
        gc.unfreeze()
        gc.collect()
        gc.freeze()  # the client's own pauses are nobody's latency
        began_s = clock.monotonic_s()
        rounds = [await _round(task, clients) for _ in range(task.rounds)]
        ended_s = clock.monotonic_s()
        lost = sum(stream.done() for stream in streams)
        for stream in streams:
            stream.cancel()
        await asyncio.gather(*streams, return_exceptions=True)
    return {
        "began_s": began_s,
        "ended_s": ended_s,
        "rounds": rounds,
        "trues_s": {name: client.trues_s for name, client in clients.items()},
        "streams_lost": lost,
    }


async def _round(task: Task, clients: dict[str, Client]) -> dict[str, dict[str, Any]]:
    first, second = clients
    seen = {name: Seen() for name in clients}
    for name in alternating(task.slices, (first, second)):
        await clients[name].slice(seen[name], min(task.slice_s, task.seconds))
    return {name: it.summary() for name, it in seen.items()}


def _is_value(answer: bytes) -> bool:
    values = pb.GetMetricsResponse.FromString(answer).metricValues
    return len(values) == 1 and values[0].metricName == METRIC_NAME and values[0].metricValueFloat >= 0


if __name__ == "__main__":
    for document in told()["tasks"]:
        say(asyncio.run(measure(Task.of(document))))
