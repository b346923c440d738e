"""What `headway` does with the files and pipes that it is to write, and with a controller that does not answer."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from scaler.cli import main
from tests.roles_rig import PATIENCE_S, rig_in

MANIFEST = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: other\n"


@pytest.fixture
def manifest(tmp_path: Path) -> str:
    """Write a file that `headway check` can read; return its path."""
    path = tmp_path / "manifest.yaml"
    path.write_text(MANIFEST)
    return str(path)


def test_json_goes_through_a_link_and_leaves_it(tmp_path: Path, manifest: str) -> None:
    """The link stays a link; its file has the document."""
    link, file = tmp_path / "link.json", tmp_path / "file.json"
    link.symlink_to(file)
    main(["check", manifest, "--json", str(link)])
    assert link.is_symlink()
    assert json.loads(file.read_text())["schema"] == 1


def test_json_goes_into_a_named_pipe(tmp_path: Path, manifest: str) -> None:
    """The reader of the pipe gets the document, and the pipe is still one."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        main(["check", manifest, "--json", str(pipe)])
        assert json.loads(os.read(reading, 65536))["schema"] == 1
    finally:
        os.close(reading)
    assert pipe.is_fifo()


def test_json_replaces_a_file_whole_and_leaves_no_draft(tmp_path: Path, manifest: str) -> None:
    """A plain file is renamed into place."""
    file = tmp_path / "file.json"
    file.write_text("old")
    main(["check", manifest, "--json", str(file)])
    assert json.loads(file.read_text())["schema"] == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file.json", "manifest.yaml"]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (".", "--json must be a file, was the folder ."),
        ("nowhere/x.json", "--json must be in a folder that exists, was nowhere/x.json"),
        ("/dev/full", "--json /dev/full cannot be written: No space left on device"),
    ],
)
def test_json_that_cannot_be_written_is_one_line(
    manifest: str, target: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit status 2."""
    assert main(["check", manifest, "--json", target]) == 2
    assert capsys.readouterr().err == f"headway check: {message}\n"


def test_a_full_device_for_the_output_is_one_line(manifest: str) -> None:
    """Exit status 2 and no trace of Python, not even from its end."""
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "scaler", "check", manifest],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert ended.returncode == 2
    assert ended.stderr == "headway check: [Errno 28] No space left on device\n"


def test_explain_without_a_controller_is_one_plain_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment's proxy is not asked for what is on this machine."""
    monkeypatch.setenv("http_proxy", "http://proxy.invalid:3128")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound, but nobody listens
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        assert main(["explain", "demo/chat", "--admin-address", address]) == 2
    expected = f"headway explain: no controller answers on {address}: connection refused\n"
    assert capsys.readouterr().err == expected


def test_explain_names_an_address_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 2, one line."""
    assert main(["explain", "demo/chat", "--admin-address", "here"]) == 2
    assert "address must be HOST:PORT" in capsys.readouterr().err


async def test_serve_gives_up_on_a_role_that_cannot_start(tmp_path: Path) -> None:
    """An address that is taken: exit status 2, the role's own words on stderr, and no role left running."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        async with rig_in(tmp_path) as rig:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "scaler", "serve", "--config", str(rig.config), "--grpc-address", address,
                stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            # The roles have the same stderr: it ends when the last of them has ended.
            _, errors = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert process.returncode == 2
    assert f"headway scaler: {address} cannot be bound" in errors.decode()
    assert errors.decode().endswith("headway serve: the scaler cannot start\n")
