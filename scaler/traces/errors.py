"""The one error of trace files: it says where the file is wrong, so that a person can open it there."""

from pathlib import Path


class TraceError(ValueError):
    """A trace file cannot be used. The message names the file and, where there is one, line, column and value."""

    def __init__(self, path: Path, problem: str, *, line: int | None = None) -> None:
        where = str(path) if line is None else f"{path}:{line}"
        super().__init__(f"{where}: {problem}")
        self.path = path
        self.line = line
