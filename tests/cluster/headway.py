"""Headway's real processes in a test cluster: service accounts with exactly the documented rights, and a Prometheus."""

import copy
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from scaler.report.announcement import Announcement
from tests.cluster.cluster import Cluster
from tests.cluster.control_plane import answers
from tests.cluster.engines_double import EnginesDouble, served
from tests.cluster.processes import Program, free_port
from tests.prometheus_process import PROMETHEUS

_ANY = "127.0.0.1:0"
# Seconds where production has minutes, in the same proportions, so that a test sees the end of each window.
RATE_WINDOW_S, SCRAPE_S = 5.0, 1.0
SETTLED_S = RATE_WINDOW_S + 2 * SCRAPE_S  # after which the rates of new pods are of a whole window
DECISION = {
    "hold": "2s",
    "rateWindow": f"{RATE_WINDOW_S:g}s",
    "staleAfter": "8s",
    "frozenAfter": "20s",
    "evidenceTtl": "60s",
    "rate": {"period": "1s"},
    "controlDelays": "3s",
}
LEASE = {"duration": "6s", "renewDeadline": "4s", "retryPeriod": "500ms"}


@dataclass
class Role:
    """A running `headway controller` or `headway scaler`."""

    program: Program
    announced: Path

    @property
    def addresses(self) -> dict[str, str]:
        """Where it listens."""
        return Announcement.model_validate_json(self.announced.read_text()).addresses


@dataclass
class Headway:
    """One installation: its namespace, its configuration, and what runs of it."""

    cluster: Cluster
    folder: Path
    namespace: str
    address: str  # how ScaledObjects name its scalers
    prometheus: Program
    configuration: dict[str, Any]
    kubeconfigs: dict[str, Path] = field(default_factory=dict)
    roles: list[Role] = field(default_factory=list)

    def controller(self, **changes: Any) -> Role:
        """Start a controller and wait until it listens."""
        return self._start("controller", changes)

    def scaler(self, grpc_address: str | None = None, **changes: Any) -> Role:
        """Start a scaler; without an address it listens where ScaledObjects look for it."""
        where = {"grpcAddress": grpc_address or self.address.rpartition("/")[2]}
        return self._start("scaler", {"scaler": {**self.configuration["scaler"], **where}, **changes})

    def _start(self, role: str, changes: Mapping[str, Any]) -> Role:
        number = len(self.roles)
        whole = {**copy.deepcopy(self.configuration), **changes}
        whole["cluster"]["kubernetes"]["kubeconfig"] = str(self.kubeconfigs[role])
        if role == "controller":
            whole["controller"]["checkpoint"] = f"checkpoint-{number}.json"
        config = self.folder / f"{role}-{number}.yaml"
        config.write_text(yaml.safe_dump(whole))
        announced = self.folder / f"{role}-{number}.json"
        command = [sys.executable, "-m", "scaler", role, "--config", str(config), "--json", str(announced)]
        name = f"{self.namespace}-{role}-{number}"
        program = self.cluster.programs.start(name, command, environment=_THREADS, ready=announced.exists)
        started = Role(program, announced)
        self.roles.append(started)
        return started

    def plan(self, role: Role | None = None, query: str = "") -> dict[str, Any]:
        """Return a controller's /plan: of the first that runs, unless told which."""
        chosen = role or next(r for r in self.roles if "admin" in r.addresses and r.program.alive)
        with urllib.request.urlopen(f"http://{chosen.addresses['admin']}/plan{query}", timeout=10) as answer:
            return dict(json.load(answer))

    def recommendation(self, namespace: str, name: str) -> dict[str, Any] | None:
        """Return what is recommended for a workload now, None while it is not in the plan."""
        found = [w for w in self.plan()["workloads"] if (w["namespace"], w["name"]) == (namespace, name)]
        return found[0] if found else None

    def metrics(self, role: Role) -> str:
        """Return what a role exports."""
        with urllib.request.urlopen(f"http://{role.addresses['http']}/metrics", timeout=10) as answer:
            return str(answer.read().decode())

    def stop(self) -> None:
        """End what runs of it."""
        for role in self.roles:
            role.program.kill()


_THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@contextmanager
def installed(
    cluster: Cluster,
    folder: Path,
    engines: EnginesDouble,
    *,
    namespace: str = "headway",
    watches: tuple[str, ...] = (),
    address: str | None = None,
    **parts: Any,
) -> Iterator[Headway]:
    """Install Headway: namespace, rights, a Prometheus that scrapes the engines, a configuration. Nothing runs yet."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        exposition = stack.enter_context(served(engines))
        prometheus, url = _start_prometheus(cluster, folder, namespace, exposition)
        stack.callback(prometheus.kill)
        where = address or f"127.0.0.1:{free_port()}"
        configuration = _configuration(namespace, watches, where, url) | parts
        headway = Headway(cluster, folder, namespace, where, prometheus, configuration)
        cluster.objects.namespace(namespace)
        _grant(headway)
        stack.callback(headway.stop)
        yield headway


def _start_prometheus(cluster: Cluster, folder: Path, namespace: str, target: str) -> tuple[Program, str]:
    """Start a Prometheus that scrapes an exposition every second; return it and its address."""
    assert PROMETHEUS is not None
    job = {"job_name": "engines", "honor_labels": True, "static_configs": [{"targets": [target]}]}
    whole = {
        "global": {"scrape_interval": f"{SCRAPE_S:g}s", "scrape_timeout": f"{SCRAPE_S:g}s"},
        "scrape_configs": [job],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(whole))
    address = f"127.0.0.1:{free_port()}"
    command = [
        PROMETHEUS,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}",
        "--log.level=warn",
    ]
    ready = answers(f"http://{address}/-/ready")
    name = f"{namespace}-prometheus"
    return cluster.programs.start(name, command, environment={"GOMAXPROCS": "1"}, ready=ready), f"http://{address}"


def _configuration(namespace: str, watches: tuple[str, ...], address: str, prometheus: str) -> dict[str, Any]:
    return {
        "controller": {"tick": "1s", "heartbeat": "5s", "httpAddress": _ANY, "adminAddress": _ANY},
        "scaler": {"httpAddress": _ANY, "planPoll": "200ms", "planTtl": "60s", "knownAs": [address]},
        "planStore": {"configMap": {"namespace": namespace, "shards": 2}},
        "leadership": {"lease": {"namespace": namespace, **LEASE}},
        "metrics": {"prometheus": {"url": prometheus}},
        "cluster": {"kubernetes": {"namespaces": list(watches)}},
        "decision": copy.deepcopy(DECISION),
        "events": True,
    }


def _grant(headway: Headway) -> None:
    """Create the service accounts with exactly what `headway rights` prints, and kubeconfigs of their tokens."""
    objects, config = headway.cluster.objects, headway.folder / "rights.yaml"
    config.write_text(yaml.safe_dump(headway.configuration))
    command = [sys.executable, "-m", "scaler", "rights", "--config", str(config), "--json", "-"]
    document = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    for watched in headway.configuration["cluster"]["kubernetes"]["namespaces"]:
        objects.namespace(watched)
    objects.apply(*document["items"])
    for role in ("controller", "scaler"):
        token = objects.token(headway.namespace, f"headway-{role}")
        name = f"{headway.namespace}-{role}"
        headway.kubeconfigs[role] = headway.cluster.plane.kubeconfig_with_token(name, token)
