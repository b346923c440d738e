"""The processes of the bench: one numerical thread each, told what to do and heard in JSON, and always ended."""

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self

import psutil  # type: ignore[import-untyped]  # it ships no types

from scaler.adapters.clock import SystemClock

ROOT: Final = Path(__file__).parents[2]
ONE_THREAD: Final = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
ANSWER_S: Final = 180.0  # how long a process may take to start, or beyond what it was told to take
END_S: Final = 30.0


class MeasurementError(Exception):
    """A figure could not be measured; the message says what went wrong."""


def say(document: Mapping[str, Any]) -> None:
    """Tell the parent something: one line of JSON on stdout."""
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def told() -> dict[str, Any]:
    """Return what the parent said that this process is to do: the JSON object in its one argument."""
    document: dict[str, Any] = json.loads(sys.argv[1])
    return document


class Child:
    """A running process. What it says on stdout is heard line by line; stderr goes to a log in the bench's folder."""

    def __init__(self, name: str, arguments: Sequence[str], folder: Path) -> None:
        self.name = name
        self._log = folder / f"{name}.log"
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=ROOT,
                env=os.environ | ONE_THREAD,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        if self._process.stdout is None:
            raise RuntimeError("a pipe was asked for")
        self._stdout = self._process.stdout
        self._system = psutil.Process(self._process.pid)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @classmethod
    def module(cls, module: str, task: Mapping[str, Any], folder: Path, *, name: str = "") -> Self:
        """Start a module of this package with a task."""
        return cls(name or module, ["-m", f"tests.bench.{module}", json.dumps(task)], folder)

    def hear(self, within_s: float = ANSWER_S) -> dict[str, Any]:
        """Return the next thing that it says; MeasurementError when it ends or says nothing in time."""
        try:
            line = self._lines.get(timeout=within_s)
        except queue.Empty:
            raise MeasurementError(f"{self.name} said nothing within {within_s:g} s") from None
        if line is None:
            raise self.ended()
        document: dict[str, Any] = json.loads(line)
        return document

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def alive(self) -> bool:
        """Return whether it still runs."""
        return self._process.poll() is None

    def ended(self) -> MeasurementError:
        """Return the error that says that it ended."""
        return MeasurementError(f"{self.name} ended with {self._process.wait()}: {self._last_words()}")

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let it stand still for the length of the context."""
        self._system.suspend()
        try:
            yield
        finally:
            self._system.resume()

    def peak_mb(self) -> float:
        """Return the most memory that it ever held (resident), in MB of 10^6 bytes; what it holds now where unknown."""
        with suppress(OSError, ValueError, StopIteration):
            status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="ascii")
            line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
            return int(line.split()[1]) * 1024 / 1e6
        return float(self._system.memory_info().rss) / 1e6

    def end(self) -> None:
        """Ask it to end, and make it where it does not. What it says at its end can still be heard."""
        self._process.terminate()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(END_S)

    def _read(self) -> None:
        with self._stdout:
            for line in self._stdout:
                self._lines.put(line)
        self._lines.put(None)

    def _last_words(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace").strip()[-2000:] or "(no words)"


@contextmanager
def running(child: Child) -> Iterator[Child]:
    """End a process with the context."""
    try:
        yield child
    finally:
        child.end()


def announced(child: Child, announcement: Path, clock: SystemClock, within_s: float = ANSWER_S) -> dict[str, Any]:
    """Return what a role of Headway wrote once it listened; MeasurementError when it ends or does not in time."""
    deadline_s = clock.monotonic_s() + within_s
    pause = threading.Event()
    while clock.monotonic_s() < deadline_s:
        with suppress(OSError, ValueError):  # not there yet, or not whole yet
            document: dict[str, Any] = json.loads(announcement.read_text(encoding="utf-8"))
            return document
        if not child.alive():
            raise child.ended()
        pause.wait(0.02)
    raise MeasurementError(f"{child.name} did not listen within {within_s:g} s")
