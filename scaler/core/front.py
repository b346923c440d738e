"""What is seen in front of the replicas: a broker's queue, or a gateway. It is there at zero replicas too.

A workload has at most one of them. Work in front of the replicas needs at least one of them, however little it is.
"""

from scaler.core.observation import GatewayReading, QueueReading
from scaler.core.values import Known, Reading, Reason, is_benign

_NOTHING = Known(0.0)


def work_in_front(
    queue: QueueReading | None, gateway: GatewayReading | None, *, for_down: bool = False
) -> tuple[str, int]:
    """Return the need's name, and 1 while work is held or comes in; for scaling down also where it cannot be seen."""
    if queue is not None:
        return "work_in_queue", _any_work((queue.waiting, queue.unacked, queue.arrivals_rps), for_down=for_down)
    if gateway is not None:
        return "work_at_gateway", _any_work((gateway.arrivals_rps, gateway.waiting), for_down=for_down)
    return "work_in_queue", 0


def works_at_zero(queue: QueueReading | None, gateway: GatewayReading | None) -> bool:
    """Return whether something would wake the workload at zero replicas: a source that tells, or will again."""
    if queue is not None:
        return _tells(queue.waiting) or _tells(queue.arrivals_rps)
    return gateway is not None and (_tells(gateway.arrivals_rps) or _tells(gateway.waiting))


def held_back(gateway: GatewayReading | None) -> Reading:
    """Return the requests that wait at the gateway: none where there is no gateway, or where none ever waits there."""
    return _NOTHING if gateway is None or is_benign(gateway.waiting) else gateway.waiting


def _any_work(signals: tuple[Reading, ...], *, for_down: bool) -> int:
    return int(any(s.value > 0 if isinstance(s, Known) else for_down and not is_benign(s) for s in signals))


def _tells(reading: Reading) -> bool:
    return not is_benign(reading) and getattr(reading, "reason", None) is not Reason.NOT_GRANTED
