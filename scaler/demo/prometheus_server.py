"""A real Prometheus server between the simulated fleet and Headway, for `headway demo --prometheus`."""

import asyncio
import shutil
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import aiohttp
import yaml

from scaler.runtime.processes import tell

READY_WITHIN_S: Final = 30.0
_POLL_S: Final = 0.1


class PrometheusError(Exception):
    """The server is not installed, or did not start."""


@asynccontextmanager
async def prometheus_server(folder: Path, targets: Path, scrape_interval_s: float) -> AsyncIterator[str]:
    """Run a server that scrapes the file_sd targets every `scrape_interval_s` of the wall; yield its URL.

    PrometheusError when there is none on PATH or it does not get ready. It is ended in any case.
    """
    binary = shutil.which("prometheus")
    if binary is None:
        raise PrometheusError("--prometheus needs a prometheus on PATH (make system-deps installs Debian's)")
    config = folder / "prometheus.yml"
    config.write_text(yaml.safe_dump(_configuration(targets, scrape_interval_s)), encoding="utf-8")
    address = f"127.0.0.1:{_free_port()}"
    with (folder / "prometheus.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            binary,
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            f"--web.listen-address={address}",
            stdout=log,
            stderr=log,
        )
    try:
        await _ready(f"http://{address}", process)
        yield f"http://{address}"
    finally:
        tell(process, signal.SIGKILL)  # its data are in a temporary folder
        await process.wait()


def _configuration(targets: Path, scrape_interval_s: float) -> dict[str, object]:
    interval = f"{max(1, round(scrape_interval_s * 1000))}ms"
    job = {"job_name": "fleet", "file_sd_configs": [{"files": [str(targets)], "refresh_interval": "1s"}]}
    return {"global": {"scrape_interval": interval, "scrape_timeout": interval}, "scrape_configs": [job]}


async def _ready(url: str, process: asyncio.subprocess.Process) -> None:
    try:
        async with asyncio.timeout(READY_WITHIN_S), aiohttp.ClientSession() as session:
            while process.returncode is None:
                try:
                    async with session.get(f"{url}/-/ready") as answer:
                        if answer.status == 200:
                            return
                except aiohttp.ClientError:
                    pass  # it does not listen yet
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        raise PrometheusError(f"prometheus was not ready within {READY_WITHIN_S:g} s") from None
    raise PrometheusError(f"prometheus ended with status {process.returncode}")


def _free_port() -> int:
    """Return a port that was free a moment ago: the server cannot choose one and tell."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
