"""A double of a Kubernetes API server: real HTTP on a port of its own, threads, faults on demand, and it counts.

It stores anything under any path of the API's grammar, serves paged lists, watches with bookmarks and the scale
subresource, and refuses what the real one refuses (see `api_objects_double.py`). It is no conformance suite: there is
no admission, no RBAC and no schema but for the kinds that Headway writes.
"""

import contextlib
import json
import socket
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Self
from urllib.parse import parse_qsl, urlsplit

from tests.api_objects_double import Change, Json, Objects, Place, Refusal, selected

LONGEST_WAIT_S = 60.0  # nothing in a test waits longer, whatever goes wrong
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
MAX_REQUEST_BYTES = 3 << 20


@dataclass
class Fault:
    """What goes wrong with requests whose verb and path fit, `times` times (None: until it is removed).

    refuse: the connection closes without an answer. hang: no answer until `released`, then as refuse. stall: nothing
    until `released`, then it is carried out. late: the request is carried out, then no answer until `released`. cut:
    the answer breaks off in the middle. status: `status` with `reason`. lost: the request is carried out and the
    connection closes without an answer. The first `skip` requests that fit pass unharmed.
    """

    kind: Literal["refuse", "hang", "stall", "late", "cut", "status", "lost"]
    verb: str = ""  # get, list, watch, create, update, patch, delete; empty: any
    path: str = ""  # a part of the path
    status: int = 500
    reason: str = "InternalError"
    times: int | None = None
    skip: int = 0
    hit: threading.Event = field(default_factory=threading.Event)  # set when a request has met it
    released: threading.Event = field(default_factory=threading.Event)

    def fits(self, verb: str, path: str) -> bool:
        return self.times != 0 and self.verb in {"", verb} and self.path in path


class ApiServerDouble:
    """The double. Use it as a context manager; `url` is where it listens."""

    def __init__(self) -> None:
        self.objects = Objects()
        self.requests: Counter[tuple[str, str]] = Counter()  # by verb and path
        self.faults: list[Fault] = []
        self.documents: dict[str, Json] = {}  # served as they are, such as API discovery
        self.token: str | None = None  # that a request must carry
        self.gone = False  # refuses everything, and has ended every watch
        self._lock = threading.Lock()
        self._bookmarks = 0
        self._stopping = False
        self._watches: set[socket.socket] = set()
        self._server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"double": self}))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping = True
        for fault in self.faults:
            fault.released.set()
        self.cut_watches()
        self._server.shutdown()
        self._thread.join(LONGEST_WAIT_S)
        self._server.server_close()

    # What a test does to it, uncounted.

    def put(self, path: str, body: Mapping[str, Any]) -> Json:
        """Create or replace the object at `path`, whatever its version."""
        place, document = Place.of(path), json.loads(json.dumps(body))
        with contextlib.suppress(KeyError):
            del document["metadata"]["resourceVersion"]
        try:
            self.objects.get(place)
        except Refusal:
            return self.objects.create(place, document)
        current = self.objects.get(place)["metadata"]["resourceVersion"]
        document.setdefault("metadata", {})["resourceVersion"] = current
        return self.objects.replace(place, document)

    def at(self, path: str) -> Json | None:
        """Return the object at `path`, None if there is none."""
        try:
            return self.objects.get(Place.of(path))
        except Refusal:
            return None

    def remove(self, path: str) -> None:
        """Delete the object at `path`."""
        self.objects.delete(Place.of(path))

    def items(self, path: str) -> list[Json]:
        """Return the objects of a collection."""
        return self.objects.list(Place.of(path))[1]

    def bookmark(self) -> None:
        """Send a bookmark to every watch that allows them."""
        with self.objects.changed:
            self._bookmarks += 1
            self.objects.changed.notify_all()

    def cut_watches(self) -> None:
        """Break off every watch."""
        with self._lock:
            watches, self._watches = self._watches, set()
        for connection in watches:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        with self.objects.changed:
            self.objects.changed.notify_all()

    def end_watches(self) -> None:
        """End every watch in good order, as a server does when its time is over."""
        with self._lock:
            self._watches.clear()
        with self.objects.changed:
            self.objects.changed.notify_all()

    def leave(self) -> None:
        """Be gone: refuse everything until `come_back`."""
        self.gone = True
        self.cut_watches()

    def come_back(self) -> None:
        self.gone = False

    @contextlib.contextmanager
    def restarting(self) -> Iterator[None]:
        """Be a process that is being replaced: its port refuses connections, its continue tokens are worth nothing."""
        self._server.shutdown()
        self._server.socket.close()
        self._server.socket = socket.socket()  # it keeps the port, and does not listen yet
        self._server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._server.socket.bind(self._server.server_address)
        self.cut_watches()
        self.objects.forget_pages()
        try:
            yield
        finally:
            self._server.socket.listen(_Server.request_queue_size)
            self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
            self._thread.start()

    def fail(self, kind: Any, **settings: Any) -> Fault:
        """Add a fault and return it."""
        fault = Fault(kind, **settings)
        self.faults.append(fault)
        return fault

    def heal(self) -> None:
        """Remove and release all faults."""
        faults, self.faults = self.faults, []
        for fault in faults:
            fault.released.set()

    def count(self, verb: str = "", path: str = "") -> int:
        """Return how many requests there were of a verb whose path holds `path`."""
        with self._lock:
            return sum(n for (v, p), n in self.requests.items() if verb in {"", v} and path in p)

    def forget(self) -> None:
        """Count from zero again."""
        with self._lock:
            self.requests.clear()

    # What its handlers use.

    def seen(self, verb: str, path: str) -> Fault | None:
        """Count a request, and return the fault that it meets."""
        with self._lock:
            self.requests[verb, path] += 1
            for fault in self.faults:
                if fault.fits(verb, path):
                    if fault.skip:
                        fault.skip -= 1
                        continue
                    if fault.times is not None:
                        fault.times -= 1
                    fault.hit.set()
                    return fault
        return None

    @contextlib.contextmanager
    def watching(self, connection: socket.socket) -> Iterator[None]:
        with self._lock:
            self._watches.add(connection)
        try:
            yield
        finally:
            with self._lock:
                self._watches.discard(connection)

    def watched(self, connection: socket.socket) -> bool:
        with self._lock:
            return connection in self._watches and not self._stopping

    def events(self, place: Place, query: Mapping[str, str], connection: socket.socket) -> Iterator[Json]:
        """Yield the events of a watch until it is cut."""
        objects, selector = self.objects, query.get("labelSelector", "")
        with objects.changed:
            since, position, told = int(query.get("resourceVersion") or 0), len(objects.history), self._bookmarks
            first: list[Json] = []
            if since == 0:
                items = objects.list(place, selector, query.get("fieldSelector", ""))[1]
                first = [{"type": "ADDED", "object": item} for item in items]
            elif since < objects.oldest:
                yield {"type": "ERROR", "object": Refusal(410, "Expired", "too old resource version").document()}
                return
            else:
                position = sum(1 for change in objects.history if change.version <= since)
        yield from first
        while self.watched(connection):
            changes, marks, version = self._news(position, told, connection)
            position, marked, told = position + len(changes), marks > told, marks
            yield from filter(None, (_event(change, place, selector, query) for change in changes))
            if marked and query.get("allowWatchBookmarks") in {"true", "1"}:
                yield {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(version)}}}

    def _news(self, position: int, told: int, connection: socket.socket) -> tuple[list[Change], int, int]:
        """Wait for changes, a bookmark, or the end of a watch."""
        objects = self.objects

        def something() -> bool:
            return len(objects.history) > position or self._bookmarks > told or not self.watched(connection)

        with objects.changed:
            objects.changed.wait_for(something, LONGEST_WAIT_S)
            return objects.history[position:], self._bookmarks, objects.version


def _event(change: Change, place: Place, selector: str, query: Mapping[str, str]) -> Json | None:
    metadata = change.after["metadata"]
    if change.collection != place.collection or place.namespace not in {"", metadata.get("namespace", "")}:
        return None
    if (name := query.get("fieldSelector", "").removeprefix("metadata.name=")) and name != metadata["name"]:
        return None
    before = selected(change.before, selector)
    after = change.kind != "DELETED" and selected(change.after, selector)
    kind = {(False, True): "ADDED", (True, True): "MODIFIED", (True, False): "DELETED"}.get((before, after))
    return None if kind is None else {"type": kind, "object": change.after}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, *_: object) -> None:
        """A client that went away is none of a test's output."""


class _Handler(BaseHTTPRequestHandler):
    double: ApiServerDouble
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    timeout = LONGEST_WAIT_S

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._handle()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - as above

    def _handle(self) -> None:
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        length = int(self.headers.get("Content-Length") or 0)
        content = self.rfile.read(length) if length else b""
        try:
            self._answer(parts.path, query, content)
        except Refusal as refusal:
            self._send(refusal.status, refusal.document())

    def _answer(self, path: str, query: Mapping[str, str], content: bytes) -> None:
        double = self.double
        place = None if path in double.documents else Place.of(path)
        watching = query.get("watch") in {"true", "1"}
        read = "get" if place is None or place.name else "watch" if watching else "list"
        verb = VERBS.get(self.command, read)
        fault = double.seen(verb, path)
        if double.gone:
            return self._hang_up()
        if fault is not None and not self._meet(fault):
            return None
        if (
            double.token is not None
            and self.headers.get("Authorization", "").lower() != f"bearer {double.token}".lower()
        ):
            raise Refusal(401, "Unauthorized", "Unauthorized")
        if place is None:
            return self._send(200, double.documents[path])
        if watching:
            return self._watch(place, query)
        status, document = self._do(verb, place, query, content)
        if fault is not None and fault.kind == "lost":
            return self._hang_up()
        if fault is not None and fault.kind == "late":
            fault.released.wait(LONGEST_WAIT_S)
        return self._send(status, document, cut=fault is not None and fault.kind == "cut")

    def _meet(self, fault: Fault) -> bool:
        """Let a request meet a fault; return whether it is carried out all the same."""
        if fault.kind == "status":
            raise Refusal(fault.status, fault.reason, "a fault of the test")
        if fault.kind == "refuse":
            self._hang_up()
            return False
        if fault.kind == "hang":
            fault.released.wait(LONGEST_WAIT_S)
            self._hang_up()
            return False
        if fault.kind == "stall":
            fault.released.wait(LONGEST_WAIT_S)
        return True

    def _do(self, verb: str, place: Place, query: Mapping[str, str], content: bytes) -> tuple[int, Json]:
        objects = self.double.objects
        if len(content) > MAX_REQUEST_BYTES:
            raise Refusal(413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728")
        body = json.loads(content) if content else {}
        if place.subresource == "scale":
            return 200, self._scale(verb, place, body)
        if verb == "list":
            selector, names = query.get("labelSelector", ""), query.get("fieldSelector", "")
            limit, token = int(query.get("limit") or 0), query.get("continue", "")
            return 200, objects.page(place, selector, names, limit, token)
        if verb in {"get", "delete"}:
            return 200, (objects.get if verb == "get" else objects.delete)(place)
        change = {"create": objects.create, "update": objects.replace, "patch": objects.merge}[verb]
        return (201 if verb == "create" else 200), change(place, body)

    def _scale(self, verb: str, place: Place, body: Json) -> Json:
        objects = self.double.objects
        if verb == "patch":
            objects.merge(place, {"spec": {"replicas": body["spec"]["replicas"]}})
        item = objects.get(place)
        labels = ((item.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
        return {
            "kind": "Scale", "apiVersion": "autoscaling/v1",
            "metadata": {key: item["metadata"].get(key) for key in ("name", "namespace", "uid", "resourceVersion")},
            "spec": {"replicas": (item.get("spec") or {}).get("replicas", 0)},
            "status": {
                "replicas": (item.get("status") or {}).get("replicas", 0),
                "selector": ",".join(f"{key}={value}" for key, value in sorted(labels.items())),
            },
        }  # fmt: skip

    def _watch(self, place: Place, query: Mapping[str, str]) -> None:
        self.close_connection = True
        with self.double.watching(self.connection):
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.flush()
            for event in self.double.events(place, query, self.connection):
                line = json.dumps(event).encode() + b"\n"
                self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")
            self.close_connection = False  # an end in good order: the next request may come over it

    def _send(self, status: int, document: Json, *, cut: bool = False) -> None:
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if cut else content)
        self.wfile.flush()
        if cut:
            self._hang_up()

    def _hang_up(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
