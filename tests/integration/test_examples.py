"""The shipped examples, run as they are but for ports and for where metrics come from."""

import asyncio
import json
import shutil
import socket
from pathlib import Path

import pytest
import yaml
from grpc import aio

from scaler.adapters.cluster_file import FileClusterView
from scaler.config.load import load_config, policy_of
from scaler.core.observation import ReplicaCounts
from scaler.core.values import WorkloadId
from tests.roles_rig import Keda, rig_in, until_answer, wall_s

EXAMPLES = Path(__file__).parents[2] / "examples"


async def test_the_example_of_a_cluster_file_is_read() -> None:
    """It is of the shape that the view reads, and has the workloads of the example configuration."""
    config = load_config(EXAMPLES / "headway.yaml")
    assert config.cluster is not None
    assert config.cluster.file is not None
    snapshot = await FileClusterView(config.cluster.file).snapshot()
    assert set(snapshot.workloads) == {WorkloadId(w.namespace, w.name) for w in policy_of(config).workloads}
    chat = snapshot.workloads[WorkloadId("demo", "chat")]
    assert chat.counts == ReplicaCounts(spec=3, ready=2, pending=0, blocked=1)


async def test_the_example_configuration_runs(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """`headway serve` starts from the examples' folder, makes what it needs there, and answers KEDA."""
    folder = tmp_path / "examples"
    shutil.copytree(EXAMPLES, folder)
    _look_now(folder / "cluster.json")
    async with rig_in(tmp_path) as rig:
        rig.config = _with_free_ports_and_no_engines(folder, _deaf_port(request))
        process, addresses = await rig.start("serve")
        async with aio.insecure_channel(addresses["scaler_grpc"]) as channel:
            answer = await until_answer(Keda(channel).replicas, lambda a: isinstance(a, float), "an answer to KEDA")
        assert answer == 3  # nobody answers for the replicas: what is there stays
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 30) == 0
    assert {file.name for file in (folder / "run").iterdir()} >= {"plan.json", "checkpoint.json"}


def _look_now(view: Path) -> None:
    """Date the view as whatever keeps it current does."""
    view.write_text(json.dumps(json.loads(view.read_text()) | {"at_s": wall_s()}))


def _deaf_port(request: pytest.FixtureRequest) -> int:
    """Return a port on which nobody listens, and nobody can for as long as the test runs."""
    held = socket.socket()
    request.addfinalizer(held.close)
    held.bind(("127.0.0.1", 0))
    port: int = held.getsockname()[1]
    return port


def _with_free_ports_and_no_engines(folder: Path, deaf_port: int) -> Path:
    config = yaml.safe_load((EXAMPLES / "headway.yaml").read_text())
    for role, names in (("controller", ("httpAddress", "adminAddress")), ("scaler", ("httpAddress", "grpcAddress"))):
        config[role] |= dict.fromkeys(names, "127.0.0.1:0")
    config["metrics"]["prometheus"]["url"] = f"http://127.0.0.1:{deaf_port}"
    path = folder / "headway.yaml"
    path.write_text(yaml.safe_dump(config))
    return path
