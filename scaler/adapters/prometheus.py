"""Samples and vectors from anything that speaks the Prometheus HTTP API: Prometheus, Thanos, Mimir, VictoriaMetrics.

One query per call. Whatever goes wrong becomes a SourceError with its reason; an answer that says of itself that it
is incomplete is passed on as partial.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import orjson
import requests
from prometheus_api_client.prometheus_connect import PrometheusConnect
from requests.auth import AuthBase
from requests.models import Response
from urllib3.exceptions import ReadTimeoutError

from scaler.adapters.bursts import burst
from scaler.adapters.http_session import (
    BasicAuthFile,
    BearerTokenFile,
    CuttableAdapter,
    Flight,
    QuerySession,
    in_flight,
    note,
    read_bounded,
)
from scaler.adapters.promql import newest_samples, selector, vector_rows
from scaler.core.values import Reason
from scaler.ports import Clock, SampleBatch, SampleRequest, SourceError, VectorBatch

_Read = TypeVar("_Read")
_Data = dict[str, Any]  # the `data` of an answer: what kind it is, and the result
_SHOWN_CHARACTERS = 200  # of what a server says, in an error


@dataclass(frozen=True, slots=True)
class PrometheusSettings:
    """Where Prometheus is and how to speak to it. Time-outs are of the wall; `lookback_s` is of the clock."""

    url: str
    connect_timeout_s: float = 3.0
    read_timeout_s: float = 10.0  # for the next byte
    total_timeout_s: float = 12.0  # for a fetch, retries included
    max_body_bytes: int = 64 * 2**20
    retries: int = 2
    backoff_s: float = 0.2  # before the first retry; doubles, with jitter
    connections: int = 4
    lookback_s: float = 120.0  # longer than a sample stays fresh, so that a late one is seen as stale
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    bearer_token_file: Path | None = None
    username: str | None = None
    password_file: Path | None = None
    tenant: str | None = None
    tenant_header: str = "X-Scope-OrgID"


class _TransientError(Exception):
    """Asking again may help: the connection failed, or the server said 503."""

    def __init__(self, error: SourceError) -> None:
        super().__init__(str(error))
        self.error = error


class PrometheusSource:
    """A MetricsSource and a QuerySource over the Prometheus HTTP API."""

    def __init__(self, settings: PrometheusSettings, clock: Clock, rng: random.Random | None = None) -> None:
        """Connect at the first fetch. `rng` draws the jitter of retries."""
        self._settings = settings
        self._clock = clock
        self._rng = rng or random.Random()  # noqa: S311  # jitter, no secret
        self._flights: set[Flight] = set()
        self._threads = ThreadPoolExecutor(settings.connections, "prometheus")
        self._turns = asyncio.Semaphore(settings.connections)  # a call's time runs from its turn on
        self._client = _client(settings)

    async def fetch(self, request: SampleRequest, now_s: float) -> SampleBatch:  # noqa: ARG002  # the server's own time counts
        """Return the newest sample of each series within the look-back; SourceError when there is no whole answer."""
        query = selector(request, self._clock.wall_duration(self._settings.lookback_s))

        def read(data: _Data, notes: tuple[str, ...]) -> SampleBatch:
            return SampleBatch(tuple(newest_samples(data, self._clock.from_wall)), notes)

        return await self._answer({"query": query}, read)

    async def vector(self, query: str, now_s: float, *, at_s: float | None = None) -> VectorBatch:
        """Return an instant vector as of `at_s`, or of the server's own present; SourceError when there is none."""
        parameters = {"query": query}
        if at_s is not None:
            parameters["time"] = f"{self._to_wall(at_s):.3f}"

        def read(data: _Data, notes: tuple[str, ...]) -> VectorBatch:
            rows, evaluated_s = vector_rows(data)
            as_of_s = now_s if evaluated_s is None else self._clock.from_wall(evaluated_s)
            return VectorBatch(rows, as_of_s, notes)

        return await self._answer(parameters, read)

    def _to_wall(self, at_s: float) -> float:
        """Return the wall's time of this clock's: the inverse of `from_wall`."""
        return self._clock.wall_duration(at_s - self._clock.from_wall(0.0))

    async def close(self) -> None:
        """Cut off what is under way and close the connections."""
        for flight in tuple(self._flights):
            flight.cut()
        await asyncio.to_thread(self._threads.shutdown, wait=True, cancel_futures=True)
        self._client.close()

    async def _answer(self, parameters: dict[str, str], read: Callable[[_Data, tuple[str, ...]], _Read]) -> _Read:
        try:
            async with self._turns, asyncio.timeout(self._settings.total_timeout_s):
                return await self._with_retries(parameters, read)
        except TimeoutError:
            raise SourceError(
                Reason.SOURCE_TIMEOUT, f"{self._settings.url}: no answer in {self._settings.total_timeout_s:g} s"
            ) from None

    async def _with_retries(self, parameters: dict[str, str], read: Callable[[_Data, tuple[str, ...]], _Read]) -> _Read:
        for attempt in range(self._settings.retries + 1):
            try:
                return await self._once(parameters, read)
            except _TransientError as transient:
                if attempt == self._settings.retries:
                    raise transient.error from transient
            await asyncio.sleep(self._settings.backoff_s * 2**attempt * self._rng.uniform(0.5, 1.5))
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _once(self, parameters: dict[str, str], read: Callable[[_Data, tuple[str, ...]], _Read]) -> _Read:
        flight = Flight()
        self._flights.add(flight)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._ask, parameters, read, flight)
        finally:
            flight.cut()  # where the time was up or the fetch was cancelled, this sets the thread free
            self._flights.discard(flight)

    def _ask(
        self, parameters: dict[str, str], read: Callable[[_Data, tuple[str, ...]], _Read], flight: Flight
    ) -> _Read:
        """Ask in a worker thread, and read the answer there."""
        with in_flight(flight), _as_source_errors(self._settings.url):
            data = self._client.custom_query(parameters["query"], parameters)
            with burst():
                return read(data, tuple(flight.notes))


def _client(settings: PrometheusSettings) -> PrometheusConnect:
    session = QuerySession(lambda response: _receive(response, settings.max_body_bytes))
    session.verify = str(settings.ca_file) if settings.ca_file else True
    if settings.cert_file:
        session.cert = (
            (str(settings.cert_file), str(settings.key_file)) if settings.key_file else str(settings.cert_file)
        )
    session.auth = _auth(settings)
    # To pack and unpack an answer costs both sides more than the network between them, and it is read only once.
    session.headers["Accept-Encoding"] = "identity"
    if settings.tenant is not None:
        session.headers[settings.tenant_header] = settings.tenant
    timeout = (settings.connect_timeout_s, settings.read_timeout_s)
    url = settings.url.rstrip("/")
    # The client hands the time-outs to requests, which takes a pair; its annotation says int.
    client = PrometheusConnect(url=url, session=session, timeout=timeout, method="POST")  # type: ignore[arg-type]
    session.mount(url, CuttableAdapter(settings.connections))  # in place of the client's, which retries by itself
    return client


def _auth(settings: PrometheusSettings) -> AuthBase | None:
    if settings.bearer_token_file is not None:
        return BearerTokenFile(settings.bearer_token_file)
    if settings.username is not None and settings.password_file is not None:
        return BasicAuthFile(settings.username, settings.password_file)
    return None


def _receive(response: Response, max_bytes: int) -> None:
    """Read an answer before the API client does, within bounds, and keep what the client would drop.

    The client neither bounds a body, nor looks at `status`, nor hands on the server's warnings, and it follows
    redirects, which would carry credentials elsewhere.
    """
    try:
        body = read_bounded(response, max_bytes)
    except BaseException:
        response.close()  # the connection is in an unknown state
        raise
    if response.is_redirect:
        raise SourceError(Reason.SOURCE_DOWN, f"status {response.status_code}: redirects are not followed")
    document = _document(response, body)
    if response.status_code != requests.codes.ok or document.get("status") != "success":
        raise _server_error(response.status_code, document)
    for warning in document.get("warnings") or ():
        note(str(warning)[:_SHOWN_CHARACTERS])
    if document.get("isPartial"):  # VictoriaMetrics' word for it
        note("the server marked its answer as partial")
    response._content = body  # noqa: SLF001  # read above; requests has no public way to say so
    # Parsed above, and a large answer must not be parsed twice. The client hands on `result` alone; what kind it is of
    # is in `data`, so that takes its place.
    whole = {"data": {"result": document["data"]}}
    response.json = lambda **_: whole  # type: ignore[method-assign]  # as above


def _document(response: Response, body: bytes) -> dict[str, Any]:
    """Parse the body; an error status without a JSON body is still told by its status."""
    try:
        with burst():
            document = orjson.loads(body)
    except ValueError:
        document = None
    if isinstance(document, dict):
        return document
    if response.status_code != requests.codes.ok:
        return {}
    kind = response.headers.get("Content-Type", "none")[:_SHOWN_CHARACTERS]
    raise SourceError(Reason.SOURCE_DOWN, f"answer must be a JSON object, its content type was {kind!r}")


def _server_error(status: int, document: dict[str, Any]) -> Exception:
    kind = document.get("errorType")
    shown = str(document.get("error", ""))[:_SHOWN_CHARACTERS]
    message = f"status {status}" + (f", {kind}: {shown!r}" if kind else "")
    if kind in {"timeout", "canceled"} or status == requests.codes.gateway_timeout:
        return SourceError(Reason.SOURCE_TIMEOUT, message)  # asking again would only add to the load
    error = SourceError(Reason.SOURCE_DOWN, message)
    return _TransientError(error) if status == requests.codes.service_unavailable else error


@contextlib.contextmanager
def _as_source_errors(url: str) -> Iterator[None]:
    """Turn what a query can raise into a SourceError, wrapped where asking again may help."""
    try:
        yield
    except SourceError as error:
        raise SourceError(error.reason, f"{url}: {error}") from error
    except _TransientError as error:
        raise _TransientError(SourceError(error.error.reason, f"{url}: {error}")) from error
    except (requests.Timeout, TimeoutError) as error:
        raise SourceError(Reason.SOURCE_TIMEOUT, f"{url}: {_shown(error)}") from error
    except requests.ConnectionError as error:
        if any(isinstance(argument, ReadTimeoutError) for argument in error.args):
            raise SourceError(Reason.SOURCE_TIMEOUT, f"{url}: {_shown(error)}") from error
        raise _TransientError(SourceError(Reason.SOURCE_DOWN, f"{url}: {_shown(error)}")) from error
    except (requests.RequestException, OSError) as error:  # OSError: a file of credentials
        raise SourceError(Reason.SOURCE_DOWN, f"{url}: {_shown(error)}") from error
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise SourceError(Reason.SOURCE_DOWN, f"{url}: answer is not of the expected shape: {_shown(error)}") from error


def _shown(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:_SHOWN_CHARACTERS]}"
