"""Trace files: what they may be, and that a bad one is named by file, line, column and value."""

import gzip
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from scaler.traces.errors import TraceError
from scaler.traces.model import CountTrace, RequestTrace
from scaler.traces.read import read_trace, trace_name

MIDNIGHT = datetime(2024, 5, 10, tzinfo=UTC).timestamp()


def written(folder: Path, text: str, name: str = "made.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def counts(path: Path) -> CountTrace:
    trace = read_trace(path)
    assert isinstance(trace, CountTrace)
    return trace


def test_iso_counts(tmp_path: Path) -> None:
    """ISO stamps are Unix seconds, their spacing is the step, and other columns are ignored."""
    path = written(
        tmp_path,
        "timestamp,requests,note,output_tokens\n2024-05-10T00:00:00Z,3,x,30\n2024-05-10T00:00:10Z,4.0,,40\n",
    )
    trace = counts(path)
    assert (trace.name, trace.start_s, trace.step_s, trace.bins) == ("made", MIDNIGHT, 10.0, 2)
    assert {name: list(values) for name, values in trace.columns.items()} == {
        "requests": [3, 4],
        "output_tokens": [30, 40],
    }
    assert trace.replicas is None


def test_seconds_from_start_and_replicas(tmp_path: Path) -> None:
    """Stamps may be seconds from the start, and what ran is kept where the file says so."""
    trace = counts(written(tmp_path, "timestamp,total_tokens,replicas\n0,7,2\n60,8,3\n120,9,\n"))
    assert (trace.start_s, trace.step_s, trace.end_s) == (0.0, 60.0, 180.0)
    assert trace.replicas is not None
    assert list(trace.replicas[:2]) == [2, 3]
    assert np.isnan(trace.replicas[2])


def test_gzip_is_told_by_content(tmp_path: Path) -> None:
    """A gzip file is read as one whatever its name says, and a plain one likewise."""
    body = "timestamp,requests\n0,1\n1,2\n"
    packed = tmp_path / "packed.csv"
    packed.write_bytes(gzip.compress(body.encode()))
    assert counts(packed).bins == counts(written(tmp_path, body, "plain.csv.gz")).bins == 2


def test_an_empty_cell_is_missing_and_not_zero(tmp_path: Path) -> None:
    """An empty cell is missing; a zero is a zero."""
    values = counts(written(tmp_path, "timestamp,requests\n0,\n1,0\n2,5\n")).columns["requests"]
    assert np.isnan(values[0])
    assert list(values[1:]) == [0, 5]


def test_an_absent_row_is_missing(tmp_path: Path) -> None:
    """A bin without a row is missing on the grid of the smallest spacing."""
    trace = counts(written(tmp_path, "timestamp,requests\n0,1\n10,2\n40,3\n"))
    assert trace.bins == 5
    assert list(np.isnan(trace.columns["requests"])) == [False, False, True, True, False]


def test_local_stamps_need_a_time_zone_to_mean_a_moment(tmp_path: Path) -> None:
    """Stamps without a zone are UTC unless told otherwise, and run on as elapsed time over a change of the clocks."""
    path = written(
        tmp_path, "timestamp,requests\n2024-03-10T01:00:00,1\n2024-03-10T02:00:00,2\n2024-03-10T03:00:00,3\n"
    )
    utc, new_york = read_trace(path), read_trace(path, ZoneInfo("America/New_York"))
    assert isinstance(utc, CountTrace)
    assert isinstance(new_york, CountTrace)
    assert new_york.start_s - utc.start_s == 5 * 3600
    assert (new_york.step_s, new_york.bins) == (3600.0, 3)


def test_values_cannot_be_changed(tmp_path: Path) -> None:
    """The arrays of a trace are read-only."""
    values = counts(written(tmp_path, "timestamp,requests\n0,1\n1,2\n")).columns["requests"]
    with pytest.raises(ValueError, match="read-only"):
        values[0] = 9


def test_requests(tmp_path: Path) -> None:
    """A file with arrival_s holds single requests; two may arrive at once."""
    trace = read_trace(written(tmp_path, "arrival_s,prompt_tokens,service_s\n0.5,10,1.5\n0.5,20,2\n3,30,0\n"))
    assert isinstance(trace, RequestTrace)
    assert list(trace.arrival_s) == [0.5, 0.5, 3]
    assert {name: list(values) for name, values in trace.columns.items()} == {
        "prompt_tokens": [10, 20, 30],
        "service_s": [1.5, 2, 0],
    }


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("timestamp,requests\n0,1\n20,2\n10,3\n", 4, "timestamp must be later than '20' before it, was '10'"),
        ("timestamp,requests\n0,1\n10,2\n10,3\n", 4, "timestamp must be later than '10' before it, was '10'"),
        ("timestamp,requests\n0,1\n10,-2\n", 3, "requests must be a number >= 0, was '-2'"),
        ("timestamp,requests\n0,1\n10,many\n", 3, "requests must be a number >= 0, was 'many'"),
        ("timestamp,requests\n0,1\n10,nan\n", 3, "requests must be a number >= 0, was 'nan'"),
        ("timestamp,requests\n0,1\n10,inf\n", 3, "requests must be a number >= 0, was 'inf'"),
        ("timestamp,requests\n0,1\n10,1_0\n", 3, "requests must be a number >= 0, was '1_0'"),
        ("timestamp,requests,replicas\n0,1,1\n10,1,-1\n", 3, "replicas must be a number >= 0, was '-1'"),
        ("timestamp,requests\n0,1\nnoon,2\n", 3, "timestamp must be ISO-8601 or seconds >= 0, was 'noon'"),
        ("timestamp,requests\n0,1\n-5,2\n", 3, "timestamp must be ISO-8601 or seconds >= 0, was '-5'"),
        ("timestamp,requests\n0,1\n,2\n", 3, "timestamp must be ISO-8601 or seconds >= 0, was ''"),
        ("timestamp,requests\n0,1\n2024-05-10T00:00:00Z,2\n", 3, "timestamp must be seconds as in the first row"),
        ("timestamp,requests\n0,1\n10,2\n25,3\n", 4, "timestamp must be on the grid of 10 s from the first, was '25'"),
        ("timestamp,requests\n0,1\n10,2,3\n", 3, "row must have 2 fields, had 3"),
        ("timestamp,requests,requests\n0,1,1\n", 1, "column 'requests' must appear once, was repeated"),
        ("timestamp,users\n0,1\n", 1, "must have at least one of requests, prompt_tokens, output_tokens, total_tokens"),
        ("when,requests\n0,1\n", 1, "must have a column timestamp (counts) or arrival_s (requests)"),
        ("timestamp,requests\n0,1\n", None, "must have at least 2 rows, had 1"),
        ("timestamp,requests\n", None, "must have at least 2 rows, had 0"),
        ("timestamp,requests\n0,1\n0.001,2\n1e9,3\n", None, "must have at most 20000000 bins, had 1000000000001"),
        ("", None, "is empty: a header line is needed"),
        ("arrival_s\n5\n4\n", 3, "arrival_s must be at least 5.0 as in the row before, was '4'"),
        ("arrival_s,prompt_tokens\n1,\n", 2, "prompt_tokens must be a number >= 0, was ''"),
        ("arrival_s\n", None, "must have at least 1 request, had none"),
        ('timestamp,requests\n0,"1\n', 2, "not a readable CSV file: unexpected end of data"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, text: str, line: int | None, told: str) -> None:
    """The first bad row is one error that names file, line, column and value."""
    path = written(tmp_path, text)
    with pytest.raises(TraceError) as caught:
        read_trace(path)
    where = str(path) if line is None else f"{path}:{line}"
    assert str(caught.value).startswith(f"{where}: {told}")
    assert caught.value.line == line


@pytest.mark.parametrize(
    "content",
    [b"timestamp,requests\n0,\xff\xfe\n1,2\n", gzip.compress(b"timestamp,requests\n0,1\n1,2\n" * 50)[:-20]],
    ids=["not text", "cut off"],
)
def test_a_damaged_file_is_one_clear_error(tmp_path: Path, content: bytes) -> None:
    """Bytes that are no text, and a gzip file that ends early, are errors of the file."""
    path = tmp_path / "made.csv"
    path.write_bytes(content)
    with pytest.raises(TraceError, match="not a readable CSV file"):
        read_trace(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A file that is not there is named in the error."""
    with pytest.raises(TraceError, match=r"nowhere\.csv: cannot be opened: No such file"):
        read_trace(tmp_path / "nowhere.csv")


def test_window(tmp_path: Path) -> None:
    """A window holds the bins that lie wholly in it, and an empty one is an error that says what there is."""
    trace = counts(written(tmp_path, "timestamp,requests\n" + "".join(f"{10 * i},{i}\n" for i in range(10))))
    part = trace.window(15, 40)
    assert (part.start_s, list(part.columns["requests"])) == (20.0, [2, 3, 4])
    assert list(trace.window(-100, 1000).columns["requests"]) == list(range(10))
    with pytest.raises(ValueError, match=r"window must hold at least one bin of made in \[0.0, 100.0\), was 200 \+ 10"):
        trace.window(200, 10)


def test_window_of_requests(tmp_path: Path) -> None:
    """A window of requests holds those that arrive in it, its end excluded."""
    trace = read_trace(written(tmp_path, "arrival_s,output_tokens\n0,1\n5,2\n10,3\n"))
    assert isinstance(trace, RequestTrace)
    part = trace.window(5, 5)
    assert (list(part.arrival_s), list(part.columns["output_tokens"])) == ([5], [2])
    with pytest.raises(ValueError, match="at least one request of made"):
        trace.window(11, 5)


@pytest.mark.parametrize("name", ["a.b.csv", "a.b.csv.gz", "a.b"])
def test_name(name: str) -> None:
    """A trace is called like its file without .csv[.gz]."""
    assert trace_name(Path("x") / name) == "a.b"
