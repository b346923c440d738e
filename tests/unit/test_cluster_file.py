"""The cluster view from a file."""

import json
from pathlib import Path
from typing import Any

import pytest

from scaler.adapters.cluster_file import FileClusterView
from scaler.core.observation import ReplicaCounts
from scaler.core.values import Reason, WorkloadId
from scaler.ports import SourceError


def pod(name: str, **changes: Any) -> dict[str, Any]:
    """Make a ready pod, but for the changes."""
    return {"name": name, "phase": "Running", "ready": True, "blocked": False, "terminating": False} | changes


def document(*pods: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Make a file's content with one workload."""
    workload = {"namespace": "demo", "name": "chat", "spec": 5, "rollout": False, "pods": list(pods)}
    return {"schema": 1, "at_s": 1700000000.0, "workloads": [workload]} | changes


def view_of(path: Path, content: Any) -> FileClusterView:
    """Write a file and make its view."""
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return FileClusterView(path)


async def test_pods_are_counted_by_what_they_are_good_for(tmp_path: Path) -> None:
    """A pod that starts, that cannot be placed, or that is going, is no ready one, whatever its probe says."""
    content = document(
        pod("chat-0"),
        pod("chat-1", ready=False),
        pod("chat-2", phase="Pending", ready=False),
        pod("chat-3", phase="Pending", ready=False, blocked=True),
        pod("chat-4", terminating=True),
    )
    snapshot = await view_of(tmp_path / "cluster.json", content).snapshot()
    view = snapshot.workloads[WorkloadId("demo", "chat")]
    assert view.counts == ReplicaCounts(spec=5, ready=1, pending=2, blocked=1, terminating=1)
    assert view.pods == ("chat-0",)
    assert snapshot.at_s == 1700000000.0


async def test_the_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    """A view follows its file, and does not parse it again while it stays."""
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(document(pod("chat-0"))))
    view = FileClusterView(path)
    first = await view.snapshot()
    assert await view.snapshot() is first
    path.with_suffix(".new").write_text(json.dumps(document(pod("chat-0"), pod("chat-1"))))
    path.with_suffix(".new").replace(path)
    assert (await view.snapshot()).workloads[WorkloadId("demo", "chat")].counts.ready == 2


async def test_a_file_that_turns_bad_is_an_error_and_not_its_last_content(tmp_path: Path) -> None:
    """A view that cannot be read is unknown; pods of some time ago are not evidence."""
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(document(pod("chat-0"))))
    view = FileClusterView(path)
    await view.snapshot()
    path.write_text("{")
    with pytest.raises(SourceError):
        await view.snapshot()
    path.unlink()
    with pytest.raises(SourceError):
        await view.snapshot()


TWICE = document(pod("chat-0"), pod("chat-0"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "document: Invalid JSON"),
        ("{", "document: Invalid JSON"),
        ("[]", "document: Input should be an object"),
        (document(schema=2), "schema: Input should be 1"),
        (document(pod("chat-0", ready="yes")), r"workloads\[0\].pods\[0\].ready: Input should be a valid boolean"),
        (document(pod("chat-0", phase="Lost")), r"workloads\[0\].pods\[0\].phase: Input should be 'Running' or"),
        (document(pod("a/b")), r"workloads\[0\].pods\[0\].name: String should match"),
        (document(workloads=[{"namespace": "demo"}]), r"workloads\[0\].name: Field required \(and 2 more\)"),
        (document(workloads=document()["workloads"] * 2), "demo/chat is there twice"),
        (TWICE, "demo/chat-0 is there twice"),
        (json.dumps(document()).replace("1700000000.0", "NaN"), "at_s"),
    ],
)
async def test_a_bad_file_is_an_error_that_names_it_and_the_place(tmp_path: Path, content: Any, message: str) -> None:
    """The error says which file, where in it, and what is wrong."""
    with pytest.raises(SourceError, match=message) as caught:
        await view_of(tmp_path / "cluster.json", content).snapshot()
    assert str(caught.value).startswith(str(tmp_path / "cluster.json"))
    assert caught.value.reason is Reason.VIEW_UNAVAILABLE
