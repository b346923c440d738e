"""`make bench` from end to end, with numbers so small that they mean nothing: its processes, its rows, its JSON."""

import json
from pathlib import Path

from tests.bench.__main__ import main
from tests.bench.beside import ROWS

TINY = "--quick --workloads 60 --replicas 2 --rounds 1 --seconds 0.3 --slice 0.1 --tick 0.5 --ticks 1"


def test_bench_measures_every_figure_and_writes_them(tmp_path: Path) -> None:
    """Every bench runs on the real processes, and its figures are in the JSON with their targets."""
    result = tmp_path / "bench.json"
    assert main([*TINY.split(), "--json", str(result)]) == 0
    document = json.loads(result.read_text(encoding="utf-8"))
    assert set(document) == {"schema", "settings", "machine", "figures", "details"}
    assert document["schema"] == 1
    for figure in document["figures"]:
        assert set(figure) == {"group", "name", "unit", "value", "target", "met", "low", "high", "values"}
        assert isinstance(figure["value"], int | float)
        assert (figure["target"] is None) == (figure["met"] is None)
    groups = {figure["group"] for figure in document["figures"]}
    assert {row.title for row in ROWS} < groups
    assert {"deciding, 60 workloads x 4 replicas", "a plan of 60 workloads, 0.00 MB", "scaler"} < groups
    assert any(group.startswith("collecting, 60 workloads x 10 replicas") for group in groups)
    assert any(group.startswith("a whole tick, 60 workloads x 10 pods") for group in groups)
    assert any(group.startswith("beside the ticks") for group in groups)
    assert any(group.startswith("forecasting, 60 series x 14 days") for group in groups)
    (written,) = (figure for figure in document["figures"] if figure["name"].startswith("writes in 4 ticks"))
    assert written["value"] == 1, "nothing changed: one heartbeat is due in four ticks, and nothing else is written"
    failed = next(figure for figure in document["figures"] if figure["name"].startswith("calls that failed"))
    assert failed["value"] == 0
    assert [row["beside"] for row in document["details"]["rows"]] == [row.beside.value for row in ROWS]
    assert document["details"]["controller"]["pulses_s"]
