"""An API server with very many pods, as far as the bench of the cluster view needs one: paged lists, and a busy watch.

A process of the bench. Pods are made as they are asked for, from one real-shaped pod: 100,000 of them are 800 MB.
"""

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import orjson

from tests.bench.children import say, told
from tests.kubernetes_objects import deployment, full_pod, scaled_object

NAMESPACES: Final = 200
_WORKLOAD, _NUMBER = 99_999, 88_888  # of the pod that the others are made from
_POD: Final = orjson.dumps(full_pod(_WORKLOAD, _NUMBER, namespaces=NAMESPACES))
_NODE: Final = f"gpu-node-{(_WORKLOAD * 7 + _NUMBER) % 2000:04d}".encode()
_READY: Final = b'"type":"Ready","status":"True"'
VERSION: Final = 1_000_000_000  # of the list; that of an event is higher by its number


def pod_bytes(index: int, replicas: int, *, ready: bool = True, version: int = VERSION) -> bytes:
    """Return the pod of this index; `replicas` is how many each workload has."""
    workload, number = divmod(index, replicas)
    it = _POD.replace(f"model-{_WORKLOAD}".encode(), f"model-{workload:05d}".encode())
    it = it.replace(f"-{_NUMBER}".encode(), f"-{number:05d}".encode())
    it = it.replace(f"team-{_WORKLOAD % NAMESPACES:03d}".encode(), f"team-{workload % NAMESPACES:03d}".encode())
    it = it.replace(_NODE, f"gpu-node-{index % 2000:04d}".encode())
    it = it.replace(f'"resourceVersion":"{10_000_000 + _NUMBER}"'.encode(), f'"resourceVersion":"{version}"'.encode())
    return it if ready else it.replace(_READY, _READY.replace(b"True", b"False"))


def named(kind: str, workload: int, replicas: int) -> dict[str, Any]:
    """Return a workload's ScaledObject or Deployment."""
    name, namespace = f"model-{workload:05d}", f"team-{workload % NAMESPACES:03d}"
    if kind == "scaledobjects":
        return scaled_object(name, namespace=namespace, slotsPerReplica="8")
    return deployment(name, namespace=namespace, replicas=replicas)


class Server(ThreadingHTTPServer):
    """Serves; events flow at `rate` a second from when somebody asks for /begin, whose answer is that moment."""

    daemon_threads = True

    def __init__(self, workloads: int, replicas: int, rate: float) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.workloads, self.replicas, self.rate = workloads, replicas, rate
        self.begun = threading.Event()
        self.begun_s = 0.0

    def handle_error(self, *_: object) -> None:
        """A client that went away is nothing to report."""

    def begin(self) -> float:
        """Let the events flow."""
        self.begun_s = time.time()  # noqa: TID251  # two processes of one machine compare their clocks
        self.begun.set()
        return self.begun_s

    def item(self, kind: str, index: int) -> bytes:
        """Return an object of a kind."""
        if kind == "pods":
            return pod_bytes(index, self.replicas)
        return orjson.dumps(named(kind, index, self.replicas))

    def count(self, kind: str) -> int:
        """Return how many there are."""
        if kind == "pods":
            return self.workloads * self.replicas
        return self.workloads if kind in {"scaledobjects", "deployments"} else 0


class Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    server: Server
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:  # the server's name for it
        """Answer."""
        parts = urlsplit(self.path)
        query, kind = dict(parse_qsl(parts.query)), parts.path.rpartition("/")[2]
        if kind == "begin":
            self._send(orjson.dumps(self.server.begin()))
        elif query.get("watch") == "true":
            self._watch(kind)
        else:
            self._page(kind, int(query["limit"]), int(query.get("continue", 0)))

    def _page(self, kind: str, limit: int, first: int) -> None:
        count = self.server.count(kind)
        last = min(count, first + limit)
        objects = b",".join(self.server.item(kind, index) for index in range(first, last))
        token = str(last) if last < count else ""
        metadata = orjson.dumps({"resourceVersion": str(VERSION), "continue": token})
        self._send(b'{"metadata":' + metadata + b',"items":[' + objects + b"]}")

    def _send(self, content: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()

    def _watch(self, kind: str) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        self.server.begun.wait()
        if kind != "pods":
            threading.Event().wait()  # until the process ends
        event, pause = 0, threading.Event()
        while True:
            event += 1
            index = event * 7919 % self.server.count("pods")  # all over the cluster
            it = pod_bytes(index, self.server.replicas, ready=event % 2 == 0, version=VERSION + event)
            line = b'{"type":"MODIFIED","object":' + it + b"}\n"
            self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
            self.wfile.flush()
            pause.wait(max(0.0, self.server.begun_s + event / self.server.rate - time.time()))  # noqa: TID251  # as above


if __name__ == "__main__":
    task = told()
    server = Server(int(task["workloads"]), int(task["replicas"]), float(task["rate"]))
    say({"port": server.server_port, "bytes": len(pod_bytes(0, 1))})
    server.serve_forever()
