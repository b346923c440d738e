"""A recorded run of a metrics source, and the recorder.

A recording is a file of JSON lines, plain or gzip (by its name), in order of time. Each line is one fetch: `{"at_s",
"samples": [{"name", "labels", "value", "at_s"}], "names": [...], "partial": [...]}`, or, where the source failed,
`{"at_s", "error", "message", "names": [...]}`. `names` (what was asked for) and `partial` may be left out. Values that
JSON does not have are strings: "nan", "inf", "-inf".
"""

import asyncio
import gzip
import json
import math
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from scaler.core.values import Reason
from scaler.ports import MetricsSource, Sample, SampleBatch, SampleRequest, SourceError


@dataclass(frozen=True, slots=True)
class _Record:
    """One line of a recording."""

    at_s: float
    names: frozenset[str] | None
    outcome: SampleBatch | SourceError

    def answers(self, request: SampleRequest) -> bool:
        return self.names is None or not self.names.isdisjoint(request.names)


class ReplaySource:
    """A MetricsSource that serves a recording by its own time: the newest fetch that is not in the future.

    Samples keep their time stamps, so after the last line they grow stale as they would live.
    """

    def __init__(self, path: Path) -> None:
        """Open the file at the first fetch."""
        self._path = path
        self._lines: Generator[_Record] | None = None
        self._next: _Record | None = None
        self._current: list[_Record] = []  # the fetches of one tick have the same time

    async def fetch(self, request: SampleRequest, now_s: float) -> SampleBatch:
        """Return what was recorded for these names; SourceError before the start, for a bad line, or as recorded."""
        try:
            self._advance(now_s)
        except SourceError:
            await self.close()  # so that a later fetch meets the same bad line, and not the end of the file
            raise
        answers = [record.outcome for record in self._current if record.answers(request)]
        if not answers:
            raise SourceError(Reason.SOURCE_DOWN, f"{self._path}: nothing was recorded at or before {now_s:.3f}")
        samples: list[Sample] = []
        partial: list[str] = []
        for answer in answers:
            if isinstance(answer, SourceError):
                raise SourceError(answer.reason, str(answer))
            samples += (s for s in answer.samples if _is_wanted(s, request))
            partial += answer.partial
        return SampleBatch(tuple(samples), tuple(partial))

    async def close(self) -> None:
        """Close the file."""
        if self._lines is not None:
            self._lines.close()
        self._lines, self._next, self._current = None, None, []

    def _advance(self, now_s: float) -> None:
        if self._current and now_s < self._current[0].at_s:
            self._lines = None  # time went back: from the beginning
        if self._lines is None:
            self._lines, self._current = _records(self._path), []
            self._next = next(self._lines, None)
        while self._next is not None and self._next.at_s <= now_s:
            if self._current and self._next.at_s > self._current[0].at_s:
                self._current = []
            self._current.append(self._next)
            self._next = next(self._lines, None)


class RecordingSource:
    """A MetricsSource that passes on what another returns, and writes it down."""

    def __init__(self, source: MetricsSource, path: Path) -> None:
        """Append to `path`."""
        self._source = source
        self._path = path
        self._writing = asyncio.Lock()

    async def fetch(self, request: SampleRequest, now_s: float) -> SampleBatch:
        """Return the source's answer, recorded; a failure is recorded and raised."""
        record: dict[str, Any] = {"at_s": now_s, "names": sorted(request.names)}
        try:
            batch = await self._source.fetch(request, now_s)
        except SourceError as error:
            await self._write(record | {"error": error.reason.value, "message": str(error)})
            raise
        await self._write(record | {"samples": [_sample_to_json(s) for s in batch.samples], "partial": batch.partial})
        return batch

    async def close(self) -> None:
        """Close the source."""
        await self._source.close()

    async def _write(self, record: dict[str, Any]) -> None:
        line = json.dumps(record, allow_nan=False, separators=(",", ":")) + "\n"
        async with self._writing:
            await asyncio.to_thread(self._append, line)

    def _append(self, line: str) -> None:
        with _opened(self._path, "at") as file:
            file.write(line)


def _opened(path: Path, mode: str) -> IO[str]:
    opener = gzip.open if path.suffix == ".gz" else open
    return cast("IO[str]", opener(path, mode, encoding="utf-8"))


def _records(path: Path) -> Generator[_Record]:
    """Read a recording; SourceError that names the file and the line of what is wrong."""
    before_s, number = -math.inf, 0
    try:
        with _opened(path, "rt") as file:
            for number, line in enumerate(file, start=1):  # noqa: B007  # used in the error
                record = _record(line, before_s)
                before_s = record.at_s
                yield record
    except (OSError, EOFError) as error:  # EOFError: a gzip file that was cut off
        raise SourceError(Reason.SOURCE_DOWN, f"{path}: {error}") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise SourceError(Reason.SOURCE_DOWN, f"{path}:{number}: {what}") from error


def _record(line: str, before_s: float) -> _Record:
    document = json.loads(line)
    at_s, names = float(document["at_s"]), document.get("names")
    if not at_s >= before_s:
        raise ValueError(f"at_s must not fall, was {at_s} after {before_s}")
    outcome: SampleBatch | SourceError
    if "error" in document:
        outcome = SourceError(Reason(document["error"]), str(document.get("message", "")))
    else:
        samples = tuple(_sample_from_json(sample) for sample in document["samples"])
        outcome = SampleBatch(samples, tuple(document.get("partial", ())))
    return _Record(at_s, None if names is None else frozenset(names), outcome)


def _sample_from_json(document: Any) -> Sample:
    labels = {str(name): str(value) for name, value in document["labels"].items()}
    return Sample(str(document["name"]), labels, float(document["value"]), float(document["at_s"]))


def _sample_to_json(sample: Sample) -> dict[str, Any]:
    value = sample.value if math.isfinite(sample.value) else str(sample.value)
    return {"name": sample.name, "labels": dict(sample.labels), "value": value, "at_s": sample.at_s}


def _is_wanted(sample: Sample, request: SampleRequest) -> bool:
    if sample.name not in request.names:
        return False
    return not request.namespaces or sample.labels.get("namespace") in request.namespaces
