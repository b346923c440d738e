"""A real Prometheus for tests, on a free port, ended in any case."""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PROMETHEUS = shutil.which("prometheus")
NEEDS_PROMETHEUS = [
    pytest.mark.prometheus,
    pytest.mark.skipif(PROMETHEUS is None, reason="no prometheus on PATH: Headway was not tested against a real one"),
]


@contextmanager
def started_prometheus(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Start one over `prometheus.yml` in a folder, and return its process and its address; it may not listen yet."""
    assert PROMETHEUS is not None
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                PROMETHEUS,
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--log.level=warn",
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
            env={"GOMAXPROCS": "1"},
        )
    try:
        yield process, f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
