"""Headway's real processes beside a small engine that the test controls, all on free ports of this machine."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import yaml
from aiohttp import web
from grpc import aio

from external_scaler_proto import externalscaler_pb2 as pb
from external_scaler_proto.externalscaler_pb2_grpc import ExternalScalerStub
from scaler.report.announcement import Announcement

PATIENCE_S = 30.0
REFERENCE = pb.ScaledObjectRef(namespace="demo", name="chat", scalerMetadata={"engine": "vllm"})


@dataclass
class EngineSetByHand:
    """Exposes vLLM's names for `pods` pods with the load that the test sets; counters move at every scrape."""

    pods: int = 2
    running: float = 16
    waiting: float = 0
    completed: float = 0
    answering: bool = True

    async def metrics(self, _: web.Request) -> web.Response:
        """Answer a scrape, or fail it."""
        if not self.answering:
            raise web.HTTPInternalServerError
        self.completed += 1
        return web.Response(
            text=f"vllm:num_requests_running {self.running}\n"
            f"vllm:num_requests_waiting {self.waiting}\n"
            f"vllm:kv_cache_usage_perc 0.3\n"
            f"vllm:num_preemptions_total 0\n"
            f"vllm:prompt_tokens_total {self.completed * 100}\n"
            f"vllm:generation_tokens_total {self.completed * 100}\n"
            f'vllm:request_success_total{{finished_reason="stop"}} {self.completed}\n',
        )


@dataclass
class Rig:
    """A folder with a configuration, an engine, and processes that read the one and scrape the other."""

    folder: Path
    engine: EngineSetByHand
    config: Path
    processes: list[asyncio.subprocess.Process] = field(default_factory=list)

    def show_pods(self, count: int) -> None:
        """Make the cluster view, and the targets, show so many ready pods."""
        self.engine.pods = count
        names = [f"chat-{i}" for i in range(count)]
        pods = [{"name": n, "phase": "Running", "ready": True, "blocked": False, "terminating": False} for n in names]
        seen = {"namespace": "demo", "name": "chat", "spec": count, "rollout": False, "pods": pods}
        # A view's own time is checked against the clock; one far ahead would be as doubtful as an old one.
        _replace(self.folder / "cluster.json", {"schema": 1, "at_s": wall_s(), "workloads": [seen]})
        labels = [{"namespace": "demo", "pod": name} for name in names]
        targets = [{"targets": [(self.folder / "engine").read_text()], "labels": each} for each in labels]
        _replace(self.folder / "targets.json", targets)

    async def start(self, *arguments: str) -> tuple[asyncio.subprocess.Process, dict[str, str]]:
        """Start `headway ARGUMENTS` on the configuration; return it and the addresses that it announces."""
        announced = self.folder / f"announced-{len(self.processes)}.json"
        log = self.folder / f"log-{len(self.processes)}"
        with log.open("wb") as errors:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "scaler", *arguments, "--config", str(self.config), "--json", str(announced),
                stderr=errors,
            )  # fmt: skip
        self.processes.append(process)
        await until(announced.exists, f"headway {arguments[0]} to listen")
        said = Announcement.model_validate_json(announced.read_text())
        assert said.role == arguments[0]
        return process, said.addresses

    async def metrics(self, address: str) -> str:
        """Return what a role exports."""
        async with aiohttp.ClientSession() as session, session.get(f"http://{address}/metrics") as answer:
            return await answer.text()


def wall_s() -> float:
    """Return the system's time in Unix seconds."""
    from scaler.adapters.clock import SystemClock

    return SystemClock().now_s()


def _replace(path: Path, document: Any) -> None:
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(document))
    draft.replace(path)


async def until(true: Callable[[], object], what: str) -> None:
    """Wait until something becomes true; fail, naming it, when it does not."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not true():  # noqa: ASYNC110  # other processes make it true
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"waited {PATIENCE_S:g} s in vain for {what}") from None


async def until_answer(ask: Callable[[], Awaitable[object]], accept: Callable[[Any], bool], what: str) -> Any:
    """Ask until the answer is accepted, and return it. An RPC that fails is an answer too: its status code."""
    answer: Any = None
    try:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                answer = await ask()
                if accept(answer):
                    return answer
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"waited {PATIENCE_S:g} s in vain for {what}; the last answer was {answer!r}") from None


class Keda:
    """A client that asks as KEDA does."""

    def __init__(self, channel: aio.Channel) -> None:
        self.stub = ExternalScalerStub(channel)

    async def replicas(self) -> float | grpc.StatusCode:
        """Return the metric's value, or the status that refused it."""
        request = pb.GetMetricsRequest(scaledObjectRef=REFERENCE, metricName="headway-replicas")
        try:
            answer = await self.stub.GetMetrics(request)
        except aio.AioRpcError as error:
            return error.code()
        return float(answer.metricValues[0].metricValueFloat)

    async def active(self) -> bool:
        """Return whether the workload is to be active."""
        return bool((await self.stub.IsActive(REFERENCE)).result)


@asynccontextmanager
async def rig_in(folder: Path, *, parts: Mapping[str, object] | None = None, **decision: object) -> AsyncIterator[Rig]:
    """Set up the folder and the engine; kill whatever still runs at the end.

    `parts` take the places of whole parts of the configuration; None leaves one out.
    """
    engine = EngineSetByHand()
    app = web.Application()
    app.router.add_get("/metrics", engine.metrics)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    (folder / "engine").write_text(f"{host}:{port}")
    config = folder / "headway.yaml"
    whole = {**_configuration(decision), **(parts or {})}
    config.write_text(yaml.safe_dump({name: part for name, part in whole.items() if part is not None}))
    rig = Rig(folder, engine, config)
    rig.show_pods(2)
    try:
        yield rig
    finally:
        for process in rig.processes:
            if process.returncode is None:
                process.kill()
            await process.wait()
        await runner.cleanup()


def _configuration(decision: dict[str, object]) -> dict[str, object]:
    any_port = "127.0.0.1:0"
    metadata = {"engine": "vllm", "slotsPerReplica": "32", "leadTime": "60s"}
    return {
        "controller": {"tick": "100ms", "httpAddress": any_port, "adminAddress": any_port, "checkpoint": "state.json"},
        "scaler": {"grpcAddress": any_port, "httpAddress": any_port, "planPoll": "20ms"},
        "planStore": {"file": "plan.json"},
        "metrics": {"scrape": {"targetsFile": "targets.json"}},
        "cluster": {"file": "cluster.json"},
        "decision": decision,
        "workloads": [{"namespace": "demo", "name": "chat", "maxReplicas": 50, "metadata": metadata}],
    }
