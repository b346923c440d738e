"""A hundred workloads at zero, and everything that decides about them restarted: none wakes, unless there is work.

That none woke is told by the Deployments' generations, which the API server raises with whatever one is told: they
miss no moment. How long it is watched is counted in KEDA's looks at them: sleep while nobody asks would prove nothing.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.cluster import cluster
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import Tenant, tenant_of
from tests.cluster.engines_double import SLOTS
from tests.cluster.headway import Headway, Role, installed
from tests.cluster.keda_reports import KedaReports, with_labels
from tests.cluster.processes import until
from tests.cluster.queue_double import QueueDouble
from tests.cluster.workloads import deployment, scaled_object

WORKLOADS = 100
POLLED_S = 2  # KEDA's polling interval here
LOOKS = 3 * WORKLOADS  # each is looked at several times


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of these tests' own, whose KEDA may be restarted."""
    with cluster.running(tmp_path_factory.mktemp("zero"), nodes=1) as started:
        yield started


@dataclass
class Sleepers:
    """A hundred queue workers at zero, and their queues."""

    tenant: Tenant
    headway: Headway
    queues: list[QueueDouble]
    scaler: Role = field(init=False)

    def _deployments(self) -> list[dict[str, Any]]:
        return self.tenant.cluster.objects.items(f"/apis/apps/v1/namespaces/{self.tenant.namespace}/deployments")

    def awake(self) -> frozenset[str]:
        """Return the Deployments that are told to have replicas."""
        return frozenset(it["metadata"]["name"] for it in self._deployments() if it["spec"]["replicas"])

    def start(self) -> None:
        """Start two controllers and a scaler, and wait until they listen."""
        self.headway.controller()
        self.headway.controller()
        self.scaler = self.headway.scaler()

    def decided(self) -> bool:
        """Whether a controller knows each workload, and each one's replicas."""
        found = self.headway.plan(query=f"?limit={WORKLOADS}")["workloads"]
        return [each["target"] for each in found] == [0] * WORKLOADS

    @contextmanager
    def asleep(self) -> Iterator[None]:
        """Hold that no Deployment is told anything, whatever is done meanwhile."""
        before = self._generations()
        yield
        now = self._generations()
        assert now == before, {name: it for name, it in now.items() if it != before[name]}

    def _generations(self) -> dict[str, int]:
        return {it["metadata"]["name"]: it["metadata"]["generation"] for it in self._deployments()}

    def looked_at(self) -> None:
        """Wait until the scaler has told KEDA several times of each that it has no work, on open streams besides."""
        before = self._answers()
        until(lambda: self._answers() >= before + LOOKS, f"{LOOKS} answers of IsActive")
        until(lambda: self._open_streams() == WORKLOADS, "a stream for each")

    def _answers(self) -> float:
        return self._counted("headway_scaler_rpcs_total", rpc="IsActive", code="OK")

    def _open_streams(self) -> float:
        return self._counted("headway_scaler_open_streams", rpc="StreamIsActive")

    def _counted(self, name: str, **labels: str) -> float:
        return sum(each.value for each in with_labels(self.headway.metrics(self.scaler), name, **labels))

    def looked_at_in_vain(self) -> None:
        """Wait until KEDA has looked several times at each without an answer."""
        reports = KedaReports(self.tenant.cluster.keda)
        before = reports.failed_polls(self.tenant.namespace)
        until(lambda: reports.failed_polls(self.tenant.namespace) >= before + LOOKS, f"{LOOKS} looks that failed")

    def one_wakes(self, number: int) -> None:
        """Hold that they could have: the one that gets work wakes, and no other."""
        self.queues[number].load_for(1)
        until(lambda: self.awake() == {f"w-{number}"}, "the one with work to wake")
        self.queues[number].load_for(0)
        until(lambda: self.awake() == frozenset(), "it to sleep again")


class Consumers:
    """How many ready replicas each Deployment has, asked for all at once, for all queues of one scrape."""

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self._ready: dict[str, int] = {}

    def look(self) -> str:
        """Look anew; exposes nothing."""
        path = f"/apis/apps/v1/namespaces/{self._tenant.namespace}/deployments"
        found = self._tenant.cluster.objects.items(path)
        self._ready = {it["metadata"]["name"]: it["status"].get("readyReplicas", 0) for it in found}
        return ""

    def of(self, name: str) -> Callable[[], int]:
        """Return what tells the number of one."""
        return lambda: self._ready.get(name, 0)


@pytest.fixture(scope="module")
def sleepers(own: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sleepers]:
    """Run a Headway for them; they are all known, and at zero."""
    tenant, names = tenant_of(own, "restart_at_zero"), [f"w-{number}" for number in range(WORKLOADS)]
    consumers = Consumers(tenant)
    queues = [QueueDouble(name, consumers.of(name)) for name in names]
    for lines in (consumers.look, *(queue.exposition for queue in queues)):
        tenant.engines.also(lines)
    granted = [
        {"name": name, "namespaces": [tenant.namespace], "queue": {"queue": name, "prefetch": SLOTS}} for name in names
    ]
    with installed(
        own,
        tmp_path_factory.mktemp("headway"),
        tenant.engines,
        namespace=tenant.headway,
        watches=(tenant.namespace,),
        sources=granted,
    ) as headway:
        everyone = Sleepers(tenant, headway, queues)
        everyone.start()
        for name in names:
            own.objects.apply(deployment(tenant.namespace, name, replicas=0), _worker(tenant, headway, name))
        until(everyone.decided, "a decision on each workload")
        everyone.one_wakes(0)
        yield everyone


def _worker(tenant: Tenant, headway: Headway, name: str) -> dict[str, Any]:
    whole = scaled_object(tenant.namespace, name, headway.address, least=0, engine="rabbitmq", source=name)
    whole["spec"]["pollingInterval"] = POLLED_S
    return whole


def test_none_wakes_when_headway_is_restarted(sleepers: Sleepers) -> None:
    """Controllers and scaler are killed and started again, with nothing but the stored plan to remember."""
    with sleepers.asleep():
        sleepers.headway.stop()
        sleepers.looked_at_in_vain()
        sleepers.start()
        sleepers.looked_at()
        until(sleepers.decided, "a decision on each workload")
        sleepers.looked_at()
    sleepers.one_wakes(1)


def test_none_wakes_when_headway_is_restarted_blind(sleepers: Sleepers) -> None:
    """They are started while there is no Prometheus: nothing is known of any queue, which is no work."""
    with sleepers.asleep():
        sleepers.headway.stop()
        sleepers.headway.prometheus.kill()
        sleepers.start()
        sleepers.looked_at()
        sleepers.headway.prometheus.start()
        until(sleepers.decided, "a decision on each workload")
        sleepers.looked_at()
    sleepers.one_wakes(2)


def test_none_wakes_when_keda_is_restarted(sleepers: Sleepers) -> None:
    """KEDA's operator is killed and started again: it asks about each of them anew."""
    with sleepers.asleep():
        sleepers.tenant.cluster.keda.operator.kill()
        sleepers.tenant.cluster.keda.operator.start()
        sleepers.looked_at()
    sleepers.one_wakes(3)
