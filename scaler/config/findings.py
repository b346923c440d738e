"""What `headway check` found: where, how bad, and what to do; as text for people and as JSON for machines."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from scaler.config.problems import plain


class Severity(StrEnum):
    """An error breaks what Headway promises; a warning is worth a look."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to look at. Line 0: the file as a whole; an empty key: the document as a whole."""

    severity: Severity
    file: str
    line: int
    key: str
    message: str

    def __str__(self) -> str:
        where = f"{plain(self.file)}:{self.line}" if self.line else plain(self.file)
        key = f"{self.key}: " if self.key else ""
        return f"{where}: {self.severity}: {key}{self.message}"


@dataclass(frozen=True, slots=True)
class CheckReport:
    """All findings over all files, in the order of files and lines."""

    files: tuple[str, ...]
    findings: tuple[Finding, ...]

    @classmethod
    def of(cls, files: Iterable[str], findings: Iterable[Finding]) -> "CheckReport":
        """Put findings in order: by file as given, then by line."""
        names = tuple(files)
        place = {name: index for index, name in enumerate(reversed(names))}
        ordered = sorted(findings, key=lambda f: (-place.get(f.file, 0), f.line, f.severity, f.key))
        return cls(names, tuple(ordered))

    @property
    def errors(self) -> int:
        """The number of errors; `headway check` exits with 1 when there are any."""
        return sum(finding.severity is Severity.ERROR for finding in self.findings)

    def text(self) -> str:
        """Return one line for each finding, and a summary."""
        warnings = len(self.findings) - self.errors
        summary = (
            f"{_counted(self.errors, 'error')}, {_counted(warnings, 'warning')} in {_counted(len(self.files), 'file')}"
        )
        return "\n".join([*map(str, self.findings), summary])

    def document(self) -> dict[str, Any]:
        """Return the report as the JSON that `headway check --json` writes."""
        findings = [
            {"severity": f.severity.value, "file": f.file, "line": f.line or None, "key": f.key, "message": f.message}
            for f in self.findings
        ]
        return {"schema": 1, "files": list(self.files), "findings": findings}


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


class FindingEntry(BaseModel):
    """One finding in the JSON document."""

    model_config = ConfigDict(extra="forbid")

    severity: Literal["error", "warning"]
    file: str
    line: int | None
    key: str
    message: str


class CheckDocument(BaseModel):
    """The shape of `headway check --json`; `docs/schemas/check.schema.json` is generated from it."""

    model_config = ConfigDict(extra="forbid", serialize_by_alias=True)

    schema_: Literal[1] = Field(alias="schema")
    files: list[str]
    findings: list[FindingEntry]
