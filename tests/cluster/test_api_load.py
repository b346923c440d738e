"""What Headway costs the API server while nothing happens: 500 workloads with steady load, under production's periods.

KEDA's operator and the HPA's controller are stopped meanwhile: at the periods of these tests, 500 ScaledObjects and
HPAs looked after every second would be measured, and not Headway. Each ScaledObject has the HPA that KEDA makes of it.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import cluster
from tests.cluster.audit import WRITES, Audit, Call, table
from tests.cluster.cluster import Cluster
from tests.cluster.engines_double import EnginesDouble, series
from tests.cluster.headway import Headway, installed
from tests.cluster.processes import until
from tests.cluster.watching import samples, stays
from tests.cluster.workloads import deployment, scaled_object

NAMESPACE = "many"
OWNER = "scaledobject.keda.sh/name"
WORKLOADS = 500
STEADY_S = 180
MOST_WRITES_A_MINUTE = 5
PRODUCTION: dict[str, Any] = {
    "controller": {"httpAddress": "127.0.0.1:0", "adminAddress": "127.0.0.1:0"},  # a tick of 15 s, a heartbeat of 60 s
    "decision": {},
}
LEASE = {"duration": "15s", "renewDeadline": "10s", "retryPeriod": "2s"}


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster with 500 Deployments of one pod each; nobody reads ScaledObjects yet."""
    with cluster.running(tmp_path_factory.mktemp("quiet")) as started:
        started.keda.operator.stop()
        started.objects.namespace(NAMESPACE)
        for number in range(WORKLOADS):
            started.objects.apply(deployment(NAMESPACE, f"w-{number}", gpus=0))
        yield started


def test_a_steady_state_costs_no_lists_and_hardly_a_write(
    quiet: Cluster, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Two controllers and a scaler, three minutes: no list at all, fewer than 5 writes a minute but the Lease's.

    That the log does hold lists and writes by these users is seen from their beginning, before the three minutes.
    """
    engines = EnginesDouble(quiet.objects)
    with installed(quiet, tmp_path, engines, watches=(NAMESPACE,), **PRODUCTION) as headway:
        headway.configuration["leadership"]["lease"] |= LEASE
        whole = Audit(quiet.plane.audit_log)
        roles = [headway.controller(), headway.controller(), headway.scaler()]
        for number in range(WORKLOADS):
            quiet.objects.apply(scaled_object(NAMESPACE, f"w-{number}", headway.address))
        _expose(engines, _pods(quiet))
        _only_keep_hpas(quiet)
        until(lambda: _decided(headway) == WORKLOADS, "a decision on each workload", within_s=120, every_s=1)
        _quiet(headway)
        steady = Audit(quiet.plane.audit_log)
        stays(lambda: all(role.program.alive for role in roles), value=True, for_s=STEADY_S)
        users = {f"system:serviceaccount:headway:headway-{role}" for role in ("controller", "scaler")}
        calls = steady.calls(users)
        print(f"\n{WORKLOADS} workloads, {STEADY_S} s:\n{table(calls)}")  # noqa: T201  # the closing figures
        lists, writes, renewals = _lists(calls), _writes(calls), len(_of_leases(calls))
        for name, number in {"lists": lists, "writes": writes, "lease_writes": renewals}.items():
            record_property(f"{name}_in_{STEADY_S}_s", number)
        assert lists == 0
        assert writes < MOST_WRITES_A_MINUTE * STEADY_S / 60
        assert renewals > STEADY_S / 10  # one every two seconds by the leader: the log was written to the end
        assert _lists(whole.calls(users)) > 0
        assert _decided(headway) == WORKLOADS
        assert steady.refused(users) == []


def _pods(quiet: Cluster) -> list[str]:
    def ready() -> list[str]:
        pods = quiet.objects.items(f"/api/v1/namespaces/{NAMESPACE}/pods")
        return [pod["metadata"]["name"] for pod in pods if pod["status"].get("phase") == "Running"]

    found = until(
        lambda: names if len(names := ready()) == WORKLOADS else [], "500 ready pods", within_s=180, every_s=2
    )
    return list(found)


def _only_keep_hpas(quiet: Cluster) -> None:
    """Stop who moves Deployments by HPAs, and add the HPAs that KEDA would have made."""
    quiet.plane.controllers.stop()
    for scaled in quiet.objects.items(f"/apis/keda.sh/v1alpha1/namespaces/{NAMESPACE}/scaledobjects"):
        quiet.objects.apply(_hpa(scaled))


def _hpa(scaled: dict[str, Any]) -> dict[str, Any]:
    """Return what KEDA makes of a ScaledObject."""
    name, spec = scaled["metadata"]["name"], scaled["spec"]
    known = {"apiVersion": scaled["apiVersion"], "kind": scaled["kind"], "name": name, "uid": scaled["metadata"]["uid"]}
    metric = {"name": "s0-headway-replicas", "selector": {"matchLabels": {OWNER: name}}}
    external = {"metric": metric, "target": {"type": "AverageValue", "averageValue": "1"}}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {
            "name": f"keda-hpa-{name}",
            "namespace": NAMESPACE,
            "labels": {OWNER: name},
            "ownerReferences": [{**known, "controller": True, "blockOwnerDeletion": True}],
        },
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": spec["minReplicaCount"],
            "maxReplicas": spec["maxReplicaCount"],
            "metrics": [{"type": "External", "external": external}],
            "behavior": spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"],
        },
    }


def _expose(engines: EnginesDouble, pods: list[str]) -> None:
    """Give every pod the same steady load: ten requests run, none waits."""
    began_s = time.perf_counter()

    def lines() -> str:
        done = 2.0 * (time.perf_counter() - began_s)
        labels = (f'namespace="{NAMESPACE}",pod="{pod}",model_name="m"' for pod in pods)
        return "\n".join(line for each in labels for line in series(each, 10, 0, done))

    engines.also(lines)


def _decided(headway: Headway) -> int:
    """Return of how many workloads something was seen and decided."""
    found = headway.plan(query=f"?limit={WORKLOADS}")["workloads"]
    return sum(each["demand"] is not None for each in found)


def _quiet(headway: Headway) -> None:
    """Let three more ticks go by, after which only what changes is written."""
    seen = samples(lambda: headway.plan()["at"], lambda: False, within_s=50)
    assert len(set(seen)) > 3


def _lists(calls: list[Call]) -> int:
    return sum(call.verb == "list" for call in calls)


def _writes(calls: list[Call]) -> int:
    """Count writes, whether they succeeded or not, but for those of Leases."""
    return sum(call.verb in WRITES and call.resource != "leases" for call in calls)


def _of_leases(calls: list[Call]) -> list[Call]:
    return [call for call in calls if call.resource == "leases" and call.verb in WRITES]
