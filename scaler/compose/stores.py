"""Files that outlive a process: where the plan travels on one machine, and the controller's own checkpoint."""

from pathlib import Path

from scaler.adapters.state_store import FileStateStore, MemoryStateStore
from scaler.compose.parts import Overrides
from scaler.config.process import ProcessConfig
from scaler.ports import StateStore


def make_room_for_plan(config: ProcessConfig, overrides: Overrides) -> None:
    """Make the plan's folder, once: when it vanishes later, the plan in it has too. ValueError where it cannot be."""
    path = plan_path(config, overrides)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"planStore.file must have a folder that can be made, was {path}: {error.strerror}") from error
    if path.is_dir():
        raise ValueError(f"planStore.file must be a file, was the folder {path}")


def plan_path(config: ProcessConfig, overrides: Overrides) -> Path:
    """Return the file in which the plan travels on one machine; ValueError where none is given."""
    path = overrides.plan_store or (config.plan_store.file if config.plan_store else None)
    if path is None:
        raise ValueError("planStore must name a file")
    return path


def state_store_of(config: ProcessConfig) -> StateStore:
    """Return where the controller checkpoints what it remembers."""
    path = config.controller.checkpoint
    return MemoryStateStore() if path is None else FileStateStore(path)
