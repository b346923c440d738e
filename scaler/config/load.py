"""Reading the configuration file: the only part of the configuration, with `check.py`, that touches the disk."""

import zoneinfo
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from scaler.config.problems import ConfigurationError, Problem, key_of
from scaler.config.process import ProcessConfig, Role
from scaler.config.validate import policy_of, validate_process
from scaler.config.yaml_documents import Document, Parsed, TextProblem, parse_yaml

__all__ = ["ConfigErrors", "ConfigProblem", "load_config", "policy_of"]

MAX_FILE_BYTES = 32 * 1024 * 1024  # 10,000 workloads take about 4 MB


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One thing wrong with a file, and where. Line 0: the file as a whole."""

    file: str
    line: int
    key: str
    message: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{where}: {self.key}: {self.message}" if self.key else f"{where}: {self.message}"


class ConfigErrors(Exception):  # noqa: N818  # it is several errors, and says so
    """A configuration file cannot be used. `problems` has all that is wrong with it, in the order of its lines."""

    def __init__(self, problems: Iterable[ConfigProblem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: problem.line))
        super().__init__("\n".join(map(str, self.problems)))


def load_config(path: Path, *, role: Role | None = None, supplied: Collection[str] = ()) -> ProcessConfig:
    """Read a process configuration; ConfigErrors with every problem at once, each as `file:line: key: must be ...`.

    Relative paths in it start from its folder. With a role, what that role needs must be there, or be among
    `supplied`: top-level keys that come from elsewhere, such as `planStore` from the command line.
    """
    parsed = read_yaml(path)
    found = [located(path, problem) for problem in parsed.problems]
    if len(parsed.documents) > 1:
        extra = parsed.documents[1]
        found.append(ConfigProblem(str(path), extra.line, "", "must be one document, had several"))
    if found and not parsed.documents:
        raise ConfigErrors(found)
    document = parsed.documents[0] if parsed.documents else Document(None, 1, {})
    try:
        config = validate_process(
            document.value, base=path.parent.absolute(), role=role, supplied=supplied, timezones=timezones()
        )
    except ConfigurationError as errors:
        found += [placed(path, document, problem) for problem in errors.details]
    if found:
        raise ConfigErrors(found)
    return config


def read_yaml(path: Path) -> Parsed:
    """Read the documents of a file; ConfigErrors when there is nothing to read."""
    try:
        # One byte more than is read tells a file that is too large, whatever its kind says of its size.
        with path.open("rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        message = f"must be a readable file: {error.strerror or type(error).__name__}"
        raise ConfigErrors([ConfigProblem(str(path), 0, "", message)]) from error
    if len(raw) > MAX_FILE_BYTES:
        raise ConfigErrors([ConfigProblem(str(path), 0, "", f"must have at most {MAX_FILE_BYTES} bytes, has more")])
    try:
        return parse_yaml(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigErrors([ConfigProblem(str(path), line, "", "must be UTF-8")]) from None


def located(path: Path, problem: TextProblem) -> ConfigProblem:
    """Return a problem of a file's text."""
    return ConfigProblem(str(path), problem.line, key_of(problem.path), problem.message)


def placed(path: Path, document: Document, problem: Problem) -> ConfigProblem:
    """Return a problem of what a document says, with the line on which it says so."""
    return ConfigProblem(str(path), document.line_of(problem.path), problem.key, problem.message)


@cache
def timezones() -> frozenset[str]:
    """Return the IANA names that this machine knows; empty where it has no time zone data."""
    return frozenset(zoneinfo.available_timezones())
