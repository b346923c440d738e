"""What Headway depends on goes away under load, and comes back: Prometheus, the API server, etcd."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import cluster
from tests.cluster.chat import Chat, chatting
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import Tenant, tenant_of
from tests.cluster.headway import DECISION
from tests.cluster.keda_reports import KedaReports
from tests.cluster.processes import until
from tests.cluster.watching import samples, stays, unchanged

AWAY_S = 8  # longer than the Lease of these tests


def test_without_prometheus_replicas_hold_and_keda_falls_back(tenant: Tenant, tmp_path: Path) -> None:
    """Nothing moves, neither while Headway's evidence ages nor when it answers with an error and KEDA's fallback acts.

    The fallback is the documented one, `currentReplicasIfHigher`: it keeps what is there. Then a load is followed.
    """
    reports = KedaReports(tenant.cluster.keda)
    with chatting(tenant, tmp_path, replicas=5, parts={"decision": {**DECISION, "evidenceTtl": "15s"}}) as chat:
        chat.settles()
        failed = reports.failed_polls(tenant.namespace)
        with unchanged(chat.replicas, 5):
            chat.headway.prometheus.kill()
            until(lambda: reports.failed_polls(tenant.namespace) > failed, "an answer that is an error")
            until(lambda: _falls_back(chat), "KEDA's fallback")
            stays(chat.replicas, 5, for_s=5)
            chat.headway.prometheus.start()
            until(lambda: not _falls_back(chat), "KEDA's fallback to end")
        chat.load_for(7)
        chat.reaches(7)


def _falls_back(chat: Chat) -> bool:
    """Whether KEDA says that the fallback is in force, and that the metric has failed often enough."""
    path = f"/apis/keda.sh/v1alpha1/namespaces/{chat.tenant.namespace}/scaledobjects/chat"
    found = chat.tenant.cluster.objects.get(path)
    assert found is not None
    health = found["status"].get("health", {}).values()
    failing = any(each["numberOfFailures"] > found["spec"]["fallback"]["failureThreshold"] for each in health)
    conditions = found["status"]["conditions"]
    return failing and any(each["type"] == "Fallback" and each["status"] == "True" for each in conditions)


@pytest.fixture(scope="module")
def fragile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster whose parts may be killed."""
    with cluster.running(tmp_path_factory.mktemp("fragile"), nodes=2) as started:
        yield started


# A server that is being killed resets connections before their TLS handshakes, and Python 3.11 (`SSLSocket._create`)
# leaves the sockets of such open until they are collected.
@pytest.mark.filterwarnings("ignore:unclosed <ssl.SSLSocket:ResourceWarning")
@pytest.mark.parametrize("part", ["kube-apiserver", "etcd"])
def test_a_part_of_the_control_plane_is_restarted_under_load(fragile: Cluster, tmp_path: Path, part: str) -> None:
    """It is away for longer than the Lease, and the load changes meanwhile: nothing drops, then it is followed."""
    tenant = tenant_of(fragile, f"restart-{part}")
    with chatting(tenant, tmp_path, replicas=3) as chat:
        program = next(each for each in fragile.programs.started if each.name == part)
        program.kill()
        chat.load_for(5)
        stays(lambda: all(role.program.alive for role in chat.headway.roles), value=True, for_s=AWAY_S)
        program.start()
        restarted = [each.name for each in fragile.programs.started if not each.alive]
        for each in fragile.programs.started:
            if not each.alive:  # as a kubelet would
                each.start()
        assert not any(name.startswith(tenant.headway) for name in restarted), restarted
        seen = samples(chat.replicas, lambda: chat.replicas() == 5, within_s=60)
        assert min(seen) >= 3
        chat.reaches(5)
        assert chat.headway.plan()["leader"]
        chat.load_for(2)
        chat.reaches(2)
    gc.collect()  # such sockets now, and not in the middle of another test
