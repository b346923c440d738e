"""A whole cluster: control plane, KEDA, and nodes whose kubelets kwok plays."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster import control_plane, keda, kwok
from tests.cluster.control_plane import ControlPlane
from tests.cluster.keda import Keda
from tests.cluster.objects import Deployments, Objects
from tests.cluster.processes import Program, Programs, until


@dataclass(frozen=True)
class Cluster:
    """A cluster that runs."""

    folder: Path
    programs: Programs
    plane: ControlPlane
    objects: Objects
    kwok: Program
    keda: Keda

    def deployments(self, namespace: str) -> Deployments:
        """Return the Deployments of a namespace."""
        return Deployments(self.objects, namespace)


@contextmanager
def running(folder: Path, *, nodes: int = 8, feature_gates: Mapping[str, bool] | None = None) -> Iterator[Cluster]:
    """Start a cluster of `nodes` nodes with eight GPUs each, and end it in any case."""
    with Programs(folder) as started:
        plane = control_plane.start(folder, started, feature_gates)
        objects = Objects(plane.admin)
        simulated = kwok.start(plane)
        for number in range(nodes):
            add_node(objects, f"gpu-{number}", rack=f"rack-{number // 4}")
        cluster = Cluster(folder, started, plane, objects, simulated, keda.start(plane, objects))
        until(lambda: _ready_nodes(objects) == nodes, f"{nodes} ready nodes")
        yield cluster


def add_node(objects: Objects, name: str, **what: Any) -> None:
    """Add a node (see `kwok.gpu_node`); its resources are of its status, which a create ignores."""
    node = kwok.gpu_node(name, **what)
    objects.apply(node)
    objects.patch_status("Node", "v1", None, name, {"status": node["status"]})


def _ready_nodes(objects: Objects) -> int:
    conditions = [node.get("status", {}).get("conditions", []) for node in objects.items("/api/v1/nodes")]
    return sum(any(c["type"] == "Ready" and c["status"] == "True" for c in each) for each in conditions)
