"""kwok, which plays the kubelets: GPU nodes of any topology, and pods that become ready when a test wants it."""

from pathlib import Path
from typing import Any

from tests.cluster import programs
from tests.cluster.control_plane import ControlPlane, answers
from tests.cluster.processes import Program, free_port

READY_AFTER = "test.headway.dev/ready-after"  # of a pod or a node: a Go duration, such as 3s
GONE_AFTER = "test.headway.dev/gone-after"  # of a pod that is deleted
GPU_PRODUCT = "NVIDIA-H100-80GB-HBM3"
_STAGES = Path(__file__).with_name("stages.yaml")


def start(plane: ControlPlane) -> Program:
    """Start it for all nodes of the cluster: there are no others."""
    port = free_port()
    return plane.programs.start(
        "kwok",
        [
            programs.path("kwok"),
            f"--kubeconfig={plane.kubeconfig('kwok', 'system:masters')}",
            "--manage-all-nodes=true",
            f"--config={_STAGES}",
            f"--server-address=127.0.0.1:{port}",
            "--node-lease-duration-seconds=40",
        ],
        ready=answers(f"http://127.0.0.1:{port}/healthz"),
    )


def gpu_node(
    name: str,
    *,
    gpus: int = 8,
    zone: str = "zone-a",
    block: str = "block-1",
    rack: str = "rack-1",
    ready_after: str = "0s",
    **labels: str,
) -> dict[str, Any]:
    """Return a node as GPU feature discovery and a topology labeller would have labelled it."""
    resources = {"cpu": "96", "memory": "1Ti", "pods": "250", "nvidia.com/gpu": str(gpus)}
    known = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/zone": zone,
        "topology.kubernetes.io/region": "region-1",
        "cloud.google.com/gce-topology-block": block,
        "cloud.google.com/gce-topology-subblock": rack,
        "nvidia.com/gpu.product": GPU_PRODUCT,
        "nvidia.com/gpu.count": str(gpus),
        "nvidia.com/gpu.memory": "81559",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**known, **labels}, "annotations": {READY_AFTER: ready_after}},
        "status": {"allocatable": resources, "capacity": resources},
    }
