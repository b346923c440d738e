"""Scalers that go and come while KEDA asks: their name has several addresses, as a headless Service has."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from external_scaler_proto.externalscaler_pb2 import GetMetricsRequest, ScaledObjectRef
from external_scaler_proto.externalscaler_pb2_grpc import ExternalScalerStub
from tests.cluster.conftest import Tenant
from tests.cluster.dns import Records, serving
from tests.cluster.headway import SETTLED_S, Headway, Role, installed
from tests.cluster.keda_reports import KedaReports, hpa_active, with_labels
from tests.cluster.processes import free_port, until
from tests.cluster.watching import lasts, stays, unchanged
from tests.cluster.workloads import deployment, scaled_object

_NAME = "headway.test"
_FIRST, _SECOND, _THIRD, _FOURTH = _HOSTS = ("127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4")
_WORKLOADS = ("chat", "code")


@dataclass
class Fleet:
    """Two workloads, and scalers of one name at addresses of their own."""

    tenant: Tenant
    headway: Headway
    records: Records
    port: int
    scalers: dict[str, Role] = field(default_factory=dict)  # by address

    @property
    def reports(self) -> KedaReports:
        """What KEDA says of its calls."""
        return KedaReports(self.tenant.cluster.keda)

    def start(self, host: str) -> None:
        """Start a scaler at an address that no name has yet."""
        self.scalers[host] = self.headway.scaler(f"{host}:{self.port}")

    def named(self, *hosts: str) -> None:
        """Let the name have these addresses."""
        self.records.set(_NAME, hosts)

    def stop(self, host: str) -> None:
        """Ask a scaler to end, and wait for its end."""
        self.scalers[host].program.stop()

    def kill(self, *hosts: str) -> None:
        """End scalers as a crash would."""
        for host in hosts:
            self.scalers[host].program.kill()

    def replace(self, old: str, new: str, *others: str) -> None:
        """Do one step of a rolling update: the new one is ready and has the name before the old one is asked to end."""
        self.start(new)
        self.named(*others, old, new)
        self.named(*others, new)
        self.stop(old)

    def calls(self, host: str) -> float:
        """Return how many calls a scaler has answered."""
        exported = self.headway.metrics(self.scalers[host])
        return sum(each.value for each in with_labels(exported, "headway_scaler_rpcs_total", code="OK"))

    def answers(self, host: str) -> list[float]:
        """Ask one scaler for the replicas of each workload."""
        with grpc.insecure_channel(f"{host}:{self.port}") as channel:
            ask = ExternalScalerStub(channel).GetMetrics  # type: ignore[arg-type]  # the stubs know grpc.aio only
            answers: list[Any] = [ask(self._request(name), timeout=10) for name in _WORKLOADS]
            return [answer.metricValues[0].metricValueFloat for answer in answers]

    def _request(self, name: str) -> GetMetricsRequest:
        workload = ScaledObjectRef(name=name, namespace=self.tenant.namespace)
        return GetMetricsRequest(scaledObjectRef=workload, metricName="headway-replicas")

    def asked_for_name(self) -> int:
        """Return how often the addresses of the name were asked for."""
        return self.records.asked(_NAME)

    def load_for(self, replicas: int) -> None:
        """Set the load that needs so many replicas of each workload."""
        for name in _WORKLOADS:
            self.tenant.engines.load_for(self.tenant.namespace, name, replicas)

    def replicas(self) -> tuple[int, int]:
        """Return how many replicas each Deployment is told to have."""
        where = self.tenant.cluster.deployments(self.tenant.namespace)
        chat, code = (where.replicas(name) for name in _WORKLOADS)
        return chat, code

    def reaches(self, replicas: int) -> None:
        """Wait until each Deployment has exactly so many replicas, all ready."""
        until(lambda: self.replicas() == self._ready() == (replicas, replicas), f"{replicas} ready replicas of each")

    def settles(self, replicas: int) -> None:
        """Wait until so many have been recommended, and told, for longer than the rates of new pods need to be true."""
        lasts(lambda: (self._targets(), self.replicas()), ((replicas,) * 2,) * 2, for_s=SETTLED_S)

    def _targets(self) -> tuple[int, ...]:
        found = (self.headway.recommendation(self.tenant.namespace, name) for name in _WORKLOADS)
        return tuple(each["target"] for each in found if each is not None)

    def _ready(self) -> tuple[int, ...]:
        where = self.tenant.cluster.deployments(self.tenant.namespace)
        return tuple(where.ready(name) for name in _WORKLOADS)

    def hpas_active(self) -> bool:
        """Whether each HPA gets its metric."""
        return all(hpa_active(self.tenant.cluster.objects, self.tenant.namespace, name) for name in _WORKLOADS)

    def failed(self) -> float:
        """Return how many looks at the workloads have failed so far."""
        return self.reports.failed_polls(self.tenant.namespace)

    def hears(self, answers: int) -> None:
        """Wait until KEDA has got so many metrics more."""
        before = self.answered()
        until(lambda: self.answered() >= before + answers, f"{answers} more answers")

    def answered(self) -> float:
        """Return how many metrics KEDA has got so far."""
        return self.reports.answered(self.tenant.namespace)


@contextmanager
def fleet(tenant: Tenant, folder: Path, *hosts: str) -> Iterator[Fleet]:
    """Run a controller and a scaler at each of these addresses, and the workloads that they scale."""
    records, port = Records(), free_port(_HOSTS)
    with ExitStack() as stack:
        name_server = stack.enter_context(serving(records))
        headway = stack.enter_context(
            installed(
                tenant.cluster,
                folder,
                tenant.engines,
                namespace=tenant.headway,
                watches=(tenant.namespace,),
                address=f"dns://127.0.0.1:{name_server}/{_NAME}:{port}",
            )
        )
        headway.controller()
        made = Fleet(tenant, headway, records, port)
        for host in hosts:
            made.start(host)
        made.named(*hosts)
        for name in _WORKLOADS:
            tenant.cluster.objects.apply(
                deployment(tenant.namespace, name), scaled_object(tenant.namespace, name, headway.address)
            )
        made.load_for(3)
        made.reaches(3)
        until(made.hpas_active, "active HPAs")
        made.settles(3)
        yield made


@contextmanager
def _nothing_shows(running: Fleet) -> Iterator[None]:
    """Hold that whatever is done leaves each HPA active, and that KEDA counts no look at a workload that failed."""
    failed = running.failed()
    with unchanged(running.hpas_active, True):
        yield
    assert running.failed() == failed, running.reports.unanswered(running.tenant.namespace)


def test_scalers_share_the_calls_and_give_one_answer(tenant: Tenant, tmp_path: Path) -> None:
    """KEDA's round_robin is real: of two scalers each gets about half of the calls, and both answer the same."""
    with fleet(tenant, tmp_path, _FIRST, _SECOND) as running:
        before = [running.calls(host) for host in (_FIRST, _SECOND)]
        running.hears(20)
        first, second = (running.calls(host) - was for host, was in zip((_FIRST, _SECOND), before, strict=True))
        assert min(first, second) > 0.4 * (first + second), (first, second)
        assert running.answers(_FIRST) == running.answers(_SECOND) == [3, 3]


def test_replicas_hold_without_any_scaler_and_follow_once_it_is_back(
    tenant: Tenant, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """All scalers are killed under load: replicas stay exactly as they are, whatever the load does, and then follow.

    KEDA 2.21 connects anew at each look once all have failed, so its client's back-off of up to 120 s does not show.
    """
    with fleet(tenant, tmp_path, _FIRST, _SECOND) as running:
        failed = running.failed()
        running.kill(_FIRST, _SECOND)
        running.load_for(5)
        stays(running.replicas, (3, 3), for_s=8)
        assert running.failed() > failed + 4
        running.start(_SECOND)
        began_s = time.perf_counter()
        running.hears(1)
        waited_s = time.perf_counter() - began_s
        record_property("answered_after_s", f"{waited_s:.1f}")
        running.reaches(5)


def test_a_killed_scaler_costs_no_answer(tenant: Tenant, tmp_path: Path) -> None:
    """One of two scalers is killed: KEDA asks the other, in the same look."""
    with fleet(tenant, tmp_path, _FIRST, _SECOND) as running, _nothing_shows(running):
        running.kill(_FIRST)
        running.hears(10)
        running.load_for(5)
        running.reaches(5)


def test_a_rolling_update_costs_no_answer(tenant: Tenant, tmp_path: Path) -> None:
    """All scalers are replaced, a step at a time, and KEDA never lacks an answer.

    grpc-go resolves a name anew when a connection ends, and at most once in 30 s: a step follows once it has, for which
    a Deployment has `minReadySeconds`.
    """
    with fleet(tenant, tmp_path, _FIRST, _SECOND) as running, _nothing_shows(running):
        asked = running.asked_for_name()
        with unchanged(running.replicas, (3, 3)):
            running.replace(_FIRST, _THIRD, _SECOND)
            until(lambda: running.asked_for_name() > asked, "KEDA to ask for the addresses again")
            running.replace(_SECOND, _FOURTH, _THIRD)
            running.hears(10)
        running.load_for(5)
        running.reaches(5)


def test_a_hurried_update_moves_nothing(tenant: Tenant, tmp_path: Path) -> None:
    """All scalers are replaced before KEDA can know of the new ones: it may lack an answer, but replicas hold."""
    with fleet(tenant, tmp_path, _FIRST, _SECOND) as running:
        with unchanged(running.replicas, (3, 3)):
            running.replace(_FIRST, _THIRD, _SECOND)
            running.replace(_SECOND, _FOURTH, _THIRD)
            running.hears(10)
        until(running.hpas_active, "active HPAs")
        running.load_for(5)
        running.reaches(5)
