"""external-push: KEDA holds streams open, and a workload at zero does not wait for a poll."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.conftest import Tenant
from tests.cluster.engines_double import CAPACITY_RPS, SLOTS
from tests.cluster.headway import Headway, Role, installed
from tests.cluster.keda_reports import KedaReports, with_labels
from tests.cluster.processes import until
from tests.cluster.queue_double import QueueDouble
from tests.cluster.watching import stays
from tests.cluster.workloads import deployment

_EXAMPLE = Path(__file__).parents[2] / "examples" / "scaledobject-queue.yaml"
_SELDOM_S = 60  # a polling interval for which nothing here waits
_STREAMS = ("StreamIsActive", "StreamMetricSpec")


@dataclass(frozen=True)
class Worker:
    """A worker `render` of a tenant's queue, at zero, and the Headway that scales it."""

    tenant: Tenant
    queue: QueueDouble
    headway: Headway
    scaler: Role
    reports: KedaReports

    def replicas(self) -> int:
        """Return how many replicas the Deployment is told to have."""
        return self.tenant.cluster.deployments(self.tenant.namespace).replicas("render")

    def ready(self) -> int:
        """Return how many replicas there are."""
        return self.tenant.cluster.deployments(self.tenant.namespace).ready("render")

    def reaches(self, replicas: int) -> None:
        """Wait until the Deployment has exactly so many replicas, all ready, and that is what is recommended."""
        until(lambda: self.replicas() == self.ready() == replicas == self.target(), f"{replicas} ready replicas")

    def target(self) -> int | None:
        """Return what is recommended now."""
        found = self.headway.recommendation(self.tenant.namespace, "render")
        return None if found is None else found["target"]

    def counted(self, name: str, **labels: str) -> float:
        """Return the sum of the scaler's samples of a name."""
        return sum(each.value for each in with_labels(self.headway.metrics(self.scaler), name, **labels))

    def open_streams(self) -> list[float]:
        """Return how many streams of each kind KEDA holds open."""
        return [self.counted("headway_scaler_open_streams", rpc=rpc) for rpc in _STREAMS]

    def polled_every(self, seconds: int) -> None:
        """Change the polling interval, on which KEDA opens its streams anew, and wait until it has."""
        ended = self.counted("headway_scaler_rpcs_total", rpc="StreamIsActive")
        change = {"spec": {"pollingInterval": seconds}}
        self.tenant.cluster.objects.patch("ScaledObject", "keda.sh/v1alpha1", self.tenant.namespace, "render", change)
        until(lambda: self.counted("headway_scaler_rpcs_total", rpc="StreamIsActive") > ended, "the old stream's end")
        until(lambda: self.open_streams() == [1, 1], "the new streams")


@contextmanager
def asleep(tenant: Tenant, folder: Path) -> Iterator[Worker]:
    """Run a Headway for a queue's worker at zero, whose streams are open."""
    deployments = tenant.cluster.deployments(tenant.namespace)
    queue = QueueDouble("team-jobs", lambda: deployments.ready("render"))
    granted = {"name": "jobs", "namespaces": [tenant.namespace], "queue": {"queue": "team-jobs", "prefetch": SLOTS}}
    with installed(
        tenant.cluster,
        folder,
        tenant.engines,
        namespace=tenant.headway,
        watches=(tenant.namespace,),
        sources=[granted],
    ) as headway:
        tenant.cluster.objects.apply(deployment(tenant.namespace, "render", replicas=0))
        tenant.engines.also(queue.exposition)
        headway.controller()
        worker = Worker(tenant, queue, headway, headway.scaler(), KedaReports(tenant.cluster.keda))
        tenant.cluster.objects.apply(_scaled_object(tenant.namespace, headway.address))
        until(lambda: worker.counted("headway_scaler_rpcs_total", rpc="IsActive"), "a poll that is answered")
        until(lambda: worker.open_streams() == [1, 1], "KEDA's streams")
        yield worker


def _scaled_object(namespace: str, address: str) -> dict[str, Any]:
    """Return the recommended one of a queue, polled and cooling down within seconds."""
    whole: dict[str, Any] = next(iter(yaml.safe_load_all(_EXAMPLE.read_text())))
    whole["metadata"]["namespace"] = namespace
    whole["spec"] |= {"pollingInterval": 1, "cooldownPeriod": 3}
    size = {"slotsPerReplica": str(SLOTS), "capacityPerReplica": str(CAPACITY_RPS), "leadTime": "5s"}
    whole["spec"]["triggers"][0]["metadata"] |= {"scalerAddress": address, **size}
    return whole


def test_a_queue_wakes_its_worker_by_the_stream_and_lets_it_sleep_again(tenant: Tenant, tmp_path: Path) -> None:
    """Messages wake a worker at zero long before the next poll, up to exactly what is recommended, and down to zero.

    The open streams do not keep it awake, and KEDA logs no error of them. Without the push it would sleep on.
    """
    with asleep(tenant, tmp_path) as worker:
        worker.polled_every(_SELDOM_S)
        log = worker.reports.log_size()
        worker.queue.load_for(5)
        until(worker.replicas, "the push to wake it", within_s=_SELDOM_S / 2)
        worker.reaches(5)
        assert worker.open_streams() == [1, 1]
        assert worker.reports.errors_logged(tenant.namespace, log) == []
        worker.polled_every(1)
        log = worker.reports.log_size()
        worker.queue.load_for(0)
        worker.reaches(0)
        stays(worker.replicas, 0, for_s=5)
        assert worker.open_streams() == [1, 1]
        assert worker.reports.errors_logged(tenant.namespace, log) == []


def test_streams_without_work_wake_nothing(tenant: Tenant, tmp_path: Path) -> None:
    """A worker whose queue is empty stays at zero with both streams open; a single message would wake it."""
    with asleep(tenant, tmp_path) as worker:
        stays(worker.replicas, 0, for_s=8)
        assert worker.open_streams() == [1, 1]
