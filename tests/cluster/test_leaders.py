"""Two controllers, of which one leads: what KEDA and the Deployments notice when the leader dies, or only seems to.

The Lease has production's times (15 s, 10 s, 2 s).
"""

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import yaml

from external_scaler_proto.externalscaler_pb2 import GetMetricsRequest, ScaledObjectRef
from external_scaler_proto.externalscaler_pb2_grpc import ExternalScalerStub
from scaler.adapters.kubernetes.plan_maps import head_of
from tests.cluster.audit import Audit
from tests.cluster.chat import Chat
from tests.cluster.conftest import Tenant
from tests.cluster.headway import SETTLED_S, Headway, Role, installed
from tests.cluster.keda_reports import KedaReports, hpa_active
from tests.cluster.processes import until
from tests.cluster.relay import Relay, relaying
from tests.cluster.watching import lasts, sampled, stays, unchanged
from tests.cluster.workloads import deployment, scaled_object

LEASE = {"duration": "15s", "renewDeadline": "10s", "retryPeriod": "2s"}
TAKEN_OVER_S = 30.0
LEASE_NAME = "headway-controller"
INDEX = "headway-plan"  # the ConfigMap that says which plan is in force
Version = tuple[int, int]  # epoch, sequence


@dataclass
class Pair:
    """A workload of three replicas, a scaler, and two controllers; the first one leads at the start."""

    chat: Chat
    leader: Role
    standby: Role

    @property
    def headway(self) -> Headway:
        """What they are of."""
        return self.chat.headway

    def version(self) -> Version:
        """Return the version of the plan that is stored."""
        path = f"/api/v1/namespaces/{self.headway.namespace}/configmaps/{INDEX}"
        index = head_of(self.chat.tenant.cluster.objects.get(path), INDEX).index
        assert index is not None
        return index.version.epoch, index.version.sequence

    def stand(self) -> tuple[int, float]:
        """Return how many replicas the Deployment is told to have, and what a scaler answers KEDA."""
        return self.chat.replicas(), _answer(self.headway.address, self.chat.tenant.namespace, "chat")

    def refused(self, audit: Audit) -> int:
        """Return how many writes of a controller the API server has refused, because the index had changed since."""
        calls = audit.calls({f"system:serviceaccount:{self.headway.namespace}:headway-controller"})
        return sum((call.verb, call.name, call.status) == ("update", INDEX, 409) for call in calls)

    def taken_over_s(self, epoch: int) -> float:
        """Wait until a plan of a later epoch is stored; return how long that took, in seconds."""
        began_s = time.perf_counter()
        until(lambda: self.version()[0] > epoch, f"a plan of an epoch above {epoch}", within_s=90)
        return time.perf_counter() - began_s

    def leads(self, role: Role) -> bool:
        """Whether a controller takes itself for the leader."""
        return bool(self.headway.plan(role)["leader"])

    def targets(self) -> list[int | None]:
        """Return what each controller recommends, whoever leads."""
        return [each["target"] for role in (self.leader, self.standby) for each in self.headway.plan(role)["workloads"]]

    def settles(self) -> None:
        """Wait until both have recommended three for longer than the rates of new pods need to be true."""
        lasts(lambda: (*self.targets(), self.chat.replicas()), (3, 3, 3), for_s=SETTLED_S)

    def decides(self, replicas: int) -> None:
        """Hold that whoever leads now really decides: the Deployment follows another load."""
        self.chat.load_for(replicas)
        self.chat.reaches(replicas)


@contextmanager
def pair(tenant: Tenant, folder: Path, through: Relay | None = None) -> Iterator[Pair]:
    """Start them; the first controller reaches the API server through a relay, where one is given."""
    with installed(
        tenant.cluster, folder, tenant.engines, namespace=tenant.headway, watches=(tenant.namespace,)
    ) as headway:
        headway.configuration["leadership"]["lease"] |= LEASE
        chat = Chat(tenant, headway)
        chat.load_for(3)
        direct = headway.kubeconfigs["controller"]
        if through is not None:
            headway.kubeconfigs["controller"] = _through(direct, through)
        first = headway.controller()
        until(lambda: headway.plan(first)["leader"], "the first controller to lead")
        headway.kubeconfigs["controller"] = direct
        second = headway.controller()
        headway.scaler()
        tenant.cluster.objects.apply(
            deployment(tenant.namespace, "chat", replicas=3), scaled_object(tenant.namespace, "chat", headway.address)
        )
        chat.reaches(3)
        until(lambda: hpa_active(tenant.cluster.objects, tenant.namespace, "chat"), "the HPA to have its metric")
        made = Pair(chat, first, second)
        made.settles()
        yield made


def _through(kubeconfig: Path, relay: Relay) -> Path:
    """Write a kubeconfig that reaches the same server by way of a relay."""
    document = yaml.safe_load(kubeconfig.read_text())
    cluster = document["clusters"][0]["cluster"]
    relay.to_port = int(cluster["server"].rpartition(":")[2])
    cluster["server"] = f"https://127.0.0.1:{relay.port}"
    relayed = kubeconfig.with_suffix(".relayed")
    relayed.write_text(yaml.safe_dump(document))
    return relayed


def _signal(role: Role, which: signal.Signals) -> None:
    assert role.program.process is not None
    role.program.process.send_signal(which)


def _answer(address: str, namespace: str, name: str) -> float:
    """Ask a scaler for a workload's replicas, as KEDA does."""
    workload = ScaledObjectRef(name=name, namespace=namespace)
    with grpc.insecure_channel(address) as channel:
        ask = ExternalScalerStub(channel).GetMetrics  # type: ignore[arg-type]  # the stubs know grpc.aio only
        told: Any = ask(GetMetricsRequest(scaledObjectRef=workload, metricName="headway-replicas"), timeout=10)
    return float(told.metricValues[0].metricValueFloat)


def _never_back(versions: list[Version]) -> None:
    assert versions == sorted(versions), "the stored plan went back to an older version"


def test_a_leader_that_is_killed_is_replaced_within_half_a_minute(tenant: Tenant, tmp_path: Path) -> None:
    """The standby publishes in a later epoch, no target drops meanwhile, and it decides from then on."""
    with pair(tenant, tmp_path) as two:
        epoch, _ = two.version()
        with unchanged(two.stand, (3, 3.0)):
            two.leader.program.kill()
            took_s = two.taken_over_s(epoch)
        print(f"\nkilled leader: the standby published after {took_s:.1f} s")  # noqa: T201  # for the closing figures
        assert took_s < TAKEN_OVER_S
        two.decides(5)


def test_a_leader_that_was_only_paused_publishes_no_more(tenant: Tenant, tmp_path: Path) -> None:
    """Its network stalls and it is stopped for longer than its Lease: what it had sent is refused when it arrives.

    Woken again it finds another leader, and publishes no more. It beats every 5 s and waits 10 s for an answer, so
    after 7 s a write of its plan is on the way; the API server's audit log tells what became of it.
    """
    with ExitStack() as stack:
        relay = stack.enter_context(relaying())
        two = stack.enter_context(pair(tenant, tmp_path, relay))
        versions = stack.enter_context(sampled(two.version))
        epoch, _ = two.version()
        with unchanged(two.stand, (3, 3.0)):
            relay.hold()
            began_s = time.perf_counter()
            stays(lambda: two.version()[0], epoch, for_s=7)
            _signal(two.leader, signal.SIGSTOP)
            two.taken_over_s(epoch)
            took_s = time.perf_counter() - began_s
            audit = Audit(tenant.cluster.plane.audit_log)
            relay.release()
            until(lambda: two.refused(audit), "the API server to refuse what the old leader had sent")
            _signal(two.leader, signal.SIGCONT)
            until(lambda: not two.leads(two.leader), "the old leader to know")
            stays(lambda: two.leads(two.standby), value=True, for_s=6)
        print(f"\npaused leader: the standby published after {took_s:.1f} s")  # noqa: T201
        assert took_s < TAKEN_OVER_S
        assert two.leader.program.alive
        two.leader.program.stop()
        two.decides(5)
    _never_back(versions)


def test_a_leader_that_is_cut_off_gives_up_before_another_takes_over(tenant: Tenant, tmp_path: Path) -> None:
    """Alive, without the API server alone: it stops leading by itself; when it is back it does not publish."""
    with ExitStack() as stack:
        relay = stack.enter_context(relaying())
        two = stack.enter_context(pair(tenant, tmp_path, relay))
        versions = stack.enter_context(sampled(two.version))
        epoch, _ = two.version()
        way, relay.to_port = relay.to_port, 0
        relay.cut()
        with unchanged(two.stand, (3, 3.0)), sampled(lambda: (two.leads(two.leader), two.leads(two.standby))) as both:
            took_s = two.taken_over_s(epoch)
            relay.to_port = way
            stays(lambda: two.version()[0] > epoch, value=True, for_s=6)
        print(f"\nleader that was cut off: the standby published after {took_s:.1f} s")  # noqa: T201
        assert took_s < TAKEN_OVER_S
        assert (True, True) not in both
        assert two.leader.program.alive
        two.leader.program.stop()
        two.decides(5)
    _never_back(versions)


def test_a_lease_that_somebody_deletes_does_no_harm(tenant: Tenant, tmp_path: Path) -> None:
    """There is one again, which counts from nothing: its leader goes above the epoch of the stored plan all the same.

    The epochs would be equal if it did not, so the wait for a later one is what fails then.
    """
    with pair(tenant, tmp_path) as two, sampled(two.version) as versions:
        objects, namespace = tenant.cluster.objects, two.headway.namespace
        epoch, _ = two.version()
        with unchanged(two.stand, (3, 3.0)):
            objects.delete("Lease", "coordination.k8s.io/v1", namespace, LEASE_NAME)
            took_s = two.taken_over_s(epoch)
            stays(lambda: two.version()[0] > epoch, value=True, for_s=5)  # two more renewals
            assert two.leads(two.leader) is not two.leads(two.standby)
        print(f"\ndeleted Lease: somebody published after {took_s:.1f} s")  # noqa: T201
        assert took_s < TAKEN_OVER_S
        two.decides(5)
    _never_back(versions)


def test_a_rolling_update_of_controllers_leaves_no_gap(tenant: Tenant, tmp_path: Path) -> None:
    """Each is replaced by a new one: KEDA gets every answer, the HPA its metric, the Deployment keeps its replicas."""
    with pair(tenant, tmp_path) as two, sampled(two.version) as versions:
        objects, namespace = tenant.cluster.objects, tenant.namespace
        reports = KedaReports(tenant.cluster.keda)
        epoch, _ = two.version()
        failed = reports.failed_polls(namespace)
        with unchanged(two.stand, (3, 3.0)), unchanged(lambda: hpa_active(objects, namespace, "chat"), value=True):
            for old in (two.standby, two.leader):
                new = two.headway.controller()
                until(lambda: two.headway.plan(new)["workloads"], "the new controller to decide")  # noqa: B023  # at once
                old.program.stop()
            took_s = two.taken_over_s(epoch)
        print(f"\nrolling update: published {took_s:.1f} s after the leader's end")  # noqa: T201
        assert reports.failed_polls(namespace) == failed, reports.unanswered(namespace)
        two.decides(5)
    _never_back(versions)
