"""What Headway costs the API server while nothing happens: 500 workloads with steady load, under production's periods.

KEDA's operator is stopped meanwhile: 500 ScaledObjects polled from one machine would only slow the measurement down,
and what Headway asks of the API server does not depend on it.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import cluster
from tests.cluster.audit import WRITES, Audit, Call, table
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import tenant_of
from tests.cluster.engines_double import EnginesDouble, series
from tests.cluster.headway import Headway, installed
from tests.cluster.processes import until
from tests.cluster.watching import samples, stays
from tests.cluster.workloads import deployment, scaled_object

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
    """A cluster with 500 Deployments of one ready pod each, and a ScaledObject for each of them."""
    with cluster.running(tmp_path_factory.mktemp("quiet")) as started:
        started.keda.operator.stop()
        started.objects.namespace("many")
        for number in range(WORKLOADS):
            started.objects.apply(deployment("many", f"w-{number}", gpus=0))
        yield started


def test_a_steady_state_costs_no_lists_and_hardly_a_write(quiet: Cluster, tmp_path: Path) -> None:
    """Two controllers and a scaler, three minutes: no list at all, fewer than 5 writes a minute but the Lease's."""
    engines = tenant_of(quiet, "many").engines
    with installed(quiet, tmp_path, engines, watches=("many",), **PRODUCTION) as headway:
        headway.configuration["leadership"]["lease"] |= LEASE
        for number in range(WORKLOADS):
            quiet.objects.apply(scaled_object("many", f"w-{number}", headway.address))
        _expose(engines, _pods(quiet))
        roles = [headway.controller(), headway.controller(), headway.scaler()]
        until(lambda: _decided(headway) == WORKLOADS, "a decision on each workload", within_s=120)
        _quiet(headway)
        audit = Audit(quiet.plane.audit_log)
        stays(lambda: all(role.program.alive for role in roles), value=True, for_s=STEADY_S)
        calls = audit.calls({f"system:serviceaccount:headway:headway-{role}" for role in ("controller", "scaler")})
        print(f"\n{WORKLOADS} workloads, {STEADY_S} s:\n{table(calls)}")  # noqa: T201  # the closing figures
        writes = [call for call in calls if call.verb in WRITES and call.resource != "leases"]
        assert [call for call in calls if call.verb == "list"] == []
        assert len(writes) < MOST_WRITES_A_MINUTE * STEADY_S / 60
        assert _renewed(calls)  # the log does have what Headway writes


def _pods(quiet: Cluster) -> list[str]:
    def ready() -> list[str]:
        pods = quiet.objects.items("/api/v1/namespaces/many/pods")
        return [pod["metadata"]["name"] for pod in pods if pod["status"].get("phase") == "Running"]

    return until(lambda: names if len(names := ready()) == WORKLOADS else None, "500 ready pods", within_s=120) or []


def _expose(engines: EnginesDouble, pods: list[str]) -> None:
    """Give every pod the same steady load: ten requests run, none waits."""
    began_s = time.perf_counter()

    def lines() -> str:
        done = 2.0 * (time.perf_counter() - began_s)
        labels = (f'namespace="many",pod="{pod}",model_name="m"' for pod in pods)
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


def _renewed(calls: list[Call]) -> bool:
    return any(call.resource == "leases" and call.verb == "update" and call.status == 200 for call in calls)
