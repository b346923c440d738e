"""Headway's real processes, end to end: an engine's HTTP in, KEDA's gRPC out, and what outages do in between."""

import asyncio
import signal
import sys
from pathlib import Path
from typing import Any

import aiohttp
import grpc
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from external_scaler_proto import externalscaler_pb2 as pb
from scaler.report.plan_document import ExplainDocument
from tests.roles_rig import PATIENCE_S, REFERENCE, Keda, rig_in, until, until_answer

SERVING = health_pb2.HealthCheckResponse.SERVING


async def test_from_an_engines_metrics_to_kedas_answer_and_back_to_why(tmp_path: Path) -> None:
    """`headway serve` scrapes, decides and answers; `/plan` and `headway explain` say why; SIGTERM ends it in order."""
    async with rig_in(tmp_path) as rig:
        process, addresses = await rig.start("serve")
        async with aio.insecure_channel(addresses["scaler_grpc"]) as channel:
            keda = Keda(channel)
            assert await until_answer(keda.replicas, lambda a: a == 2, "the spec replicas") == 2
            assert await keda.active()
            check = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
            assert check.status == SERVING
            stream = keda.stub.StreamIsActive(REFERENCE)
            pushed = await asyncio.wait_for(stream.read(), PATIENCE_S)
            assert isinstance(pushed, pb.IsActiveResponse)
            assert pushed.result

            rig.engine.running = 32  # both replicas full: 2 / 0.85
            assert await until_answer(keda.replicas, lambda a: a == 3, "a third replica") == 3

            explain = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "scaler", "explain", "demo/chat",
                "--admin-address", addresses["controller_admin"], "--json", "-",
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            out, text = await explain.communicate()
            assert explain.returncode == 0
            assert b"demo/chat" in text
            assert ExplainDocument.model_validate_json(out).workload.target == 3

            async with aiohttp.ClientSession() as session:
                for name in ("controller_http", "scaler_http"):
                    async with session.get(f"http://{addresses[name]}/readyz") as ready:
                        assert ready.status == 200
                async with session.get(f"http://{addresses['controller_http']}/metrics") as metrics:
                    told = 'headway_recommendation_replicas{kind="told",namespace="demo",workload="chat"} 3.0'
                    assert told in await metrics.text()

            process.terminate()
            assert await asyncio.wait_for(stream.read(), PATIENCE_S) == aio.EOF  # type: ignore[attr-defined]  # the stubs lack it
            assert await stream.code() is grpc.StatusCode.OK
            assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 0


async def test_a_controller_killed_in_a_surge_leaves_the_answer_and_finds_it_again(tmp_path: Path) -> None:
    """The scaler answers on; the new controller keeps the surge while load is gone, and acts at once on more.

    The hold is two ticks, so that only the wait after a start can keep what the idle engine no longer needs.
    """
    async with rig_in(tmp_path, hold="200ms") as rig:
        controller, _ = await rig.start("controller")
        _, addresses = await rig.start("scaler")
        async with aio.insecure_channel(addresses["grpc"]) as channel:
            keda = Keda(channel)
            rig.engine.running = 32
            assert await until_answer(keda.replicas, lambda a: a == 3, "the surge's answer") == 3
            controller.kill()
            await controller.wait()
            assert await keda.replicas() == 3

            rig.engine.running = 0
            version = (tmp_path / "plan.json").stat().st_mtime_ns
            _, restarted = await rig.start("controller")
            await until(lambda: (tmp_path / "plan.json").stat().st_mtime_ns != version, "the new controller's plan")
            await _ticks(restarted["http"], 10)
            assert await keda.replicas() == 3

            rig.show_pods(4)
            rig.engine.running = 32
            assert await until_answer(keda.replicas, lambda a: a == 5, "more of the surge") == 5


async def test_an_engine_that_fails_every_scrape_lowers_nothing(tmp_path: Path) -> None:
    """Windows of a second: without the engine's answers the target would have had time to fall."""
    windows: dict[str, Any] = {"hold": "200ms", "rateWindow": "400ms", "staleAfter": "500ms", "frozenAfter": "1s"}
    async with rig_in(tmp_path, rate={"period": "1s"}, **windows) as rig:
        _, controller = await rig.start("controller")
        _, addresses = await rig.start("scaler")
        async with aio.insecure_channel(addresses["grpc"]) as channel:
            keda = Keda(channel)
            rig.engine.running = 32
            await until_answer(keda.replicas, lambda a: a == 3, "the answer under load")
            rig.engine.running, rig.engine.answering = 0, False
            await _ticks(controller["http"], 40)
            assert await keda.replicas() == 3
            rig.engine.answering = True  # and what is known to be idle does fall, so the test can fail
            assert await until_answer(keda.replicas, lambda a: a == 1, "the idle engine's answer") == 1


async def _ticks(address: str, count: int) -> None:
    """Wait until the controller has ticked so many more times."""

    async def ticks() -> float:
        async with aiohttp.ClientSession() as session, session.get(f"http://{address}/metrics") as answer:
            lines = (await answer.text()).splitlines()
        return float(next(line for line in lines if line.startswith("headway_ticks_total ")).split()[1])

    first = await ticks()
    await until_answer(ticks, lambda now: now >= first + count, f"{count} ticks")


async def test_a_configuration_that_cannot_be_used_is_one_clear_error(tmp_path: Path) -> None:
    """Exit status 2, every problem with its file, line, key, value and range."""
    config = tmp_path / "headway.yaml"
    config.write_text(
        "controller:\n  tick: soon\nworkloads:\n  - namespace: demo\n    name: chat\n    maxReplicas: 0\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "scaler", "serve", "--config", str(config), stderr=asyncio.subprocess.PIPE
    )
    _, errors = await process.communicate()
    assert process.returncode == 2
    for expected in (f"{config}:2: controller.tick:", "was 'soon'", f"{config}:6: workloads[0].maxReplicas:", "was 0"):
        assert expected in errors.decode()


async def test_an_interrupt_ends_a_role_as_a_signal_does(tmp_path: Path) -> None:
    """Ctrl-C at a terminal is an orderly end too."""
    async with rig_in(tmp_path) as rig:
        process, _ = await rig.start("controller")
        await until((tmp_path / "plan.json").exists, "a first plan")
        process.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 0
        assert (tmp_path / "state.json").exists()
