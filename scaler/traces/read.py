"""Trace files in: CSV, plain or gzip, into the frozen values of `model`. The first bad row ends it, by name.

What a file may be is a contract (see the documentation of trace files): counts with `timestamp` and at least one of
`requests`, `prompt_tokens`, `output_tokens`, `total_tokens`, or requests with `arrival_s`. Other columns are ignored.
"""

import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from pathlib import Path

import numpy as np

from scaler.traces.errors import TraceError
from scaler.traces.model import COUNT_COLUMNS, REQUEST_COLUMNS, CountTrace, FloatArray, IntArray, RequestTrace, Trace

# A grid that one stray stamp stretches over decades would fill the memory with missing bins.
MAX_BINS = 20_000_000

_UNREADABLE = (csv.Error, UnicodeDecodeError, EOFError, zlib.error, gzip.BadGzipFile)
_GZIP_MAGIC = b"\x1f\x8b"
_STEP_TOLERANCE = 1e-3  # of a step; fractional stamps are rounded in files


def read_trace(path: Path, timezone: tzinfo = UTC) -> Trace:
    """Read a trace file. TraceError names the file, and the line, column and value that are wrong.

    `timezone` is for time stamps without one of their own. Such stamps are read as a regular grid of elapsed time from
    the first one: a recorder on a wall clock leaves out or repeats an hour when daylight saving time changes, and a
    count can be in one place only.
    """
    with _open_text(path) as stream:
        table = _Table(path, stream)
        try:
            if "arrival_s" in table.index:
                return _read_requests(table)
            return _read_counts(table, timezone)
        except _UNREADABLE as error:
            raise TraceError(path, f"not a readable CSV file: {error}", line=table.line) from error


def trace_name(path: Path) -> str:
    """Return the name of a trace: its file name without .csv[.gz]."""
    return path.name.removesuffix(".gz").removesuffix(".csv")


def _open_text(path: Path) -> io.TextIOWrapper:
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == _GZIP_MAGIC  # what a file is called is no proof of what is in it
        binary = gzip.open(path, "rb") if packed else path.open("rb")  # noqa: SIM115 - the text wrapper closes it
    except OSError as error:
        raise TraceError(path, f"cannot be opened: {error.strerror}") from error
    return io.TextIOWrapper(binary, encoding="utf-8-sig", newline="")


class _Table:
    """The rows of one file by column name, with the line for errors."""

    def __init__(self, path: Path, stream: io.TextIOWrapper) -> None:
        self.path = path
        self._rows = csv.reader(stream, strict=True)
        self.header = self._read_header()
        self.index: Mapping[str, int] = {name: position for position, name in enumerate(self.header)}

    @property
    def line(self) -> int:
        """Return the line of the row that was read last."""
        return self._rows.line_num

    def _read_header(self) -> list[str]:
        try:
            header = [name.strip() for name in next(self._rows)]
        except StopIteration:
            raise TraceError(self.path, "is empty: a header line is needed") from None
        except _UNREADABLE as error:
            raise TraceError(self.path, f"not a readable CSV file: {error}") from error
        repeated = sorted({name for name in header if name and header.count(name) > 1})
        if repeated:
            raise TraceError(self.path, f"column {repeated[0]!r} must appear once, was repeated", line=1)
        return header

    def rows(self) -> Iterator[list[str]]:
        """Yield the rows; an empty line is passed over, a row of another length is an error."""
        for row in self._rows:
            if not row:
                continue
            if len(row) != len(self.header):
                raise TraceError(self.path, f"row must have {len(self.header)} fields, had {len(row)}", line=self.line)
            yield row

    def pick(self, names: Sequence[str]) -> dict[str, int]:
        """Return the positions of those of `names` that the file has, in the order of `names`."""
        return {name: self.index[name] for name in names if name in self.index}

    def error(self, column: str, rule: str, value: str) -> TraceError:
        """Return the error of one cell of the current row."""
        return TraceError(self.path, f"{column} must be {rule}, was {value!r}", line=self.line)

    def count(self, column: str, text: str) -> float:
        """Read one count: NaN for an empty cell, else a finite number >= 0."""
        text = text.strip()
        return float("nan") if not text else self.number(column, text)

    def number(self, column: str, text: str) -> float:
        """Read one finite number >= 0."""
        value = _decimal(text.strip())
        if value is None or value < 0:
            raise self.error(column, "a number >= 0", text)
        return value


def _decimal(text: str) -> float | None:
    """Return a finite decimal number; None for anything else that float() would take (nan, inf, 1_000)."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if "_" not in text and np.isfinite(value) else None


# --- counts ---


def _read_counts(table: _Table, timezone: tzinfo) -> CountTrace:
    if "timestamp" not in table.index:
        raise TraceError(table.path, "must have a column timestamp (counts) or arrival_s (requests)", line=1)
    picked = table.pick(COUNT_COLUMNS)
    if not picked:
        raise TraceError(table.path, f"must have at least one of {', '.join(COUNT_COLUMNS)}", line=1)
    picked |= table.pick(("replicas",))
    stamps = _Stamps(table, timezone)
    values: dict[str, list[float]] = {name: [] for name in picked}
    at = table.index["timestamp"]
    for row in table.rows():
        stamps.add(row[at])
        for name, position in picked.items():
            values[name].append(table.count(name, row[position]))
    places, step_s = stamps.grid()
    columns = {name: _on_grid(values[name], places) for name in picked}
    replicas = columns.pop("replicas", None)
    return CountTrace(trace_name(table.path), stamps.start_s, step_s, columns, replicas)


def _on_grid(values: list[float], places: IntArray) -> FloatArray:
    """Put the rows on the full grid: a bin without a row is missing."""
    grid = np.full(int(places[-1]) + 1, np.nan)
    grid[places] = values
    return _frozen(grid)


@dataclass(frozen=True, slots=True)
class _Stamp:
    """One time stamp: seconds on its own scale, and whether that scale is Unix time already."""

    seconds: float
    scale: str


class _Stamps:
    """The time stamps of a file: all of one form, rising, on a regular grid."""

    def __init__(self, table: _Table, timezone: tzinfo) -> None:
        self._table = table
        self._timezone = timezone
        self._seconds: list[float] = []
        self._lines: list[int] = []
        self._texts: list[str] = []
        self._scale = ""

    @property
    def start_s(self) -> float:
        """Return the first stamp: Unix seconds, or seconds from the file's start."""
        first = self._seconds[0]
        if self._scale != _LOCAL:
            return first
        local = datetime.fromtimestamp(first, UTC).replace(tzinfo=self._timezone)
        return local.timestamp()

    def add(self, text: str) -> None:
        """Read the stamp of the current row."""
        stamp = _stamp(text.strip())
        if stamp is None:
            raise self._table.error("timestamp", "ISO-8601 or seconds >= 0", text)
        if not self._seconds:
            self._scale = stamp.scale
        elif stamp.scale != self._scale:
            raise self._table.error("timestamp", f"{self._scale} as in the first row", text)
        elif stamp.seconds <= self._seconds[-1]:
            raise self._table.error("timestamp", f"later than {self._texts[-1]!r} before it", text)
        self._seconds.append(stamp.seconds)
        self._lines.append(self._table.line)
        self._texts.append(text)

    def grid(self) -> tuple[IntArray, float]:
        """Return the place of each row on the grid, and the step in seconds (the smallest spacing)."""
        if len(self._seconds) < 2:
            raise TraceError(self._table.path, f"must have at least 2 rows, had {len(self._seconds)}")
        seconds = np.asarray(self._seconds)
        step_s = float(np.diff(seconds).min())
        exact = (seconds - seconds[0]) / step_s
        places = np.rint(exact)
        off = np.abs(exact - places) > _STEP_TOLERANCE
        if off.any():
            bad = int(off.argmax())
            rule = f"timestamp must be on the grid of {step_s:g} s from the first, was {self._texts[bad]!r}"
            raise TraceError(self._table.path, rule, line=self._lines[bad])
        if places[-1] >= MAX_BINS:
            raise TraceError(self._table.path, f"must have at most {MAX_BINS} bins, had {int(places[-1]) + 1}")
        # The spacing of the whole file is a better measure of the step than one rounded difference.
        return places.astype(np.int64), float((seconds[-1] - seconds[0]) / places[-1])


_SECONDS = "seconds"
_ABSOLUTE = "ISO-8601 with a time zone"
_LOCAL = "ISO-8601 without a time zone"


def _stamp(text: str) -> _Stamp | None:
    seconds = _decimal(text)
    if seconds is not None:
        return _Stamp(seconds, _SECONDS) if seconds >= 0 else None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        return _Stamp(moment.replace(tzinfo=UTC).timestamp(), _LOCAL)
    return _Stamp(moment.timestamp(), _ABSOLUTE)


# --- requests ---


def _read_requests(table: _Table) -> RequestTrace:
    picked = table.pick(REQUEST_COLUMNS)
    values: dict[str, list[float]] = {name: [] for name in picked}
    arrivals: list[float] = []
    at = table.index["arrival_s"]
    for row in table.rows():
        arrival = table.number("arrival_s", row[at])
        if arrivals and arrival < arrivals[-1]:
            raise table.error("arrival_s", f"at least {arrivals[-1]} as in the row before", row[at])
        arrivals.append(arrival)
        for name, position in picked.items():
            values[name].append(table.number(name, row[position]))
    if not arrivals:
        raise TraceError(table.path, "must have at least 1 request, had none")
    columns = {name: _frozen(np.asarray(column)) for name, column in values.items()}
    return RequestTrace(trace_name(table.path), _frozen(np.asarray(arrivals)), columns)


def _frozen(array: FloatArray) -> FloatArray:
    array.flags.writeable = False
    return array
