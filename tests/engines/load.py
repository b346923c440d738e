"""Open-loop load over HTTP, and what the clients saw of it: the truth that an engine's counters are held against."""

import asyncio
import bisect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp

from scaler.ports import Clock

_ANSWER_WITHIN_S = 120.0


@dataclass(frozen=True, slots=True)
class Answered:
    """A request that was answered. Times are Unix seconds; the status is HTTP's, or 0 where the server went away."""

    sent_s: float
    done_s: float
    status: int


@dataclass
class ClientLog:
    """When requests were sent and answered, as the clients saw it."""

    sent_s: list[float] = field(default_factory=list)
    answered: list[Answered] = field(default_factory=list)

    def outstanding(self, at_s: float) -> int:
        """Return the requests that were sent and not yet answered at a time."""
        return bisect.bisect_right(self.sent_s, at_s) - sum(a.done_s <= at_s for a in self.answered)

    def between(self, start_s: float, end_s: float) -> list[Answered]:
        """Return the requests that were answered with success after `start_s` and up to `end_s`."""
        return [a for a in self.answered if start_s < a.done_s <= end_s and a.status == 200]


class Client:
    """Sends requests to a model over the KServe v2 protocol, and logs them."""

    def __init__(self, session: aiohttp.ClientSession, url: str, model: str, clock: Clock) -> None:
        """Send through `session` to a model of the server at `url`."""
        self._session = session
        self._url = f"{url}/v2/models/{model}/infer"
        self._clock = clock
        self.log = ClientLog()

    async def infer(self, service_ms: int) -> None:
        """Send one request and wait for its answer."""
        wanted = {"name": "service_ms", "shape": [1], "datatype": "INT32", "data": [service_ms]}
        sent_s = self._clock.now_s()
        self.log.sent_s.append(sent_s)
        try:
            async with self._session.post(self._url, json={"inputs": [wanted]}) as response:
                await response.read()
                status = response.status
        except aiohttp.ClientConnectionError:
            status = 0
        self.log.answered.append(Answered(sent_s, self._clock.now_s(), status))

    async def offer(self, service_ms: int, rate_rps: float, count: int) -> None:
        """Send `count` requests at a fixed rate, whatever becomes of them, and wait until all are answered."""
        start_s = self._clock.monotonic_s()
        async with asyncio.TaskGroup() as group:
            for i in range(count):
                await asyncio.sleep(start_s + i / rate_rps - self._clock.monotonic_s())
                group.create_task(self.infer(service_ms))


@asynccontextmanager
async def client_of(url: str, model: str, clock: Clock) -> AsyncIterator[Client]:
    """Return a client with as many connections as it needs: waiting is for the server's queue, not for the client's."""
    timeout = aiohttp.ClientTimeout(total=_ANSWER_WITHIN_S)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as session:
        yield Client(session, url, model, clock)
