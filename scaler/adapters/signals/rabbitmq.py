"""RabbitMQ's queues as signals: the active ratio's parts, and what is published and acknowledged.

Per-queue series come from `/metrics/detailed` (families queue_coarse_metrics, queue_consumer_count,
queue_delivery_metrics, queue_exchange_metrics; prefix `rabbitmq_detailed_`) or from `/metrics/per-object` (prefix
`rabbitmq_`). Older brokers count publishing and acknowledging per channel only; those series die with their channel,
so a sum over them is no rate, and they are not candidates: arrivals are then Missing, while the active ratio still
works.

`consumer_utilisation` is not used: it is the share of time in which the queue could deliver at once, so high is good.
"""

from dataclasses import dataclass

from scaler.adapters.signals.candidates import Candidate, Kind, Preset, Signal


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """What the platform says of its broker. No series of a queue tells the prefetch of its consumers."""

    vhost: str = "/"
    prefetch: int | None = None  # messages that one consumer may hold; None: not told


def _names(name: str) -> tuple[Candidate, ...]:
    return Candidate(f"rabbitmq_detailed_{name}"), Candidate(f"rabbitmq_{name}")


def _counter(field: str, name: str) -> Signal:
    # A node counts what its own channels did, so the nodes of a cluster add up; `instance` tells them apart.
    return Signal(field, _names(name), Kind.COUNTER, parts=("instance", "exchange_vhost", "exchange"))


RABBITMQ = Preset(
    name="rabbitmq",
    version="4.1, 3.10.8",
    owners=(("vhost", "queue"), ("queue_vhost", "queue")),
    signals=(
        # Gauges come from the node that holds the queue's leader; after it moved, the newest sample counts.
        Signal("waiting", _names("queue_messages_ready")),
        Signal("unacked", _names("queue_messages_unacked")),
        Signal("consumers", _names("queue_consumers")),
        _counter("arrivals_rps", "queue_exchange_messages_published_total"),
        _counter("completions_rps", "queue_messages_acked_total"),
    ),
    notes="""\
- Scrape `/metrics/detailed` with the families `queue_coarse_metrics`, `queue_consumer_count`,
  `queue_delivery_metrics` and `queue_exchange_metrics`, or `/metrics/per-object`.
- 3.10 counts publishing and acknowledging per channel only, which dies with its channel: arrivals and completions are
  missing there, the active ratio works.
- What one consumer may hold (prefetch) is exported nowhere: the platform tells it, or `slotsPerReplica`.
- `consumer_utilisation` and `consumer_capacity` are high where consumers keep up; they are not read.
""",
)
