"""What the roles have in common: overrides of the command line, the clock, the registry, telling where they listen."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import structlog
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from scaler.adapters.clock import ScaledClock, SystemClock
from scaler.config.address import Address
from scaler.config.process import ProcessConfig
from scaler.ports import Clock

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Overrides:
    """What the command line says over the configuration file; None: as configured."""

    config_file: Path | None = None
    plan_store: Path | None = None
    grpc_address: str | None = None
    http_address: str | None = None
    admin_address: str | None = None
    log: Path | None = None  # of the processes that serve starts; None: our stderr
    announce: Callable[[dict[str, Any]], None] = lambda _: None  # told the bound addresses, once everything listens


AS_CONFIGURED: Final = Overrides()


def clock_of(config: ProcessConfig) -> Clock:
    """Return the system's clock, or the rehearsal's."""
    section = config.clock
    if section.wall_origin is None or section.origin is None:
        return SystemClock()
    return ScaledClock(section.speed, section.wall_origin, section.origin)


def registry_of_process() -> CollectorRegistry:
    """Return a registry of this process's own: memory, CPU, file descriptors, Python."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


def announce(role: str, overrides: Overrides, servers: Mapping[str, tuple[str, int]]) -> None:
    """Say where the role listens, with the ports that were really bound."""
    addresses = {name: str(Address(Address.parse(asked).host, port)) for name, (asked, port) in servers.items()}
    _log.info("listening", role=role, **addresses)
    overrides.announce({"schema": 1, "role": role, "addresses": addresses})
