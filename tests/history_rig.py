"""A real Prometheus that holds a past: samples are written as blocks before it starts, so days take seconds."""

import asyncio
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from forecasting.series import Grid
from scaler.adapters.history.ranges import RangeAnswer, RangeSource
from scaler.core.values import Reason
from scaler.ports import SourceError

PROMETHEUS = shutil.which("prometheus")
PROMTOOL = shutil.which("promtool")
NEEDED = "no prometheus and promtool on PATH: history was not tested against a real one"
DEADLINE_S = 120.0
START_S = 1_771_200_000  # 2026-02-16 00:00 UTC
DAY_S = 86_400

Samples = Iterable[tuple[int, float]]  # Unix seconds, value


@dataclass(frozen=True)
class Recorded:
    """One series as it was scraped."""

    name: str
    labels: Mapping[str, str]
    samples: Samples

    def lines(self) -> Iterable[str]:
        escaped = (
            (k, v.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")) for k, v in self.labels.items()
        )
        labels = ",".join(f'{k}="{v}"' for k, v in escaped)
        return (f"{self.name}{{{labels}}} {value!r} {at_s}" for at_s, value in self.samples)


def every(step_s: int, start_s: int, end_s: int, value: float = 1.0) -> list[tuple[int, float]]:
    """Return samples of one value from `start_s` to `end_s`, both included."""
    return [(at_s, value) for at_s in range(start_s, end_s + 1, step_s)]


def write_blocks(folder: Path, recorded: Iterable[Recorded]) -> None:
    """Write series as the blocks of a Prometheus."""
    assert PROMTOOL is not None
    by_name: dict[str, list[Recorded]] = {}
    for series in recorded:
        by_name.setdefault(series.name, []).append(series)
    lines: list[str] = []
    for name, members in by_name.items():
        lines.append(f"# TYPE {name} unknown")
        for series in members:
            lines += series.lines()
    text = folder / "past.om"
    text.write_text("\n".join([*lines, "# EOF", ""]))
    # Blocks of two hours, the default, would each cost another pass over the file. Not listed in the help.
    whole = "--max-block-duration=800h"
    command = [PROMTOOL, "tsdb", "create-blocks-from", "openmetrics", "-q", whole, str(text), str(folder / "data")]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr


@asynccontextmanager
async def prometheus_of(folder: Path, recorded: Iterable[Recorded], *flags: str) -> AsyncIterator[str]:
    """Run a Prometheus that has these series and scrapes nothing; yield its address, and end it in any case."""
    await asyncio.to_thread(write_blocks, folder, recorded)
    (folder / "prometheus.yml").write_text("global: {}\n")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = _start(folder, port, flags)
    try:
        await _until_ready(f"http://127.0.0.1:{port}", process, folder)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _start(folder: Path, port: int, flags: Sequence[str]) -> subprocess.Popen[bytes]:
    assert PROMETHEUS is not None
    command = [
        PROMETHEUS,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        "--storage.tsdb.retention.time=100y",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
        *flags,
    ]
    with (folder / "prometheus.log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env={"GOMAXPROCS": "1"})


async def _until_ready(url: str, process: subprocess.Popen[bytes], folder: Path) -> None:
    async with aiohttp.ClientSession() as session, asyncio.timeout(DEADLINE_S):
        while process.poll() is None:
            try:
                async with session.get(f"{url}/-/ready") as response:
                    if response.status == 200:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.05)
    raise AssertionError(f"prometheus ended: {(folder / 'prometheus.log').read_text()}")


@dataclass
class Asked:
    """A RangeSource that notes what goes through it to another, and fails when told to."""

    source: RangeSource
    queries: list[tuple[str, Grid]] = field(default_factory=list)
    failing: bool = False
    fail_at: Sequence[int] = ()  # numbers of queries, from 0
    partial: tuple[str, ...] = ()

    async def matrix(self, query: str, grid: Grid) -> RangeAnswer:
        number = len(self.queries)
        self.queries.append((query, grid))
        if self.failing or number in self.fail_at:
            raise SourceError(Reason.SOURCE_DOWN, "refused")
        answer = await self.source.matrix(query, grid)
        return RangeAnswer(answer.rows, self.partial, answer.samples)
