"""Where a controller keeps its own checkpoint: a local file, or memory in tests. Loading it or starting empty.

Nothing in a checkpoint may stop a start: what cannot be used is set aside for a person to look at, and said in the log.
"""

import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, NoReturn

import structlog
from pydantic import TypeAdapter

from scaler.adapters.files import replace_file
from scaler.core.state import EngineState, WorkloadState, state_from_json, state_to_json
from scaler.ports import StoreError

_log = structlog.get_logger(__name__)


class LoadOutcome(StrEnum):
    """What a load found."""

    LOADED = "loaded"
    NONE = "none"  # there is no checkpoint: a first start
    UNREADABLE = "unreadable"  # there is one, and the file system does not give it
    REJECTED = "rejected"  # it is of another version, or not a checkpoint; it is set aside


@dataclass(frozen=True, slots=True)
class Loaded:
    """A state to start with, and how it came about; `detail` is empty unless something was wrong."""

    state: EngineState
    outcome: LoadOutcome
    detail: str = ""


class MemoryStateStore:
    """A checkpoint within one process."""

    def __init__(self) -> None:
        self._state = EngineState.empty()

    def load(self) -> EngineState:
        """Return the last saved state, or the empty one."""
        return self._state

    def save(self, state: EngineState) -> None:
        """Keep the state."""
        self._state = state


class FileStateStore:
    """A checkpoint in one file, replaced as a whole.

    A checkpoint that cannot be used is renamed to `<path>.rejected` (over an earlier one), so that it neither stops
    the next start nor is lost by the next save.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> EngineState:
        """Return the checkpointed state, or the empty one when there is none or it cannot be used; logs which."""
        loaded = self.load_explained()
        event = {"path": str(self._path), "outcome": loaded.outcome.value, "workloads": len(loaded.state.workloads)}
        if loaded.detail:
            _log.warning("checkpoint", **event, detail=loaded.detail)
        else:
            _log.info("checkpoint", **event)
        return loaded.state

    def load_explained(self) -> Loaded:
        """Return what `load` returns, with the outcome."""
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return Loaded(EngineState.empty(), LoadOutcome.NONE)
        except OSError as error:
            return Loaded(EngineState.empty(), LoadOutcome.UNREADABLE, str(error))
        try:
            return Loaded(_decode(content), LoadOutcome.LOADED)
        except (ValueError, RecursionError) as error:
            return Loaded(EngineState.empty(), LoadOutcome.REJECTED, f"{_short(error)}{self._set_aside()}")

    def save(self, state: EngineState) -> None:
        """Replace the checkpoint atomically and durably; StoreError when it cannot. Makes its folder where missing."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self._path, _encode(state))
        except (OSError, ValueError) as error:  # a number that JSON does not have must not end the control loop
            raise StoreError(f"checkpoint {self._path} cannot be written: {error}") from error

    def _set_aside(self) -> str:
        """Rename the checkpoint; return what could not be done, to be said after the reason."""
        try:
            self._path.replace(self._path.with_name(f"{self._path.name}.rejected"))
        except OSError as error:
            return f"; it could not be set aside: {error}"
        return ""


_SHAPE = TypeAdapter(dict[str, WorkloadState])


def _encode(state: EngineState) -> bytes:
    return json.dumps(state_to_json(state), separators=(",", ":"), allow_nan=False).encode()


def _decode(content: bytes) -> EngineState:
    """Read a checkpoint; ValueError unless every value in it is of the kind that the decision computes with."""
    document: Any = json.loads(content, parse_constant=_refuse)
    state = state_from_json(document)
    # As JSON, where strict still takes a list for a tuple: a target that reads "9" must not reach the decision as text.
    _SHAPE.validate_json(json.dumps(document["workloads"]), strict=True)
    return state


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"numbers must be finite, was {constant}")


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
