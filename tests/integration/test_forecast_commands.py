"""`headway forecast` and `headway evaluate`, on a week of made-up traffic."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from scaler.cli import main
from scaler.report.schemas import schema_text

FAST = ["--model", "headway-tier-1", "last-value", "--refit", "1d", "--horizon", "1h", "2h", "--workers", "1"]


def _write(path: Path, days: int, seed: int, step_s: int = 3600) -> Path:
    rng = np.random.default_rng(seed)
    at = np.arange(days * 86_400 // step_s)
    mean = 5000 + 3000 * np.sin(2 * np.pi * at * step_s / 86_400)
    rows = "\n".join(f"{i * step_s},{count}" for i, count in zip(at, rng.poisson(mean), strict=True))
    path.write_text(f"timestamp,requests\n{rows}\n")
    return path


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Write two traces of eight days."""
    folder = tmp_path_factory.mktemp("traces")
    return _write(folder / "one.csv", 8, 1), _write(folder / "two.csv", 8, 2)


def test_evaluate_scores_every_model_by_series_and_group(
    traces: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The document is as the schema says, ratios of the naive to itself are 1, and plots are drawings."""
    out, plots = tmp_path / "scores.json", tmp_path / "plots"
    more = ["--group", "first=on*", "--json", str(out), "--plots", str(plots)]
    assert main(["evaluate", "--trace", *map(str, traces), *FAST, *more]) == 0
    document = json.loads(out.read_text())
    assert document["schema"] == 1
    assert {row["trace"] for row in document["series"]} == {"one", "two"}
    assert {row["group"] for row in document["summary"]} == {"first", "other"}
    assert {row["model"] for row in document["summary"]} == {"headway-tier-1", "last-value", "seasonal-naive"}
    naive = [row for row in document["summary"] if row["model"] == "seasonal-naive"]
    assert all(row["pinball_ratio"]["0.9"] == pytest.approx(1.0) for row in naive)
    own = [row for row in document["series"] if row["model"] == "headway-tier-1" and row["target"] == "point"]
    assert all(0.8 < row["coverage"]["0.9"] < 0.99 for row in own)
    assert all(row["origins"] > 40 and row["fit_ms"] > 0 for row in own)
    assert "pinball loss" in capsys.readouterr().out
    for drawing in plots.iterdir():
        assert ET.parse(drawing).getroot().tag.endswith("svg")  # noqa: S314 -- our own file
    assert len(list(plots.iterdir())) == 4


def test_the_documents_have_the_keys_of_their_schemas(traces: tuple[Path, Path], tmp_path: Path) -> None:
    """Each key that is written is in the schema, and each that is required is written."""
    out = tmp_path / "forecast.json"
    assert main(["forecast", "--trace", str(traces[0]), "--svg", str(tmp_path / "f.svg"), "--json", str(out)]) == 0
    schema: dict[str, Any] = json.loads(schema_text("forecast"))
    document = json.loads(out.read_text())
    assert set(document) == set(schema["properties"]) == set(schema["required"])
    row = document["forecasts"][0]
    assert set(row) == set(schema["$defs"]["ForecastPoint"]["properties"])
    assert row["point"]["0.5"] <= row["point"]["0.9"] <= row["point"]["0.99"]
    assert row["at"] == "1970-01-09T01:00:00Z"
    assert document["at"] == "1970-01-09T00:00:00Z"
    assert ET.parse(tmp_path / "f.svg").getroot().tag.endswith("svg")  # noqa: S314 -- our own file


def test_too_little_history_is_told_with_the_time_when_it_is_enough(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half a day: no forecast, no plot, no error."""
    trace = _write(tmp_path / "young.csv", 1, 3, step_s=1800)
    trace.write_text("\n".join(trace.read_text().splitlines()[:25]) + "\n")
    assert main(["forecast", "--trace", str(trace), "--horizon", "30m", "--svg", str(tmp_path / "f.svg")]) == 0
    assert "no forecast: not enough history, ready at 1970-01-02T00:00:00Z" in capsys.readouterr().out
    assert not (tmp_path / "f.svg").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["forecast", "--trace", "{one}", "--horizon", "10m"], "--horizon must be 3600 s .. 21600 s, was 600 s"),
        (["forecast", "--trace", "{one}", "--quantiles", "0.2"], "--quantiles must be 0.5 .. 0.99, was 0.2"),
        (["forecast", "--trace", "{one}", "--timezone", "Mars/Base"], "--timezone must be an IANA name"),
        (
            ["forecast", "--trace", "{one}", "--unit", "outputTokens"],
            "unit of one must be one of requests, was outputTo",
        ),
        (["forecast", "--trace", "absent.csv"], "absent.csv"),
        (["evaluate", "--trace", "{one}", "--model", "oracle"], "--model must be one of headway, "),
        (["evaluate", "--trace", "{one}", "--group", "x"], "--group must be NAME=GLOB, was x"),
        (["evaluate", "--trace", "{one}", "{one}"], "--trace must name each trace once, one was named 2 times"),
        (["evaluate", "--trace", "{young}"], "young.csv: a series must hold at least 4 days, was 3.0 days"),
    ],
)
def test_one_clear_error(
    traces: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    """It names what was wrong, its value and what is allowed; the status is 2."""
    young = _write(tmp_path / "young.csv", 3, 4)
    named = [argument.format(one=traces[0], young=young) for argument in arguments]
    assert main([*named, *(["--workers", "1"] if named[0] == "evaluate" else [])]) == 2
    assert message in capsys.readouterr().err
