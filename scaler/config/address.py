"""Reads the addresses that servers listen on: `:8080`, `127.0.0.1:0`, `[::1]:9000`, `localhost:80`."""

import ipaddress
import re
from dataclasses import dataclass

MAX_PORT = 65535
_FORM = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]*):(?P<port>[0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen. An empty host means all interfaces, port 0 any free port."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Read `HOST:PORT`, `[IPV6]:PORT` or `:PORT`; ValueError if it is none of them."""
        match = _FORM.fullmatch(text)
        if match is None:
            raise ValueError(f"address must be HOST:PORT, [IPV6]:PORT or :PORT, was {text!r}")
        if int(match["port"]) > MAX_PORT:
            raise ValueError(f"address must have a port from 0 to {MAX_PORT}, was {text!r}")
        return cls(match["host"].strip("[]"), int(match["port"]))

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
