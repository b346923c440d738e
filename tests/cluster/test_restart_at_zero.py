"""A hundred workloads at zero, and everything that decides about them restarted: none wakes, unless there is work."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.cluster import cluster
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import Tenant, tenant_of
from tests.cluster.engines_double import SLOTS
from tests.cluster.headway import Headway, installed
from tests.cluster.processes import until
from tests.cluster.queue_double import QueueDouble
from tests.cluster.watching import stays
from tests.cluster.workloads import deployment, scaled_object

WORKLOADS = 100
POLLED_S = 2  # KEDA's polling interval here
WATCHED_S = 8  # several polls of each workload


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

    def awake(self) -> frozenset[str]:
        """Return the Deployments that are told to have replicas."""
        path = f"/apis/apps/v1/namespaces/{self.tenant.namespace}/deployments"
        found = self.tenant.cluster.objects.items(path)
        return frozenset(it["metadata"]["name"] for it in found if it["spec"]["replicas"])

    def start(self) -> None:
        """Start two controllers and a scaler, and wait until there is an answer for each workload."""
        self.headway.controller()
        self.headway.controller()
        self.headway.scaler()

    def decided(self) -> bool:
        """Whether a controller knows each workload, and each one's replicas."""
        found = self.headway.plan(query=f"?limit={WORKLOADS}")["workloads"]
        return [each["target"] for each in found] == [0] * WORKLOADS

    def sleep_on(self) -> None:
        """Hold that none wakes while each is polled several times."""
        stays(self.awake, frozenset[str](), for_s=WATCHED_S)

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
    """Controllers and scaler are killed and started again."""
    sleepers.headway.stop()
    sleepers.sleep_on()
    sleepers.start()
    sleepers.sleep_on()
    until(sleepers.decided, "a decision on each workload")
    sleepers.one_wakes(1)


def test_none_wakes_when_headway_is_restarted_blind(sleepers: Sleepers) -> None:
    """They are started while there is no Prometheus: nothing is known of any queue, which is no work."""
    sleepers.headway.stop()
    sleepers.headway.prometheus.kill()
    sleepers.start()
    sleepers.sleep_on()
    sleepers.headway.prometheus.start()
    until(sleepers.decided, "a decision on each workload")
    sleepers.sleep_on()
    sleepers.one_wakes(2)


def test_none_wakes_when_keda_is_restarted(sleepers: Sleepers) -> None:
    """KEDA's operator is killed and started again: it asks about each of them anew."""
    sleepers.tenant.cluster.keda.operator.kill()
    sleepers.tenant.cluster.keda.operator.start()
    sleepers.sleep_on()
    sleepers.one_wakes(3)
