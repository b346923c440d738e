"""Programs that a test starts, each with a log of its own, all ended by their process ids whatever happens."""

import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

T = TypeVar("T")
PATIENCE_S = 60.0
_LOOK_EVERY_S = 0.05
_GRACE_S = 20.0
# Below the kernel's range for outgoing connections, one of which would otherwise take a port before its program does.
_PORTS = range(15_000, 32_000)
# A test run that is killed takes its programs with it.
_WITH_PARENT = (("setpriv", "--pdeathsig", "KILL", "--"),) if shutil.which("setpriv") else ()


def free_port(hosts: Sequence[str] = ("127.0.0.1",)) -> int:
    """Return a port that nothing listens on at any of these addresses."""
    for _ in range(200):
        port = random.choice(_PORTS)  # noqa: S311  # not a secret
        if all(_is_free(host, port) for host in hosts):
            return port
    raise OSError(f"no port of {_PORTS.start}..{_PORTS.stop - 1} is free on {', '.join(hosts)}")


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


def until(ask: Callable[[], T], what: str, *, within_s: float = PATIENCE_S, every_s: float = _LOOK_EVERY_S) -> T:
    """Ask until the answer is true, and return it; if it never is, fail and name what was waited for."""
    end = time.perf_counter() + within_s
    while not (answer := ask()):
        if time.perf_counter() > end:
            raise AssertionError(f"waited {within_s:g} s in vain for {what}; the last answer was {answer!r}")
        time.sleep(every_s)
    return answer


@dataclass
class Program:
    """A program that runs, or did; its log holds what it has written in all of its lives."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    ready: Callable[[], bool]
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*(word for prefix in _WITH_PARENT for word in prefix), *self.command],
                stdout=log,
                stderr=subprocess.STDOUT,
                env={"PATH": os.environ["PATH"], "HOME": str(self.log.parent), **self.environment},
            )
        until(self._ready_or_gone, f"{self.name} to be ready")

    def _ready_or_gone(self) -> bool:
        assert self.process is not None
        if (code := self.process.poll()) is not None:
            raise AssertionError(f"{self.name} ended with {code}: {self.last_words()}")
        return self.ready()

    @property
    def alive(self) -> bool:
        """Whether it runs now."""
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        """End it as a crash would, and wait for its end."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ask it to end, as a kubelet does, and wait; one that stays longer than its grace is killed."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(how)
        try:
            self.process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def last_words(self, lines: int = 15) -> str:
        """Return the end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


@dataclass
class Programs:
    """All programs of one test cluster; leaving the context ends them, the last started first."""

    folder: Path
    started: list[Program] = field(default_factory=list)

    def start(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        environment: Mapping[str, str] | None = None,
        ready: Callable[[], bool] = lambda: True,
    ) -> Program:
        """Start a program and wait until it is ready. Several may bear one name: their logs are numbered."""
        number = sum(each.name == name for each in self.started)
        log = self.folder / (f"{name}-{number}.log" if number else f"{name}.log")
        program = Program(name, [str(word) for word in command], environment or {}, log, ready)
        self.started.append(program)
        program.start()
        return program

    def __enter__(self) -> Self:
        """Start nothing yet."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End what still runs."""
        for program in reversed(self.started):
            program.kill() if program.name in _STATELESS else program.stop()


# Nothing is lost with them at a test's end, and their graceful ends take seconds.
_STATELESS = frozenset(("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"))
