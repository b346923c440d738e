"""A relay of TCP connections that a test can cut, because KEDA keeps the one that it has for as long as it lives."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Relay:
    """Passes on what arrives at its port to another port of this machine, unread."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self.port: int = listener.getsockname()[1]
        self.to_port = 0  # 0: nobody is there, connections are closed at once
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self.accepted = 0

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
            for source, sink in ((arrived, onward), (onward, arrived)):
                threading.Thread(target=_pass_on, args=(source, sink), daemon=True).start()


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while received := source.recv(65536):
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
        relay.cut()
        thread.join()
