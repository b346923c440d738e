"""Manifests and configurations for tests: each right as it is, to be spoiled by the test."""

from pathlib import Path
from typing import Any

import yaml

from scaler.config.platform import Platform
from scaler.config.validate import platform_of, validate_process

EXAMPLES = Path(__file__).parents[1] / "examples"
ADDRESS = "headway-scaler.headway.svc.cluster.local:6000"


def scaled_object() -> dict[str, Any]:
    """Return the example's ScaledObject, `demo/chat`."""
    manifest: dict[str, Any] = yaml.safe_load((EXAMPLES / "scaledobject.yaml").read_text())
    return manifest


def queue_worker() -> dict[str, Any]:
    """Return the example's ScaledObject of a queue, `team-a/render`, which goes to zero."""
    return _queue_examples()[0]


def observed_hpa() -> dict[str, Any]:
    """Return the example's annotated HPA, `team-a/embed`."""
    return _queue_examples()[1]


def _queue_examples() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((EXAMPLES / "scaledobject-queue.yaml").read_text()))


def cluster_config(**changes: Any) -> dict[str, Any]:
    """Return the example's configuration of a cluster as a document, with some top-level keys changed."""
    document: dict[str, Any] = yaml.safe_load((EXAMPLES / "headway-kubernetes.yaml").read_text())
    return {key: value for key, value in (document | changes).items() if value is not None}


def platform(**changes: Any) -> Platform:
    """Return what the example's configuration says to the workloads of its cluster."""
    return platform_of(validate_process(cluster_config(**changes), base=Path("/")))
