"""What every command does with its result: text for a person, JSON for a script, and one line for what was wrong."""

import json
import os
import sys
from pathlib import Path
from typing import Any


class BadInputError(Exception):
    """The user's input cannot be used; the message says where and why."""


def print_text(text: str, *, to_stderr: bool) -> None:
    """Print for a person: where stdout is for JSON, to stderr."""
    print(text, file=sys.stderr if to_stderr else sys.stdout)


def write_json(target: str | None, document: dict[str, Any]) -> None:
    """Write a document to a file, to stdout for `-`, or nowhere for None; BadInputError where it cannot be written."""
    if target is None:
        return
    text = json.dumps(document, indent=2, allow_nan=False) + "\n"
    if target == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    try:
        _write(Path(target), text)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise BadInputError(f"--json {target} cannot be written: {error.strerror}") from error


def _write(path: Path, text: str) -> None:
    if path.is_symlink() or (path.exists() and not path.is_file()):
        path.write_text(text, encoding="utf-8")  # a pipe, a device or a link: a rename would take its place
        return
    draft = path.with_name(f".{path.name}.draft")  # a reader that waits for the file finds it whole
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def check_writable(target: str | None) -> None:
    """Raise BadInputError for a `--json` file that cannot be made, before a command does its work."""
    if target is None or target == "-":
        return
    path = Path(target)
    if path.is_dir():
        raise BadInputError(f"--json must be a file, was the folder {target}")
    if not path.parent.is_dir():
        raise BadInputError(f"--json must be in a folder that exists, was {target}")
    existing = path if path.exists() and not path.is_file() else path.parent  # a file is replaced
    if not os.access(existing, os.W_OK):
        raise BadInputError(f"--json must be writable, was {target}")
