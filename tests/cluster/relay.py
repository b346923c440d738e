"""A relay of TCP connections that a test can cut or stall; KEDA keeps the one that it has for as long as it lives."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_ALWAYS = threading.Event()
_ALWAYS.set()


class Relay:
    """Passes on what arrives at its port to another port of this machine, unread."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self.port: int = listener.getsockname()[1]
        self.to_port = 0  # 0: nobody is there, connections are closed at once
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self.accepted = 0
        self._passes = threading.Event()
        self._passes.set()

    def hold(self) -> None:
        """Keep what clients send from now on; what servers send passes."""
        self._passes.clear()

    def release(self) -> None:
        """Pass on what was kept, and all that comes."""
        self._passes.set()

    def cut(self) -> None:
        """Reset the connections that are open."""
        with self._lock:
            for each in self._open:
                _reset(each)
            self._open.clear()

    def serve(self) -> None:
        """Accept until the listener is closed."""
        while True:
            try:
                arrived, _ = self._listener.accept()
            except OSError:
                return
            try:
                onward = socket.create_connection(("127.0.0.1", self.to_port), timeout=5)
            except OSError:
                _reset(arrived)
                continue
            onward.settimeout(None)
            with self._lock:
                self.accepted += 1
                self._open += (arrived, onward)
            for source, sink, passes in ((arrived, onward, self._passes), (onward, arrived, _ALWAYS)):
                threading.Thread(target=_pass_on, args=(source, sink, passes), daemon=True).start()


def _pass_on(source: socket.socket, sink: socket.socket, passes: threading.Event) -> None:
    with contextlib.suppress(OSError):
        while received := source.recv(65536):
            passes.wait()
            sink.sendall(received)
    for each in (source, sink):
        _reset(each)


def _reset(connection: socket.socket) -> None:
    """End a connection for both of the threads that use it."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


@contextmanager
def relaying() -> Iterator[Relay]:
    """Listen on a free port; set `to_port` when there is somebody."""
    listener = socket.create_server(("127.0.0.1", 0))
    relay = Relay(listener)
    thread = threading.Thread(target=relay.serve, daemon=True)
    thread.start()
    try:
        yield relay
    finally:
        _reset(listener)
        relay.release()
        relay.cut()
        thread.join()
