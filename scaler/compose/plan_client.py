"""Asks a running controller for its plan, or reads a saved one: what `headway explain` looks at."""

import json
from pathlib import Path
from typing import Any

import requests

from scaler.config.address import Address
from scaler.core.values import WorkloadId


class PlanError(Exception):
    """A plan could not be fetched or read."""


def plan_of(source: Path | str, workload: WorkloadId) -> Any:
    """Return the /plan document that a file holds, or that the admin address of a controller gives for one workload.

    PlanError when there is none to be had.
    """
    if isinstance(source, Path):
        try:
            return json.loads(source.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise PlanError(f"no plan in {source}: {error}") from error
    try:
        return _ask_controller(Address.parse(source), workload)
    except requests.ConnectionError as error:
        raise PlanError(f"no controller answers on {source}: {_plain(error)}") from error
    except (OSError, ValueError) as error:  # requests' errors are OSErrors, a body that is no JSON a ValueError
        raise PlanError(f"no plan from {source}: {error}") from error


def _ask_controller(address: Address, workload: WorkloadId) -> Any:
    query = {"namespace": workload.namespace, "name": workload.name}
    reachable = Address(address.host or "127.0.0.1", address.port)
    with requests.Session() as session:
        session.trust_env = False  # a proxy does not reach this machine's loopback
        answer = session.get(f"http://{reachable}/plan", params=query, timeout=10, allow_redirects=False)
        answer.raise_for_status()
        return answer.json()


def _plain(error: BaseException) -> str:
    """Return what the system said of a failed connection, out of the errors that libraries have wrapped it in."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno is not None and cause.strerror:
            return cause.strerror.lower()
        reason = next((arg for arg in cause.args if isinstance(arg, BaseException)), None)
        cause = getattr(cause, "reason", None) or reason or cause.__cause__ or cause.__context__
    return "no connection"
