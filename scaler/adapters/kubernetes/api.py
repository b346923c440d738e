"""The connection to a Kubernetes API server: every call ends, every answer is bounded, every failure is an `ApiError`.

Addresses, certificates and tokens are the official `kubernetes` client's business. Its typed objects are not used: they
take seconds for what parsing the raw answer does in milliseconds. Calls block, so they belong into a thread; `run` has
some. A call or a watch can be cut off from any other thread.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Literal, ParamSpec, TypeVar
from urllib.parse import quote, urlencode

import orjson
import urllib3
from kubernetes.client import ApiClient, ApiException, Configuration
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config

from scaler.adapters.http_session import Flight, in_flight, make_cuttable
from scaler.ports import Clock

P = ParamSpec("P")
R = TypeVar("R")
Query = Mapping[str, Any]  # str or int
Verb = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
_CHUNK_BYTES: Final = 262_144
_MAX_LINE_BYTES: Final = 8 << 20  # etcd holds objects of up to 1.5 MB, a watch may not fill the memory all the same
_MAX_PAGES: Final = 10_000
_SHOWN_CHARACTERS: Final = 200  # of what a server says, in an error


class ApiError(Exception):
    """The API server did not do what it was asked. Status 0: there was no whole answer.

    `reason` is the API's own CamelCase word (Conflict, AlreadyExists, NotFound, Expired, Forbidden); without an answer
    it is Timeout, Unreachable, Cut or TooLarge. The message holds no credentials.
    """

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason

    @property
    def uncertain(self) -> bool:
        """Whether a write may have happened all the same: there was no answer, or the server failed while at it."""
        return self.status == 0 or self.status >= 500


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """Bounds of every call. Time-outs are of the wall; the read time-out is the longest silence between two bytes."""

    connect_timeout_s: float = 5.0
    read_timeout_s: float = 10.0
    total_timeout_s: float = 30.0
    max_body_bytes: int = 64 << 20
    connections: int = 16
    threads: int = 8

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self)):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be > 0, was {getattr(self, name)}")


def path(*segments: str) -> str:
    """Return the path of these segments, each quoted. ValueError for one that would lead elsewhere."""
    for segment in segments:
        if segment in {"", ".", ".."}:
            raise ValueError(f"a segment of a path must be a name, was {segment!r}")
    return "/" + "/".join(quote(segment, safe="") for segment in segments)


def in_cluster() -> Configuration:
    """Return how a pod reaches its API server: the service account's token, read again as it is replaced."""
    return _configured(load_incluster_config)


def from_kubeconfig(file: Path | None = None, context: str | None = None) -> Configuration:
    """Return how a kubeconfig file (default: the usual one) says to reach a server, in a context (default: current)."""
    load: Callable[..., None] = load_kube_config
    return _configured(partial(load, str(file) if file else None, context, persist_config=False))


def at(url: str) -> Configuration:
    """Return how to reach a server that asks for no credentials, such as `kubectl proxy`."""
    configuration = _bare()
    configuration.host = url
    return configuration


def _configured(load: Callable[..., None]) -> Configuration:
    configuration = _bare()
    try:
        load(client_configuration=configuration)
    except (ConfigException, OSError) as error:
        raise ApiError(0, "Unreachable", f"the API server's address is not known: {error}") from error
    return configuration


def _bare() -> Configuration:
    configuration = Configuration()
    configuration.proxy = None  # the environment's: what is sent goes where it was configured to go
    configuration.retries = False  # who calls decides about another try; and no redirect is followed with a token
    return configuration


class ApiConnection:
    """Calls to one API server, from any number of threads."""

    def __init__(self, configuration: Configuration, clock: Clock, settings: ApiSettings | None = None) -> None:
        self.clock = clock
        self.settings = settings or ApiSettings()
        configuration.connection_pool_maxsize = self.settings.connections
        self._client: Any = ApiClient(configuration)  # its annotations are incomplete
        self._client.user_agent = f"headway/{version('headway')}"
        make_cuttable(self._client.rest_client.pool_manager)
        self._threads = ThreadPoolExecutor(self.settings.threads, "kubernetes-api")
        self._lock = threading.Lock()
        self._flights: set[Flight] = set()
        self._closed = False

    async def run(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run blocking calls in one of the connection's threads. A cancelled waiter leaves them to their time-outs."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: call(*args, **kwargs))

    def close(self) -> None:
        """End every call and watch, and give back connections and threads. From any thread, any number of times."""
        with self._lock:
            self._closed = True
            flights = tuple(self._flights)
        for flight in flights:
            flight.cut()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._client.close()

    # Calls: each returns the parsed or raw answer, or raises ApiError.

    def raw(self, path: str, query: Query | None = None, *, timeout_s: float | None = None) -> bytes:
        """Return the answer to a GET as it came."""
        return self._call("GET", path, query, None, JSON, timeout_s)

    def get(self, path: str, query: Query | None = None, *, timeout_s: float | None = None) -> dict[str, Any]:
        """Return what is there."""
        return _object(self.raw(path, query, timeout_s=timeout_s), path)

    def pages(self, path: str, query: Query | None = None, *, limit: int = 500) -> Iterator[dict[str, Any]]:
        """Yield the pages of a list. A continue token that has expired is ApiError 410: the list begins anew."""
        token = ""
        for _ in range(_MAX_PAGES):
            page = self.get(path, {**(query or {}), "limit": limit, **({"continue": token} if token else {})})
            yield page
            token = str((page.get("metadata") or {}).get("continue") or "")
            if not token:
                return
        raise ApiError(0, "TooLarge", f"GET {path}: a list must have at most {_MAX_PAGES} pages")

    def watch(
        self,
        path: str,
        query: Query | None = None,
        *,
        silence_s: float = 120.0,
        accepted: Callable[[], object] = lambda: None,
    ) -> "Watch":
        """Return a watch that has not begun. It fails after `silence_s` seconds in which nothing came.

        `accepted` is called as soon as the server has taken the watch, in the thread that iterates.
        """
        return Watch(self, path, {**(query or {}), "watch": "true"}, silence_s, accepted)

    def create(self, path: str, body: Mapping[str, Any], *, timeout_s: float | None = None) -> dict[str, Any]:
        """Create an object in the collection at `path`; ApiError 409 AlreadyExists."""
        return _object(self._call("POST", path, None, body, JSON, timeout_s), path)

    def replace(self, path: str, body: Mapping[str, Any], *, timeout_s: float | None = None) -> dict[str, Any]:
        """Replace an object; with `metadata.resourceVersion`, ApiError 409 Conflict if it has changed since."""
        return _object(self._call("PUT", path, None, body, JSON, timeout_s), path)

    def patch(self, path: str, body: Mapping[str, Any], *, timeout_s: float | None = None) -> dict[str, Any]:
        """Merge `body` into an object (RFC 7396)."""
        return _object(self._call("PATCH", path, None, body, MERGE_PATCH, timeout_s), path)

    def _call(
        self,
        verb: Verb,
        path: str,
        query: Query | None,
        body: Mapping[str, Any] | None,
        content_type: str,
        timeout_s: float | None,
    ) -> bytes:
        settings, what = self.settings, f"{verb} {path}"
        total_s = settings.total_timeout_s if timeout_s is None else timeout_s
        ends_s = self.clock.monotonic_s() + total_s
        with self.flight() as flight, in_flight(flight), _as_api_errors(what, flight):
            timeouts = (min(settings.connect_timeout_s, total_s), min(settings.read_timeout_s, total_s))
            response = self.open(verb, path, query, body, content_type, timeouts)
            with contextlib.closing(response):
                content = bytearray()
                while chunk := response.read1(_CHUNK_BYTES):
                    content += chunk
                    if len(content) > settings.max_body_bytes:
                        raise ApiError(0, "TooLarge", f"{what}: must answer at most {settings.max_body_bytes} bytes")
                    if self.clock.monotonic_s() > ends_s:
                        raise ApiError(0, "Timeout", f"{what}: no whole answer in {total_s:g} s")
                response.release_conn()
            if not 200 <= response.status < 300:
                raise _refusal(what, response.status, bytes(content))
            return bytes(content)

    def open(
        self,
        verb: Verb,
        path: str,
        query: Query | None,
        body: Mapping[str, Any] | None,
        content_type: str,
        timeouts_s: tuple[float, float],
    ) -> urllib3.BaseHTTPResponse:
        """Send a request and return the answer whose body has not been read. For this module."""
        headers = {"Accept": JSON} if body is None else {"Accept": JSON, "Content-Type": content_type}
        where = f"{path}?{urlencode(query)}" if query else path
        request = self._client.param_serialize(
            verb, where, header_params=headers, body=body, auth_settings=["BearerToken"]
        )
        response: urllib3.BaseHTTPResponse = self._client.call_api(*request, _request_timeout=timeouts_s).response
        return response

    @contextlib.contextmanager
    def flight(self) -> Iterator[Flight]:
        """Keep a call among those that `close` ends. For this module."""
        flight = Flight()
        with self._lock:
            if self._closed:
                raise ApiError(0, "Cut", "the connection is closed")
            self._flights.add(flight)
        try:
            yield flight
        finally:
            with self._lock:
                self._flights.discard(flight)


class Watch:
    """One watch: iterate over its lines in one thread, `cut` it from any other.

    The iteration ends when the server ends the watch, or it is cut; everything else is an ApiError. Each line is one
    event as raw JSON.
    """

    def __init__(
        self, api: ApiConnection, path: str, query: Query, silence_s: float, accepted: Callable[[], object]
    ) -> None:
        self._api = api
        self._path = path
        self._query = query
        self._silence_s = silence_s
        self._accepted = accepted
        self._lock = threading.Lock()
        self._flight: Flight | None = None
        self._cut = False

    def cut(self) -> None:
        """End the iteration, also one that has not begun. From any thread, any number of times."""
        with self._lock:
            self._cut = True
            flight = self._flight
        if flight is not None:
            flight.cut()

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._lines()
        except ApiError as error:
            if not (self._cut and error.status == 0):
                raise

    def _lines(self) -> Iterator[bytes]:
        what = f"WATCH {self._path}"
        with self._api.flight() as flight:
            self._take(flight)
            with contextlib.closing(self._begin(what, flight)) as response:
                self._accepted()
                rest = b""
                while chunk := self._read(what, response, flight):
                    *lines, rest = (rest + chunk).split(b"\n")
                    yield from filter(None, lines)
                    if len(rest) > _MAX_LINE_BYTES:
                        raise ApiError(0, "TooLarge", f"{what}: a line must have at most {_MAX_LINE_BYTES} bytes")
                if rest:
                    raise ApiError(0, "Cut", f"{what}: ended in the middle of a line")

    def _take(self, flight: Flight) -> None:
        with self._lock:
            if self._cut:
                raise ApiError(0, "Cut", "the watch was cut before it began")
            self._flight = flight

    def _begin(self, what: str, flight: Flight) -> urllib3.BaseHTTPResponse:
        timeouts_s = (self._api.settings.connect_timeout_s, self._silence_s)
        with in_flight(flight), _as_api_errors(what, flight):
            response = self._api.open("GET", self._path, self._query, None, JSON, timeouts_s)
            if response.status != 200:
                with contextlib.closing(response):
                    raise _refusal(what, response.status, response.read(_CHUNK_BYTES))
        with _as_api_errors(what, flight):
            # Beginning let go of the socket, and this thread may make other calls while it iterates.
            flight.carry(getattr(response.connection, "sock", None))
        return response

    def _read(self, what: str, response: urllib3.BaseHTTPResponse, flight: Flight) -> bytes:
        with _as_api_errors(what, flight):
            return response.read1(_CHUNK_BYTES)


@contextlib.contextmanager
def _as_api_errors(what: str, flight: Flight) -> Iterator[None]:
    try:
        yield
    except ApiException as error:
        raise ApiError(0, "Unreachable", f"{what}: {_short(str(error.reason))}") from error
    except urllib3.exceptions.ConnectTimeoutError as error:  # also a refused connection, which the library calls so too
        reason = "Cut" if flight.is_cut else "Unreachable"
        raise ApiError(0, reason, f"{what}: no connection: {_short(str(error))}") from error
    except (urllib3.exceptions.TimeoutError, TimeoutError) as error:
        raise ApiError(0, "Timeout", f"{what}: no answer in time") from error
    except (urllib3.exceptions.HTTPError, ConfigException, OSError, ValueError) as error:
        reason = "Cut" if flight.is_cut else "Unreachable"
        raise ApiError(0, reason, f"{what}: {_short(f'{type(error).__name__}: {error}')}") from error


def _refusal(what: str, status: int, content: bytes) -> ApiError:
    """Read the API's Status; something in front of the server may answer with anything else."""
    try:
        document = orjson.loads(content)
        reason, message = str(document["reason"]), str(document.get("message", ""))
    except (ValueError, TypeError, KeyError, AttributeError):
        reason, message = "Unknown", "no reason given"
    return ApiError(status, _short(reason), f"{what}: {status} {_short(reason)}: {_short(message)}")


def _object(content: bytes, path: str) -> dict[str, Any]:
    try:
        document = orjson.loads(content)
    except ValueError as error:
        raise ApiError(0, "Unreadable", f"{path}: the answer is no JSON: {_short(str(error))}") from error
    if not isinstance(document, dict):
        raise ApiError(0, "Unreadable", f"{path}: the answer must be an object, was {type(document).__name__}")
    return document


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]}..."
