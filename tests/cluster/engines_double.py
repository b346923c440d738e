"""Engines of pods that kwok only pretends to run: an exposition with a series for each pod that is really ready.

A double, because no GPU and no engine is here; who is ready it asks the API server. The load is set by the test. It is
a steady state: so much work in flight, so much of it done each second.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from tests.cluster.objects import Objects

SLOTS = 32  # requests that one engine runs at once
CAPACITY_RPS = 8.0  # requests per second that one replica is said to sustain
# What an engine completes in a second when all its slots are in use: a little less, so that slots decide, which have no
# noise, and not rates, which have that of the scrapes' times.
_COMPLETED_RPS = 0.8 * CAPACITY_RPS


@dataclass
class Work:
    """The work of one workload, and what its pods have done so far."""

    in_system: float = 0.0  # requests that run or wait
    completed: dict[str, float] = field(default_factory=dict)  # by pod
    seen_s: float | None = None  # when the counters were last moved
    pods: list[str] = field(default_factory=list)  # that were ready then


class EnginesDouble:
    """Answers scrapes for all workloads. Pods are those with the label `app` of the workload's name."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._work: dict[tuple[str, str], Work] = {}
        self._more: list[Callable[[], str]] = []
        self._lock = threading.Lock()
        self.scrapes = 0

    def load(self, namespace: str, name: str, in_system: float) -> None:
        """Set how many requests run or wait."""
        with self._lock:
            self._work.setdefault((namespace, name), Work()).in_system = in_system

    def load_for(self, namespace: str, name: str, replicas: int, utilisation: float = 0.85) -> None:
        """Set the load that needs exactly so many replicas at this utilisation."""
        self.load(namespace, name, (replicas - 0.5) * SLOTS * utilisation if replicas else 0.0)

    def also(self, lines: Callable[[], str]) -> None:
        """Expose more, such as a broker's or a gateway's series."""
        self._more.append(lines)

    def exposition(self) -> str:
        """Return all series of now: of when they were asked for, however long it takes to find out who is ready.

        That is the time that a Prometheus gives them. By another one the rates of a slow machine would be wrong.
        """
        now_s = time.perf_counter()
        with self._lock:
            self.scrapes += 1
            own = [line for key, work in self._work.items() for line in self._of_workload(*key, work, now_s)]
        return "\n".join([*own, *(more() for more in self._more), ""])

    def _of_workload(self, namespace: str, name: str, work: Work, now_s: float) -> Iterator[str]:
        pods = self._ready(namespace, name, work)
        before_s = now_s if work.seen_s is None else work.seen_s
        work.seen_s = max(now_s, before_s)  # a scrape that was given up may come after the next one
        elapsed_s = work.seen_s - before_s
        for pod in pods:
            share = work.in_system / len(pods)
            running = min(share, SLOTS)
            done = work.completed[pod] = work.completed.get(pod, 0.0) + running / SLOTS * _COMPLETED_RPS * elapsed_s
            yield from series(f'namespace="{namespace}",pod="{pod}",model_name="m"', running, share - running, done)

    def _ready(self, namespace: str, name: str, work: Work) -> list[str]:
        """Return the ready pods; while the API server is away those that were, for engines run on without it."""
        try:
            pods = self._objects.items(f"/api/v1/namespaces/{namespace}/pods?labelSelector=app%3D{name}")
        except (HTTPError, ApiException):
            return work.pods
        work.pods = sorted(pod["metadata"]["name"] for pod in pods if _is_ready(pod))
        return work.pods


def _is_ready(pod: dict[str, Any]) -> bool:
    if "deletionTimestamp" in pod["metadata"]:
        return False
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", []))


def series(labels: str, running: float, waiting: float, done: float) -> Iterator[str]:
    """Write one engine's series under vLLM's names."""
    yield f"vllm:num_requests_running{{{labels}}} {running:.3f}"
    yield f"vllm:num_requests_waiting{{{labels}}} {waiting:.3f}"
    yield f"vllm:kv_cache_usage_perc{{{labels}}} {min(running / SLOTS, 1) * 0.5:.3f}"
    yield f"vllm:num_preemptions_total{{{labels}}} 0"
    yield f"vllm:prompt_tokens_total{{{labels}}} {done * 1000:.3f}"
    yield f"vllm:generation_tokens_total{{{labels}}} {done * 200:.3f}"
    yield f'vllm:request_success_total{{{labels},finished_reason="stop"}} {done:.3f}'


@contextmanager
def served(engines: EnginesDouble) -> Iterator[str]:
    """Serve the exposition on a free port; give its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # the library calls it so
            body = engines.exposition().encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            with suppress(ConnectionError):  # a Prometheus that is killed does not wait for its answer
                self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Keep the test's output to the test."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
