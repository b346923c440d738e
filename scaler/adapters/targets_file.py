"""Which endpoints to scrape, from a Prometheus `file_sd` JSON file that may change at any time."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from scaler.core.values import Reason
from scaler.ports import SourceError

_MAX_FILE_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Target:
    """One endpoint and the labels that its series get."""

    url: str
    labels: tuple[tuple[str, str], ...]


class _Group(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    targets: Annotated[list[str], Field()]
    labels: dict[str, str] = {}


_GROUPS = TypeAdapter(list[_Group])


class TargetsFile:
    """Reads the file when it has changed. Not thread-safe."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: object = None
        self._targets: tuple[Target, ...] = ()

    def load(self) -> tuple[Target, ...]:
        """Return the targets; SourceError that names the file and what is wrong with it."""
        try:
            seen = file_identity(self._path)
            if seen != self._seen:
                self._targets, self._seen = _parsed(read_json_bytes(self._path)), seen
        except (OSError, ValueError) as error:
            raise SourceError(Reason.SOURCE_DOWN, f"{self._path}: {told(error)}") from error
        return self._targets


def file_identity(path: Path) -> object:
    """Return a value that changes when the file is replaced or written; OSError when there is none."""
    status = os.stat(path)  # noqa: PTH116  # one call for all three
    return status.st_ino, status.st_mtime_ns, status.st_size


def read_json_bytes(path: Path) -> bytes:
    """Return the file's bytes; ValueError beyond a size that no such file has."""
    with path.open("rb") as file:
        data = file.read(_MAX_FILE_BYTES + 1)
    if len(data) > _MAX_FILE_BYTES:
        raise ValueError(f"size must be at most {_MAX_FILE_BYTES} bytes, was more")
    return data


def told(error: Exception) -> str:
    """Return what is wrong in one line; of a validation, the first problem with its place and their number."""
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False, include_context=False)[0]
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".")
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{place or 'document'}: {first['msg']}{more}"


def _parsed(data: bytes) -> tuple[Target, ...]:
    groups = _GROUPS.validate_json(data)
    return tuple(_target(address, group.labels) for group in groups for address in group.targets)


def _target(address: str, labels: dict[str, str]) -> Target:
    """Apply the labels that steer a scrape, as Prometheus does, and keep the others."""
    scheme = labels.get("__scheme__", "http")
    if scheme not in {"http", "https"}:
        raise ValueError(f"__scheme__ must be http or https, was {scheme!r}")
    path = labels.get("__metrics_path__", "/metrics")
    if not path.startswith("/"):
        raise ValueError(f"__metrics_path__ must start with '/', was {path!r}")
    kept: dict[str, Any] = {"instance": address} | {k: v for k, v in labels.items() if not k.startswith("__")}
    return Target(f"{scheme}://{address}{path}", tuple(sorted(kept.items())))
