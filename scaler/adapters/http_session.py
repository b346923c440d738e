"""A requests session in which every call ends: bounded in size, and cut off from outside when its time is up.

requests bounds the wait for the next byte, not the whole: a server that sends one byte a second, in the body or in a
header, would hold a thread for ever. So the thread that waits leaves its socket in a `Flight`, and whoever keeps the
time may cut it.
"""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase
from requests.models import PreparedRequest, Response
from urllib3 import PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

_CHUNK_BYTES = 65536


class AnswerTooLargeError(requests.RequestException):
    """The body went over its bound; the rest was not read."""


class Flight:
    """One call under way in a worker thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._cut = False
        self.notes: list[str] = []  # what the answer says of itself

    def carry(self, sock: socket.socket | None) -> None:
        """Take the socket that the call waits on. TimeoutError when the call was already cut off."""
        with self._lock:
            self._socket = sock
            if self._cut:
                raise TimeoutError("the call was cut off")

    def land(self) -> None:
        """Let go of the socket: the call is over, and its connection may already serve another."""
        with self._lock:
            self._socket = None

    @property
    def is_cut(self) -> bool:
        """Whether the call was cut off."""
        return self._cut

    def cut(self) -> None:
        """End the call: whatever waits on its socket returns at once. From any thread, any number of times."""
        with self._lock:
            self._cut = True
            if self._socket is not None:
                with contextlib.suppress(OSError):  # it may have ended by itself
                    # The plain socket's own: a TLS socket's would also drop the state that the reading thread uses.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


class _InThread(threading.local):
    flight: Flight | None = None


_in_thread = _InThread()


@contextlib.contextmanager
def in_flight(flight: Flight) -> Iterator[None]:
    """Let the calls of this thread be cut off through `flight`."""
    _in_thread.flight = flight
    try:
        yield
    finally:
        _in_thread.flight = None
        flight.land()


def note(text: str) -> None:
    """Leave a note with the flight of this thread."""
    if _in_thread.flight is not None:
        _in_thread.flight.notes.append(text)


class _Carried:
    """Mixed into a connection: shows its socket to the flight of the thread that uses it."""

    sock: socket.socket | None

    def request(self, *args: Any, **kwargs: Any) -> None:
        super().request(*args, **kwargs)  # type: ignore[misc]  # the connection's own, next in the order of resolution
        if _in_thread.flight is not None:
            _in_thread.flight.carry(self.sock)


class _Connection(_Carried, HTTPConnection):
    pass


class _TLSConnection(_Carried, HTTPSConnection):
    pass


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _TLSPool(HTTPSConnectionPool):
    ConnectionCls = _TLSConnection


def make_cuttable(manager: PoolManager) -> None:
    """Let a pool manager use connections that show their socket to the flight of the thread that uses them."""
    manager.pool_classes_by_scheme = {"http": _Pool, "https": _TLSPool}


class CuttableAdapter(HTTPAdapter):
    """Keeps connections open between calls, retries nothing by itself, and lets a call be cut off."""

    def __init__(self, connections: int) -> None:
        super().__init__(pool_connections=1, pool_maxsize=connections, max_retries=0)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Use connections that show their socket."""
        super().init_poolmanager(*args, **kwargs)
        make_cuttable(self.poolmanager)


class QuerySession(requests.Session):
    """A session for queries. The environment's proxies and .netrc are not used: what is sent is what was configured."""

    def __init__(self, on_response: Callable[[Response], None]) -> None:
        super().__init__()
        self.trust_env = False
        # The hook runs before requests reads a body or follows a redirect.
        self.hooks["response"].append(lambda response, **_: on_response(response))

    def request(  # type: ignore[override]  # narrower on purpose: this is what the API client calls
        self, method: str, url: str, params: Any = None, **kwargs: Any
    ) -> Response:
        """Send a query. A POST carries it in the body: a long list of namespaces does not fit into an address."""
        if method == "POST":
            return super().request(method, url, data=params, **kwargs)
        return super().request(method, url, params=params, **kwargs)


def read_bounded(response: Response, max_bytes: int) -> bytes:
    """Read the body, unpacked; AnswerTooLargeError, and the connection closed, beyond `max_bytes`."""
    body = bytearray()
    for chunk in response.iter_content(_CHUNK_BYTES):
        body += chunk
        if len(body) > max_bytes:
            response.close()
            raise AnswerTooLargeError(f"answer must be at most {max_bytes} bytes, was more")
    return bytes(body)


class BearerTokenFile(AuthBase):
    """A bearer token in a file, read for every call: the kubelet replaces projected tokens about once an hour."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        """Add the header; OSError when the file cannot be read."""
        request.headers["Authorization"] = f"Bearer {self._path.read_text(encoding='utf-8').strip()}"
        return request


class BasicAuthFile(AuthBase):
    """A user name, and a password in a file that may change."""

    def __init__(self, username: str, path: Path) -> None:
        self._username = username
        self._path = path

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        """Add the header; OSError when the file cannot be read."""
        password = self._path.read_text(encoding="utf-8").rstrip("\n")
        authorised: PreparedRequest = requests.auth.HTTPBasicAuth(self._username, password)(request)
        return authorised
