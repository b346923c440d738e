"""Pods and nodes as they are read from raw objects, and what each is good for."""

from typing import Any

import pytest

from scaler.adapters.kubernetes.nodes import NodeRecord, read_node
from scaler.adapters.kubernetes.pods import Controller, PodState, SeenPod, read_pod, state_of
from tests.kubernetes_objects import full_pod, node, pod


def seen(it: dict[str, Any]) -> SeenPod:
    read = read_pod(it)
    assert read is not None
    return read


def known(it: dict[str, Any]) -> NodeRecord:
    read = read_node(it)
    assert read is not None
    return read


def test_a_real_pod_is_read_whole() -> None:
    """What Headway keeps of a pod of 8 KB is exactly what the API server said."""
    it = seen(full_pod(3, 7))
    assert it.controller == Controller("ReplicaSet", "model-00003-7d9f8c6b5", "uid-model-00003-7d9f8c6b5")
    assert ("app", "model-00003") in it.labels
    record = it.record
    assert (record.namespace, record.name) == ("team-003", "model-00003-7d9f8c6b5-00007")
    assert (record.owner, record.template) == ("uid-model-00003-7d9f8c6b5", "7d9f8c6b5")
    assert (record.phase, record.ready, record.gated, record.unschedulable) == ("Running", True, False, False)
    assert (record.node, record.ip, record.ports) == ("gpu-node-0028", "10.3.7.7", (8000, 15090))
    assert (record.created_s, record.scheduled_s, record.ready_s) == (1767225600.0, 1767225605.0, 1767225690.0)


@pytest.mark.parametrize(
    ("it", "state"),
    [
        (pod("a"), PodState.READY),
        (pod("a", ready=False), PodState.PENDING),
        (pod("a", phase="Pending"), PodState.PENDING),
        (pod("a", phase="Unknown"), PodState.PENDING),
        (pod("a", gated=True), PodState.BLOCKED),  # knative/serving#15308
        (pod("a", unschedulable=True), PodState.BLOCKED),
        (pod("a", terminating=True), PodState.TERMINATING),
        (pod("a", gated=True, terminating=True), PodState.TERMINATING),
        (pod("a", phase="Succeeded"), PodState.FINISHED),
        (pod("a", phase="Failed", terminating=True), PodState.FINISHED),
    ],
)
def test_what_a_pod_is_good_for(it: dict[str, Any], state: PodState) -> None:
    """Only a running, ready pod that stays is supply; one that is held back is not on its way."""
    assert state_of(seen(it).record) is state


def test_a_gate_counts_before_the_scheduler_said_anything() -> None:
    """A pod with scheduling gates is gated from its first moment, without any condition."""
    it = pod("a", gated=True)
    it["status"]["conditions"] = []
    assert seen(it).record.gated


def test_a_pod_without_an_owner_has_none() -> None:
    """A bare pod has no controller; an owner that does not control it is none."""
    it = pod("a", owner=None)
    it["metadata"]["ownerReferences"] = [{"kind": "Node", "name": "n", "uid": "u"}]
    assert seen(it).record.owner == ""
    assert seen(it).controller == Controller("", "", "")


@pytest.mark.parametrize(
    "it",
    [
        {},
        {"metadata": None, "spec": [], "status": "Running"},
        {"metadata": {"name": "a", "namespace": "b"}},
        {"metadata": {"name": "a", "creationTimestamp": "yesterday"}},
        {"metadata": {"name": "a", "creationTimestamp": "0000-00-00T00:00:00Z"}},
        {"metadata": {"name": "a", "creationTimestamp": "9999-12-31T23:59:59Z"}},
        {"metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00"}},
        {"metadata": {"name": ["a"], "creationTimestamp": "2026-01-01T00:00:00Z"}},
        {
            "metadata": {
                "name": "a",
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": dict.fromkeys(map(str, range(101)), ""),
            }
        },
    ],
)
def test_what_cannot_be_a_pod_or_a_node_is_skipped(it: dict[str, Any]) -> None:
    """Missing names, impossible ages and absurdly many labels are no records, and no errors."""
    assert read_pod(it) is None
    assert read_node(it) is None


def test_odd_parts_are_as_if_not_there() -> None:
    """A pod whose parts are of wrong kinds is read as far as it can be: it is there, and it is not ready."""
    it = pod("a")
    it["spec"] = {"containers": [None, {"ports": [{"containerPort": "8000"}, {"containerPort": 70_000}, 7, {}]}]}
    it["status"] = {"phase": 3, "podIP": "1" * 5000, "conditions": [None, "Ready", {"type": "Ready", "status": True}]}
    it["metadata"]["ownerReferences"] = "mine"
    record = seen(it).record
    assert (record.ports, record.phase, record.ip, record.ready, record.owner) == ((), "", "", False, "")


def test_ports_are_bounded_and_tcp() -> None:
    """Of the ports that a pod lists the first 64 TCP ports are kept."""
    it = pod("a")
    it["spec"]["containers"] = [{"ports": [{"containerPort": 53, "protocol": "UDP"}]}]
    it["spec"]["containers"] += [{"ports": [{"containerPort": port} for port in range(1, 200)]}]
    assert seen(it).record.ports == tuple(range(1, 65))


def test_a_ready_node_without_gpus_is_not_warm() -> None:
    """Ready comes minutes before the GPUs are allocatable (kubernetes/autoscaler#3164), and with 0 of them at first."""
    assert known(node("n", gpus="8")).warm("nvidia.com/gpu")
    assert not known(node("n", gpus=None)).warm("nvidia.com/gpu")
    assert not known(node("n", gpus="0")).warm("nvidia.com/gpu")
    assert not known(node("n", gpus="8")).warm("amd.com/gpu")


@pytest.mark.parametrize(
    "it",
    [
        node("n", ready=False),
        node("n", cordoned=True),
        node("n", taints=("node.kubernetes.io/not-ready",)),
        node("n", taints=("virtual-kubelet.io/provider",)),
        node("n", labels={"type": "virtual-kubelet"}),
    ],
)
def test_a_node_that_is_not_up_or_not_real_is_not_warm(it: dict[str, Any]) -> None:
    """What a node says it has counts for nothing while it cannot be used, or where it is an overflow provider's."""
    assert not known(it).warm("nvidia.com/gpu")


def test_a_platforms_own_startup_taint_counts() -> None:
    """Which taints a start-up has is the platform's to say; other taints only keep other pods away."""
    tainted = known(node("n", taints=("gpu-not-ready",)))
    assert tainted.warm("nvidia.com/gpu")
    assert not tainted.warm("nvidia.com/gpu", ("gpu-not-ready",))


def test_quantities_that_are_no_counts_are_no_gpus() -> None:
    """A GPU quantity that is negative, fractional, text or absurd is not counted."""
    it = node("n")
    it["status"]["allocatable"] = {
        "nvidia.com/gpu": "-1", "amd.com/gpu": "1e9", "nvidia.com/mig-1g.10gb": "7", "habana.ai/gaudi": 8,
        "gpu.intel.com/xe": "99999999999",
    }  # fmt: skip
    assert known(it).gpus == {"nvidia.com/mig-1g.10gb": 7}
