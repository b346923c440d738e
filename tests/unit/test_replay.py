"""Recordings of a metrics source: what is written is what is served, at its time."""

import gzip
import math
from pathlib import Path

import pytest

from scaler.adapters.replay import RecordingSource, ReplaySource
from scaler.core.values import Reason
from scaler.ports import Sample, SampleRequest, SourceError
from tests.metrics_fakes import T0, ListSource

NAMES = SampleRequest(("a", "b"))
LINE = '{"at_s": 10, "samples": [{"name": "a", "labels": {}, "value": 1, "at_s": 10}]}\n'


def sample(value: float, at_s: float = T0, name: str = "a") -> Sample:
    """Make a sample."""
    return Sample(name, {"namespace": "demo"}, value, at_s)


async def test_a_recording_is_served_by_its_own_time(tmp_path: Path) -> None:
    """At any time the newest fetch that is not in the future is served, also when time goes back."""
    live = ListSource()
    recorder = RecordingSource(live, tmp_path / "run.jsonl")
    for tick in range(3):
        live.samples = [sample(float(tick), T0 + 15 * tick)]
        await recorder.fetch(NAMES, T0 + 15 * tick)
    replay = ReplaySource(tmp_path / "run.jsonl")
    for now_s, value in ((0, 0.0), (14, 0.0), (15, 1.0), (999, 2.0), (20, 1.0)):
        batch = await replay.fetch(NAMES, T0 + now_s)
        assert [s.value for s in batch.samples] == [value]
    await replay.close()


async def test_all_fetches_of_a_tick_are_served(tmp_path: Path) -> None:
    """A tick fetches once per preset; each gets back its own."""
    live = ListSource([sample(1.0), sample(2.0, name="b")], partial=("store-1 is away",))
    recorder = RecordingSource(live, tmp_path / "run.jsonl")
    await recorder.fetch(SampleRequest(("a",)), T0)
    await recorder.fetch(SampleRequest(("b",)), T0)
    replay = ReplaySource(tmp_path / "run.jsonl")
    for name in ("a", "b"):
        batch = await replay.fetch(SampleRequest((name,)), T0 + 1)
        assert [s.name for s in batch.samples] == [name]
        assert batch.partial == ("store-1 is away",)


async def test_values_that_json_does_not_have(tmp_path: Path) -> None:
    """NaN and infinities survive."""
    live = ListSource([sample(v) for v in (math.nan, math.inf, -math.inf, 0.1)])
    await RecordingSource(live, tmp_path / "run.jsonl.gz").fetch(NAMES, T0)
    values = [s.value for s in (await ReplaySource(tmp_path / "run.jsonl.gz").fetch(NAMES, T0)).samples]
    assert repr(values) == "[nan, inf, -inf, 0.1]"
    assert gzip.decompress((tmp_path / "run.jsonl.gz").read_bytes()).count(b"\n") == 1


async def test_a_failure_is_recorded_and_replayed(tmp_path: Path) -> None:
    """An outage is part of a run."""
    live = ListSource(failure=Reason.SOURCE_TIMEOUT)
    with pytest.raises(SourceError):
        await RecordingSource(live, tmp_path / "run.jsonl").fetch(NAMES, T0)
    with pytest.raises(SourceError) as caught:
        await ReplaySource(tmp_path / "run.jsonl").fetch(NAMES, T0)
    assert caught.value.reason is Reason.SOURCE_TIMEOUT


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file"),
        (LINE + "nonsense\n", ":2: Expecting value"),
        (LINE + '{"at_s": 9, "samples": []}\n', ":2: at_s must not fall, was 9.0 after 10.0"),
        (LINE + "{}\n", ":2: 'at_s' is missing"),
        (LINE + '{"at_s": "NaN", "samples": []}\n', ":2: at_s must not fall, was nan"),
        (LINE + '{"at_s": 11, "samples": [{"name": "a"}]}\n', ":2: 'labels' is missing"),
        (LINE + '{"at_s": 11, "samples": [{"name": "a", "labels": {}, "value": "x", "at_s": 1}]}\n', ":2: could not"),
        (LINE + '{"at_s": 11, "error": "bored"}\n', ":2: 'bored' is not a valid Reason"),
        (LINE + "[]\n", ":2: "),
        ("", "nothing was recorded at or before"),
    ],
)
async def test_a_bad_line_is_an_error_that_names_file_and_line(
    tmp_path: Path, content: str | None, message: str
) -> None:
    """Every fetch that reaches a bad line says where it is; the line before it is not served in its place."""
    path = tmp_path / "run.jsonl"
    if content is not None:
        path.write_text(content)
    replay = ReplaySource(path)
    for _ in range(2):
        with pytest.raises(SourceError, match=message) as caught:
            await replay.fetch(NAMES, 20.0)
        assert str(caught.value).startswith(str(path))


async def test_a_recording_that_was_cut_off(tmp_path: Path) -> None:
    """A gzip file without its end, as after a crash, is an error and no shorter run."""
    whole = gzip.compress(LINE.encode() * 1000)
    (tmp_path / "run.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SourceError, match=r"run\.jsonl\.gz"):
        await ReplaySource(tmp_path / "run.jsonl.gz").fetch(NAMES, 20.0)


async def test_before_its_beginning_a_recording_knows_nothing(tmp_path: Path) -> None:
    """No fetch yet is a source that is down, not an empty cluster."""
    (tmp_path / "run.jsonl").write_text(LINE)
    with pytest.raises(SourceError, match="nothing was recorded at or before"):
        await ReplaySource(tmp_path / "run.jsonl").fetch(NAMES, 9.0)
