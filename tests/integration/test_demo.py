"""`headway demo` as a person runs it, shortened: real processes, HTTP and gRPC, a report and a result at the end."""

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from scaler.report.run_record import DemoResult

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
