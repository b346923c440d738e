"""`headway serve`: both roles on one machine, each as a process of its own."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from scaler.compose.parts import AS_CONFIGURED, Overrides
from scaler.config.process import ProcessConfig
from scaler.runtime.processes import Role, keep_running

_ANNOUNCE_POLL_S: Final = 0.05


async def serve(config: ProcessConfig, stop: asyncio.Event, overrides: Overrides = AS_CONFIGURED) -> None:
    """Run both roles, each as a process of its own, until `stop` is set; one that ends by itself is started again.

    RoleError when one cannot start at all. OSError when the addresses cannot be announced.
    """
    if overrides.config_file is None:
        raise ValueError("serve needs the configuration file, for its processes to read")
    with TemporaryDirectory(prefix="headway-") as name:
        folder = Path(name)
        common = ("--config", str(overrides.config_file), *_plan_store(config, overrides, folder))
        files = {role: folder / f"{role}.json" for role in ("controller", "scaler")}
        controller = _arguments(http_address=overrides.http_address, admin_address=overrides.admin_address)
        scaler = _arguments(grpc_address=overrides.grpc_address)
        given = {"controller": controller, "scaler": scaler}
        roles = [
            Role(role, (role, *common, "--json", str(file), *given[role]), announced=file)
            for role, file in files.items()
        ]
        try:
            async with asyncio.TaskGroup() as group:
                announcing = group.create_task(_announce_all(files, overrides))
                await keep_running(roles, stop, log=overrides.log)
                announcing.cancel()
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None


def _plan_store(config: ProcessConfig, overrides: Overrides, folder: Path) -> tuple[str, ...]:
    """Return the arguments that let both roles meet: at what is configured, else at a file of this run's own."""
    if overrides.plan_store is None and config.plan_store is not None:
        return ()
    return "--plan-store", str(overrides.plan_store or folder / "plan.json")


def _arguments(**addresses: str | None) -> tuple[str, ...]:
    given = ((f"--{name.replace('_', '-')}", value) for name, value in addresses.items() if value is not None)
    return tuple(word for pair in given for word in pair)


async def _announce_all(files: Mapping[str, Path], overrides: Overrides) -> None:
    """Announce the addresses of all roles as one, once each has said its own."""
    while not all(file.exists() for file in files.values()):  # noqa: ASYNC110  # other processes make them
        await asyncio.sleep(_ANNOUNCE_POLL_S)
    said = {role: json.loads(file.read_text(encoding="utf-8"))["addresses"] for role, file in files.items()}
    addresses = {f"{role}_{name}": value for role, ports in said.items() for name, value in ports.items()}
    overrides.announce({"schema": 1, "role": "serve", "addresses": addresses})
