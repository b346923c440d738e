"""`headway demo` as a person runs it, shortened: real processes, HTTP and gRPC, a report and a result at the end."""

import asyncio
import json
import os
import shutil
import signal
import socket
import sys
from pathlib import Path

import pytest

from scaler.report.run_record import DemoResult
from tests.roles_rig import PATIENCE_S, until

CONTRACT = {
    "schema", "trace", "ticks", "grpc_calls", "grpc_p99_ms", "replicas_min", "replicas_max", "scale_ups", "scale_downs",
    "slo_attainment", "gpu_hours",
}  # fmt: skip


async def demo(folder: Path, *arguments: str, **environment: str) -> tuple[int, str, str]:
    """Run the demo in a folder; return its exit status, output and errors."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "scaler", "demo", *arguments,
        cwd=folder, env=os.environ | environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, errors = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), errors.decode()


def a_trace(folder: Path) -> Path:
    """Write ten minutes whose second half has twice the traffic of the first."""
    path = folder / "steps.csv"
    rows = [f"{10 * i},{20 if i < 30 else 40}" for i in range(60)]
    path.write_text("\n".join(["timestamp,requests", *rows, ""]))
    return path


async def run_briefly(folder: Path, *more: str) -> DemoResult:
    """Play the small trace in twelve seconds."""
    trace, report = a_trace(folder), folder / "report.html"
    status, out, errors = await demo(
        folder, "--trace", str(trace), "--speed", "50", "--seconds", "12", "--report", str(report), "--json", "-", *more
    )
    assert status == 0, errors
    document = json.loads(out)
    assert document.keys() >= CONTRACT
    assert "of the requests met the queue-time SLO" in errors
    page = report.read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert "steps" in page
    return DemoResult.model_validate(document)


async def test_the_demo_serves_recorded_traffic_and_scales_over_real_grpc(tmp_path: Path) -> None:
    """Every request of the trace arrives, Headway ticks, KEDA's client is answered, GPU time is counted."""
    result = await run_briefly(tmp_path)
    assert result.trace == "steps"
    assert not result.prometheus
    assert result.requests > 10_000
    assert result.ticks > 0
    assert result.tick_errors == 0
    assert result.grpc_calls > 0
    assert result.grpc_p99_ms is not None
    assert result.first_decision_s is not None
    assert result.gpu_hours > 0
    assert result.simulated_s == 600
    assert result.replicas_min is not None
    assert result.replicas_min >= 1


@pytest.mark.prometheus
@pytest.mark.skipif(shutil.which("prometheus") is None, reason="no prometheus on PATH: --prometheus was not tested")
async def test_the_same_with_a_real_prometheus_between(tmp_path: Path) -> None:
    """The fleet is scraped by Prometheus, and Headway reads there."""
    result = await run_briefly(tmp_path, "--prometheus")
    assert result.prometheus
    assert result.ticks > 0
    assert result.requests > 10_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--trace", "nowhere.csv"), "nowhere.csv"),
        (("--speed", "0"), "--speed must be from 1 to 1000, was 0"),
        (("--seconds", "nan"), "--seconds must be >= 5, was nan"),
        (("--report", "nowhere/report.html"), "--report must be in a folder that exists"),
        (("--report", "."), "--report must be a file, was the folder ."),
        (("--grpc-address", "here"), "--grpc-address: address must be HOST:PORT"),
        (("--http-address", "127.0.0.1:99999"), "--http-address: address must have a port from 0 to 65535"),
        (("--admin-address", "0.0.0.0:0"), "--admin-address must be a loopback address"),
        (("--prometheus",), "--prometheus needs a prometheus on PATH"),
    ],
)
async def test_what_cannot_be_run_is_one_clear_error(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    """Exit status 2, and nothing is left behind."""
    status, out, errors = await demo(tmp_path, "--seconds", "5", *arguments, PATH="")
    assert (status, out) == (2, "")
    assert message in errors
    assert "Traceback" not in errors
    assert os.listdir(tmp_path) == []  # noqa: PTH208  # pathlib's way blocks no less


async def test_a_bad_row_is_named_with_file_and_line(tmp_path: Path) -> None:
    """A negative count in line 4."""
    trace = a_trace(tmp_path)
    lines = trace.read_text().splitlines()
    lines[3] = "20,-1"
    trace.write_text("\n".join(lines))
    status, _, errors = await demo(tmp_path, "--trace", str(trace))
    assert status == 2
    assert f"{trace}:4" in errors


@pytest.mark.parametrize("option", ["--grpc-address", "--admin-address"])
async def test_an_address_that_is_taken_ends_the_demo_at_once(tmp_path: Path, option: str) -> None:
    """Exit status 2 with what the role said of it, instead of starting it again and again."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        status, out, errors = await demo(tmp_path, "--seconds", "60", "--json", "-", option, address)
    assert (status, out) == (2, "")
    role = "scaler" if option == "--grpc-address" else "controller"
    assert f"the {role} cannot start\nheadway {role}: " in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
async def test_a_signal_ends_the_demo_with_its_processes_and_files(tmp_path: Path, number: signal.Signals) -> None:
    """Exit status 128 + signal; no child is left, the temporary folder is gone, nothing but the view is printed."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "scaler", "demo", "--trace", str(a_trace(tmp_path)), "--report", str(tmp_path / "r.html"),
        env=os.environ | {"TMPDIR": str(temporary)}, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    await until(lambda: list(temporary.glob("headway-*/*.json")) and len(_children(process.pid)) == 2, "both roles")
    children = _children(process.pid)
    if number is signal.SIGTERM:
        process.send_signal(number)
    else:
        os.killpg(process.pid, number)  # as a terminal does: to all of them at once
    process.send_signal(number)  # the impatient do not get more than the patient
    _, errors = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert process.returncode == 128 + number
    assert errors == b""
    assert _running(children) == []
    assert list(temporary.iterdir()) == []


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _running(pids: list[int]) -> list[int]:
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]
