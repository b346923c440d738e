"""A RabbitMQ queue whose consumers are pods that kwok only pretends to run, as the broker's own exposition shows it.

A double, because no broker runs here. It is a fluid: what is published waits until ready pods, each with its prefetch,
have acknowledged it.
"""

import threading
import time
from collections.abc import Callable

from tests.cluster.engines_double import CAPACITY_RPS, SLOTS


class QueueDouble:
    """One queue. `consumers` says how many pods consume it now."""

    def __init__(self, name: str, consumers: Callable[[], int]) -> None:
        self._labels = f'vhost="/",queue="{name}"'
        self._routed = f'queue_vhost="/",queue="{name}",exchange_vhost="/",exchange=""'
        self._consumers = consumers
        self._lock = threading.Lock()
        self._rate_rps = 0.0
        self._published = self._acked = 0.0
        self._seen_s = time.perf_counter()

    def load_for(self, replicas: int, utilisation: float = 0.85) -> None:
        """Publish at the rate that needs exactly so many replicas at this utilisation."""
        self._move(self._consumers())
        with self._lock:
            self._rate_rps = (replicas - 0.5) * CAPACITY_RPS * utilisation if replicas else 0.0

    def exposition(self) -> str:
        """Return the queue's series of now."""
        consumers = self._consumers()
        self._move(consumers)
        with self._lock:
            held = self._published - self._acked
            in_work = self._rate_rps / CAPACITY_RPS * SLOTS
            unacked = min(max(held, in_work), consumers * SLOTS)
            return "\n".join(self._series(max(held - unacked, 0.0), unacked, consumers))

    def _move(self, consumers: int) -> None:
        with self._lock:
            now_s = time.perf_counter()
            elapsed_s, self._seen_s = now_s - self._seen_s, now_s
            self._published += self._rate_rps * elapsed_s
            self._acked = min(self._published, self._acked + consumers * CAPACITY_RPS * elapsed_s)

    def _series(self, ready: float, unacked: float, consumers: int) -> tuple[str, ...]:
        return (
            f"rabbitmq_detailed_queue_messages_ready{{{self._labels}}} {ready:.3f}",
            f"rabbitmq_detailed_queue_messages_unacked{{{self._labels}}} {unacked:.3f}",
            f"rabbitmq_detailed_queue_consumers{{{self._labels}}} {consumers}",
            f"rabbitmq_detailed_queue_exchange_messages_published_total{{{self._routed}}} {self._published:.3f}",
            f"rabbitmq_detailed_queue_messages_acked_total{{{self._labels}}} {self._acked:.3f}",
        )
