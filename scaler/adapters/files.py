"""Replacing a file as a whole, so that a reader or a power cut finds the old content or the new, never a part."""

import os
from contextlib import suppress
from pathlib import Path
from uuid import uuid4


def replace_file(path: Path, content: bytes) -> None:
    """Replace `path` durably; OSError when it cannot, and then the old content still stands."""
    draft = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        with draft.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)  # there is one only if something failed
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the renames within a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
