"""The manifests of a tenant: a Deployment of GPU pods, and the ScaledObject that this repository recommends for it."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.engines_double import CAPACITY_RPS, SLOTS
from tests.cluster.kwok import READY_AFTER

_EXAMPLE = Path(__file__).parents[2] / "examples" / "scaledobject.yaml"


def deployment(
    namespace: str,
    name: str,
    *,
    replicas: int = 1,
    gpus: int = 1,
    ready_after: str = "0s",
    image: str = "engine:1",
    on_nodes: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return a Deployment whose pods become ready after a time, on nodes with these labels."""
    labels = {"app": name}
    container = {
        "name": "engine",
        "image": image,
        "ports": [{"containerPort": 8000}],
        "resources": {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {},
    }
    template = {
        "metadata": {"labels": labels, "annotations": {READY_AFTER: ready_after}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1, "nodeSelector": dict(on_nodes or {})},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def scaled_object(
    namespace: str, name: str, address: str, *, least: int = 1, most: int = 50, push: bool = False, **metadata: str
) -> dict[str, Any]:
    """Return the recommended ScaledObject (examples/scaledobject.yaml), polled every second."""
    whole: dict[str, Any] = copy.deepcopy(yaml.safe_load(_EXAMPLE.read_text()))
    whole["metadata"] = {"name": name, "namespace": namespace}
    spec = whole["spec"]
    spec.update(
        scaleTargetRef={"name": name}, pollingInterval=1, cooldownPeriod=2, minReplicaCount=least, maxReplicaCount=most
    )
    spec["fallback"]["replicas"] = max(least, 1)
    if least == 0:
        del spec["fallback"]  # as the documentation says: an active one would wake the workload
    trigger = spec["triggers"][0]
    trigger["type"] = "external-push" if push or least == 0 else "external"
    known = {"scalerAddress": address, "engine": "vllm", "slo": "1s", "objective": "0.99", "leadTime": "5s"}
    size = {"slotsPerReplica": str(SLOTS), "capacityPerReplica": str(CAPACITY_RPS)}
    trigger["metadata"] = {**known, **size, **metadata}
    return whole


def with_authentication(manifest: Mapping[str, Any], name: str, kind: str = "TriggerAuthentication") -> dict[str, Any]:
    """Return a ScaledObject whose trigger authenticates itself by this object."""
    whole = copy.deepcopy(dict(manifest))
    whole["spec"]["triggers"][0]["authenticationRef"] = {"name": name, "kind": kind}
    return whole
