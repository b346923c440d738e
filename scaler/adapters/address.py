"""Reads the addresses that servers listen on: `:8080`, `127.0.0.1:0`, `[::1]:9000`, `localhost:80`."""

import ipaddress
from dataclasses import dataclass

MAX_PORT = 65535


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen. An empty host means all interfaces, port 0 any free port."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Read `HOST:PORT`, `[IPV6]:PORT` or `:PORT`; ValueError if it is none of them."""
        host, colon, port = text.rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        if not colon or not port.isascii() or not port.isdigit() or (":" in host and not bracketed):
            raise ValueError(f"address must be HOST:PORT, [IPV6]:PORT or :PORT, was {text!r}")
        if int(port) > MAX_PORT:
            raise ValueError(f"address must have a port from 0 to {MAX_PORT}, was {text!r}")
        return cls(host[1:-1] if bracketed else host, int(port))

    @property
    def loopback(self) -> bool:
        """Return whether only this machine can reach it."""
        return is_loopback(self.host)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine by its very name: no name is resolved."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
