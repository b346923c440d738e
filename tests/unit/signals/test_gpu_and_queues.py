"""GPU activity from dcgm-exporter and queues from RabbitMQ, with the label quirks of both."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from scaler.adapters.signals.project import Answer, Projector
from scaler.adapters.signals.rabbitmq import QueueSettings
from scaler.config.models import DecisionSettings, WorkloadSettings
from scaler.core.observation import QueueReading
from scaler.core.values import Known, Missing, Reading, Reason, Stale, WorkloadId
from scaler.ports import Sample
from tests.metrics_fakes import T0, exposition

PODS = (("demo", "chat-0"), ("demo", "chat-1"))
TENANTS = frozenset({"demo", "other"})
EXPORTER = {"namespace": "gpu-operator", "pod": "dcgm-exporter-x1", "instance": "10.0.0.9:9400"}


def activity(samples: Iterable[Sample], *, now_s: float = T0, absent: Reason = Reason.NO_SERIES) -> list[Reading]:
    """Project the GPU activity of the two pods."""
    projector = Projector(DecisionSettings())
    found = projector.gpu_activity(PODS, TENANTS, Answer(tuple(samples), absent), now_s)
    return [found[pod] for pod in PODS]


def dcgm(**target: str) -> list[Sample]:
    """Return the recorded exposition of a node's exporter."""
    return exposition("dcgm", T0, **(target or EXPORTER))


def relabelled(samples: Iterable[Sample], **renames: str) -> list[Sample]:
    """Rename labels."""
    return [replace(s, labels={renames.get(k, k): v for k, v in s.labels.items()}) for s in samples]


def test_several_gpus_of_a_pod_are_one_mean_and_mig_has_a_value() -> None:
    """`GR_ENGINE_ACTIVE` is preferred: GPU_UTIL reads 0 on the MIG device."""
    assert activity(dcgm()) == [Known(0.9), Known(0.4375)]


def test_percent_where_there_is_nothing_better() -> None:
    """Consumer GPUs have GPU_UTIL only, in percent."""
    old = [s for s in dcgm() if s.name != "DCGM_FI_PROF_GR_ENGINE_ACTIVE"]
    assert activity(old) == [Known(0.95), Known(0.0)]


def test_milli_units_are_an_error() -> None:
    """An activity above 1 is not taken for busy."""
    milli = [replace(s, value=s.value * 1000) for s in dcgm()]
    assert activity(milli)[0] == Missing(Reason.INVALID_VALUE)


@pytest.mark.parametrize(
    "renames",
    [
        {},  # honorLabels=false
        {"exported_pod": "pod", "exported_namespace": "namespace", "namespace": "a", "pod": "b"},  # honorLabels=true
        {"exported_pod": "pod_name", "exported_namespace": "pod_namespace"},  # --use-old-namespace
        {"Hostname": "hostname"},  # since dcgm-exporter#655
    ],
)
def test_the_spellings_of_labels(renames: dict[str, str]) -> None:
    """However the exporter and the scrape job spell whose GPU it is, the pods get the same values."""
    assert activity(relabelled(dcgm(), **renames)) == activity(dcgm())


def test_a_time_sliced_gpu_counts_once_per_slice() -> None:
    """Every slice repeats the device's value; the mean over slices is that value."""
    slices = [replace(s, labels={**s.labels, "vgpu": str(i)}) for s in dcgm() for i in range(4)]
    assert activity(slices) == activity(dcgm())


def test_the_exporter_s_own_pod_owns_no_gpu() -> None:
    """A series without a workload's labels is nobody's."""
    unowned = [replace(s, labels={k: v for k, v in s.labels.items() if "exported" not in k}) for s in dcgm()]
    assert activity(unowned) == [Missing(Reason.NO_SERIES)] * 2


def test_a_tenant_cannot_speak_for_another_s_gpu() -> None:
    """A pod in a tenant's namespace that exports GPU metrics naming another namespace's pod is not believed."""
    busy = [replace(s, value=1.0) for s in dcgm(namespace="other", pod="attacker-0", instance="10.0.0.66:80")]
    assert activity(busy) == [Missing(Reason.NO_SERIES)] * 2
    assert activity([*busy, *dcgm()]) == activity(dcgm())


def test_a_late_exporter_is_stale_and_a_failed_one_says_why() -> None:
    """GPU activity has the same three values as every signal."""
    assert activity(dcgm(), now_s=T0 + 120) == [Stale(120.0)] * 2
    assert activity([], absent=Reason.SOURCE_TIMEOUT) == [Missing(Reason.SOURCE_TIMEOUT)] * 2


BROKER = {"namespace": "rabbitmq", "pod": "rabbit-0", "instance": "10.0.0.3:15692"}
OTHER_NODE = {"namespace": "rabbitmq", "pod": "rabbit-1", "instance": "10.0.0.4:15692"}


def worker(name: str = "render", **settings: Any) -> WorkloadSettings:
    """Return a queue worker."""
    return WorkloadSettings(**{"namespace": "demo", "name": name, "engine": "rabbitmq", "source": name} | settings)


def queue(
    workload: WorkloadSettings,
    *ticks: tuple[float, Iterable[Sample]],
    absent: Reason = Reason.NO_SERIES,
    settings: QueueSettings | None = None,
) -> QueueReading:
    """Project a worker's queue over some ticks, and return the last reading."""
    projector = Projector(DecisionSettings(), queues=settings or QueueSettings(prefetch=1))
    for now_s, samples in ticks or ((T0, rabbit()),):
        found = projector.queues_of([workload], TENANTS, Answer(tuple(samples), absent), now_s)
    return found[WorkloadId(workload.namespace, workload.name)]


def rabbit(at_s: float = T0, **target: str) -> list[Sample]:
    """Return the recorded exposition of a broker."""
    return exposition("rabbitmq", at_s, **(target or BROKER))


def test_the_parts_of_the_active_ratio() -> None:
    """Ready, unacknowledged, consumers and prefetch of the workload's queue, and of no other vhost's."""
    seen = queue(worker())
    assert (seen.waiting, seen.unacked, seen.consumers) == (Known(12.0), Known(6.0), Known(8.0))
    assert seen.prefetch == Known(1.0)
    assert queue(worker(), settings=QueueSettings(vhost="staging")).waiting == Known(900.0)


def test_arrivals_and_completions_are_rates_over_all_exchanges() -> None:
    """What is published through several exchanges adds up."""
    after = [replace(s, at_s=T0 + 15, value=s.value + 30) for s in rabbit()]
    seen = queue(worker(), (T0, rabbit()), (T0 + 15, after))
    assert seen.arrivals_rps == Known(4.0)
    assert seen.completions_rps == Known(2.0)


def test_a_queue_without_consumers_keeps_its_numbers() -> None:
    """No consumers is a known 0, which the decision does not divide by."""
    seen = queue(worker("abandoned"))
    assert seen.consumers == Known(0.0)
    assert seen.waiting == Known(7.0)


def test_per_object_names_are_a_candidate() -> None:
    """A broker scraped at /metrics/per-object spells the same without `detailed_`."""
    plain = [replace(s, name=s.name.replace("_detailed", "")) for s in rabbit()]
    assert queue(worker(), (T0, plain)) == queue(worker())


def test_the_newest_leader_speaks() -> None:
    """After a queue's leader moved, the old node's last word does not add to the new one's."""
    old = rabbit(T0 - 30, **OTHER_NODE)
    assert queue(worker(), (T0, [*old, *rabbit()])).waiting == Known(12.0)


def test_counters_of_all_nodes_add_up() -> None:
    """Each node counts what its own channels did."""
    two = [*rabbit(), *rabbit(T0, **OTHER_NODE)]
    after = [replace(s, at_s=T0 + 15, value=s.value + 30) for s in two]
    assert queue(worker(), (T0, two), (T0 + 15, after)).completions_rps == Known(4.0)


def test_prefetch_is_told_and_never_guessed() -> None:
    """A worker's own slots come first, then the platform's word; without either it is not configured."""
    assert queue(worker(slots_per_replica=4)).prefetch == Known(4.0)
    assert queue(worker(), settings=QueueSettings()).prefetch == Missing(Reason.NOT_CONFIGURED)


def test_a_worker_without_a_queue_is_not_configured() -> None:
    """Without a source there is nothing to look for; it is not an empty queue."""
    assert queue(worker(source=None)).waiting == Missing(Reason.NOT_CONFIGURED)


@pytest.mark.parametrize("absent", [Reason.NO_SERIES, Reason.SOURCE_DOWN, Reason.PARTIAL_ANSWER])
def test_an_unseen_queue_is_missing(absent: Reason) -> None:
    """An unknown queue is not an empty one, and says why it is unknown."""
    seen = queue(worker("nobody-declared-it"), absent=absent)
    assert {seen.waiting, seen.unacked, seen.consumers, seen.arrivals_rps} == {Missing(absent)}


def test_a_tenant_cannot_speak_for_another_s_queue() -> None:
    """A pod that exports a broker's metrics from another tenant's namespace is not believed; one's own broker is."""
    forged = [replace(s, value=1e6) for s in rabbit(namespace="other", pod="attacker-0", instance="10.0.0.66:80")]
    assert queue(worker(), (T0, forged)).waiting == Missing(Reason.NO_SERIES)
    own = rabbit(namespace="demo", pod="my-rabbit-0", instance="10.0.0.7:15692")
    assert queue(worker(), (T0, [*forged, *own])).waiting == Known(12.0)
