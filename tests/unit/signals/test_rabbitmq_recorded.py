"""A real RabbitMQ 3.10: per queue it tells what waits and is held, and counts by channel only."""

import pytest

from scaler.adapters.signals.project import Answer, Projector
from scaler.adapters.signals.rabbitmq import QueueSettings
from scaler.config.models import DecisionSettings, WorkloadSettings
from scaler.core.values import Known, Missing, Reason, WorkloadId
from tests.metrics_fakes import T0, exposition

WORKER = WorkloadSettings(namespace="demo", name="render", engine="rabbitmq", source="render")
BROKER = {"namespace": "rabbitmq", "pod": "rabbit-0", "instance": "10.0.0.3:15692"}


@pytest.mark.parametrize("fixture", ["rabbitmq-3.10", "rabbitmq-3.10-per-object"])
def test_an_older_broker_tells_the_active_ratio_s_parts_and_no_rates(fixture: str) -> None:
    """13 are ready, 3 consumers hold 6; what counts per channel dies with it and is not taken for the queue's."""
    projector = Projector(DecisionSettings(), queues=QueueSettings(prefetch=2))
    for now_s in (T0, T0 + 15):
        answer = Answer(tuple(exposition(fixture, now_s, **BROKER)))
        seen = projector.queues_of([WORKER], {"demo"}, answer, now_s)[WorkloadId("demo", "render")]
    assert (seen.waiting, seen.unacked, seen.consumers) == (Known(13.0), Known(6.0), Known(3.0))
    assert {seen.arrivals_rps, seen.completions_rps} == {Missing(Reason.NO_SERIES)}
