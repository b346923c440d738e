"""A Triton server of its own on free ports of the loopback, on the CPU, with models whose service time is known."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from tests.engines import installation

BACKEND_SOURCE = Path(__file__).with_name("fixed_time_backend.c")
DEADLINE_S = 60.0  # of waiting for a condition; nothing is asserted about how long it took
_TENSORS = """max_batch_size: 0
input [{ name: "service_ms", data_type: TYPE_INT32, dims: [1] }]
output [{ name: "done", data_type: TYPE_INT32, dims: [1] }]
"""


@dataclass(frozen=True)
class Model:
    """A model that serves `instances` requests at once, each as long as it asks for; the others wait in its queue.

    `queue_policy` is Triton's default_queue_policy in its own words. An ensemble hands its requests to `ensemble_of`.
    """

    name: str
    instances: int = 1
    queue_policy: str = ""
    ensemble_of: str = ""

    def config(self) -> str:
        """Return its config.pbtxt."""
        if self.ensemble_of:
            maps = "".join(f'{end}_map {{ key: "{t}" value: "{t}" }} ' for end, t in _ENDS)
            step = f'{{ model_name: "{self.ensemble_of}" model_version: -1 {maps}}}'
            return f'platform: "ensemble"\n{_TENSORS}ensemble_scheduling {{ step [{step}] }}\n'
        group = f"instance_group [{{ kind: KIND_CPU count: {self.instances} }}]\n"
        queue = f"dynamic_batching {{ default_queue_policy {{ {self.queue_policy} }} }}\n" if self.queue_policy else ""
        return f'backend: "fixed_time"\n{_TENSORS}{group}{queue}'


_ENDS = (("input", "service_ms"), ("output", "done"))


@dataclass(frozen=True)
class Triton:
    """A running server."""

    url: str
    metrics_address: str  # host:port of GET /metrics
    process: "subprocess.Popen[bytes]"


@asynccontextmanager
async def running_triton(
    folder: Path, models: Sequence[Model], metrics_config: Sequence[str] = ()
) -> AsyncIterator[Triton]:
    """Build the backend, write the models into `folder`, start the server, and end it with all that it started."""
    _write_models(folder / "models", models)
    await asyncio.to_thread(_build_backend, folder / "backends" / "fixed_time")
    http_port, metrics_port = free_ports(2)
    process = _start(folder, http_port, metrics_port, metrics_config)
    try:
        triton = Triton(f"http://127.0.0.1:{http_port}", f"127.0.0.1:{metrics_port}", process)
        await _until_ready(triton, folder / "triton.log")
        yield triton
    finally:
        end_group(process)


def free_ports(count: int) -> list[int]:
    """Return ports of the loopback that were free just now."""
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def end_group(process: "subprocess.Popen[bytes]") -> None:
    """End a process that leads a process group, and the group, however little it wants to. Once is enough."""
    if process.returncode is None:  # until the leader is waited for, its id is the group's and nobody else's
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _write_models(folder: Path, models: Sequence[Model]) -> None:
    for model in models:
        (folder / model.name / "1").mkdir(parents=True)
        (folder / model.name / "config.pbtxt").write_text(model.config())


def _build_backend(folder: Path) -> None:
    compiler = shutil.which("cc")
    assert compiler is not None
    folder.mkdir(parents=True)
    options = ["-O1", "-std=c11", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"]
    library = folder / "libtriton_fixed_time.so"
    subprocess.run([compiler, *options, "-o", str(library), str(BACKEND_SOURCE)], check=True)


def _start(folder: Path, http_port: int, metrics_port: int, metrics_config: Sequence[str]) -> "subprocess.Popen[bytes]":
    options = {
        "model-repository": folder / "models",
        "backend-directory": folder / "backends",
        "http-address": "127.0.0.1",
        "http-port": http_port,
        "metrics-port": metrics_port,
        "metrics-interval-ms": 100,  # of what is polled, like the use of the CPU; the counters are always current
        "allow-grpc": "false",
        "allow-gpu-metrics": "false",
    }
    with (folder / "triton.log").open("wb") as log:
        return subprocess.Popen(
            [
                installation.server(),
                *(f"--{name}={value}" for name, value in options.items()),
                *(f"--metrics-config={setting}" for setting in metrics_config),
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


async def _until_ready(triton: Triton, log: Path) -> None:
    async with aiohttp.ClientSession() as session, asyncio.timeout(DEADLINE_S):
        while triton.process.poll() is None:
            try:
                async with session.get(f"{triton.url}/v2/health/ready") as response:
                    if response.status == 200:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.05)
    raise AssertionError(f"triton ended: {await asyncio.to_thread(log.read_text)}")
