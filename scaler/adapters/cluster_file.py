"""The cluster view from a JSON file, for where there is no Kubernetes API: a rehearsal, a test, one machine.

`{"schema": 1, "at_s": ..., "workloads": [{"namespace", "name", "spec", "rollout", "pods": [{"name", "phase", "ready",
"blocked", "terminating"}]}]}`. `rollout`, `blocked` and `terminating` may be left out and are then false.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from scaler.adapters.targets_file import file_identity, read_json_bytes, told
from scaler.core.observation import ReplicaCounts
from scaler.core.values import Reason, WorkloadId
from scaler.ports import ClusterSnapshot, SourceError, WorkloadView

Name = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[^/\s]+$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class _Pod(_Strict):
    name: Name
    phase: Literal["Running", "Pending"]
    ready: bool
    blocked: bool = False
    terminating: bool = False


class _Workload(_Strict):
    namespace: Name
    name: Name
    spec: Annotated[int, Field(ge=0)]
    rollout: bool = False
    pods: tuple[_Pod, ...]


class _Document(_Strict):
    schema_: Annotated[Literal[1], Field(alias="schema")]
    at_s: float
    workloads: tuple[_Workload, ...]


class FileClusterView:
    """A ClusterView that reads a file, again whenever it has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: object = None
        self._snapshot: ClusterSnapshot | None = None

    async def snapshot(self) -> ClusterSnapshot:
        """Return what the file says; SourceError that names the file and what is wrong with it."""
        return await asyncio.to_thread(self._load)

    def _load(self) -> ClusterSnapshot:
        try:
            seen = file_identity(self._path)
            if self._snapshot is None or seen != self._seen:
                document = _Document.model_validate_json(read_json_bytes(self._path))
                self._snapshot, self._seen = _snapshot(document), seen
        except (OSError, ValueError) as error:
            raise SourceError(Reason.VIEW_UNAVAILABLE, f"{self._path}: {told(error)}") from error
        return self._snapshot


def _snapshot(document: _Document) -> ClusterSnapshot:
    workloads: dict[WorkloadId, WorkloadView] = {}
    pods: set[tuple[str, str]] = set()
    for workload in document.workloads:
        key = WorkloadId(workload.namespace, workload.name)
        if key in workloads:
            raise ValueError(f"workloads must be there once, {key} is there twice")
        for pod in workload.pods:
            if (workload.namespace, pod.name) in pods:
                raise ValueError(f"pods must be there once, {workload.namespace}/{pod.name} is there twice")
            pods.add((workload.namespace, pod.name))
        workloads[key] = _view(workload)
    return ClusterSnapshot(document.at_s, workloads)


def _view(workload: _Workload) -> WorkloadView:
    states = [_state(pod) for pod in workload.pods]
    counts = ReplicaCounts(
        spec=workload.spec,
        ready=states.count("ready"),
        pending=states.count("pending"),
        blocked=states.count("blocked"),
        terminating=states.count("terminating"),
    )
    return WorkloadView(counts, tuple(_ready(workload)), workload.rollout)


def _ready(workload: _Workload) -> Iterator[str]:
    return (pod.name for pod in workload.pods if _state(pod) == "ready")


def _state(pod: _Pod) -> Literal["ready", "pending", "blocked", "terminating"]:
    """Say what a pod is good for. One that is going is no supply, even while it still answers its readiness probe."""
    if pod.terminating:
        return "terminating"
    if pod.blocked:
        return "blocked"
    return "ready" if pod.ready and pod.phase == "Running" else "pending"
