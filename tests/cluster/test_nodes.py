"""Simulated GPU nodes: what fits on them runs, what does not waits for one, and Headway tells the two apart."""

from pathlib import Path
from typing import Any

from tests.cluster.chat import Chat, chatting
from tests.cluster.cluster import add_node
from tests.cluster.conftest import Tenant
from tests.cluster.kwok import GPU_PRODUCT
from tests.cluster.processes import until

POOL = "test.headway.dev/pool"


def test_replicas_wait_for_a_node_that_takes_its_time(tenant: Tenant, tmp_path: Path) -> None:
    """With one GPU in its pool a workload says that all but one of its replicas wait; then it gets what it needs."""
    objects, pool = tenant.cluster.objects, {POOL: tenant.namespace}
    add_node(objects, f"{tenant.namespace}-0", gpus=1, rack="rack-7", **pool)
    with chatting(tenant, tmp_path, on_nodes=pool) as chat:
        chat.load_for(3)
        until(lambda: 1 < chat.replicas() == _blocked(chat) + 1, "replicas without a node")
        assert f"waiting_for_capacity: {_blocked(chat)}" in _recommended(chat)["notes"]
        add_node(objects, f"{tenant.namespace}-1", gpus=8, rack="rack-7", ready_after="3s", **pool)
        chat.reaches(3)
        until(lambda: _recommended(chat)["notes"] == [], "nothing more to tell")


def test_nodes_have_gpus_and_a_place(tenant: Tenant) -> None:
    """What a node of the harness looks like: allocatable GPUs, product, zone, block and rack."""
    node = tenant.cluster.objects.get("/api/v1/nodes/gpu-4")
    assert node is not None
    labels = node["metadata"]["labels"]
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    assert labels["nvidia.com/gpu.product"] == GPU_PRODUCT
    assert (labels["topology.kubernetes.io/zone"], labels["cloud.google.com/gce-topology-subblock"]) == (
        "zone-a",
        "rack-1",
    )


def _recommended(chat: Chat) -> dict[str, Any]:
    found = chat.headway.recommendation(chat.tenant.namespace, "chat")
    assert found is not None
    return found


def _blocked(chat: Chat) -> int:
    return int(_recommended(chat)["replicas"]["gated"])
