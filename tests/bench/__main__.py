"""`python -m tests.bench`: measures, prints figures beside targets, writes JSON.

The exit status is 0 whatever the figures are, 1 if one could not be measured, 2 for bad usage.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from itertools import groupby
from math import inf
from pathlib import Path
from typing import Any, Final

import psutil  # type: ignore[import-untyped]  # it ships no types
from rich.console import Console
from rich.table import Table

from tests.bench.beside import STREAMS, Extent, compare
from tests.bench.children import MeasurementError
from tests.bench.costs import collection_costs, decision_costs, plan_costs
from tests.bench.figures import Figure
from tests.bench.forecast_accuracy import forecast_accuracy
from tests.bench.forecast_costs import forecast_costs
from tests.bench.store_costs import store_costs
from tests.bench.tick_costs import tick_costs
from tests.bench.view_costs import view_costs

BENCHES: Final = ("collect", "decide", "plan", "pods", "tick", "beside", "forecast")
WIDTH: Final = 120
QUICK: Final = {"workloads": 1000, "replicas": 4, "tick": 5.0, "rounds": 2, "seconds": 4.0, "slice": 0.5}
FULL: Final = {"workloads": 10_000, "replicas": 10, "tick": 15.0, "rounds": 4, "seconds": 20.0, "slice": 0.7}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benches that were asked for."""
    options = _options(arguments)
    out = _console(stderr=options.json == "-")
    try:
        with tempfile.TemporaryDirectory(prefix="headway-bench-") as folder:
            figures, details = _run(options, Path(folder), out)
    except MeasurementError as error:
        Console(stderr=True).print(f"bench: {error}", style="red", markup=False)
        return 1
    _print(figures, out)
    if options.json:
        _write(options.json, _document(options, figures, details))
    return 0


def _run(options: argparse.Namespace, folder: Path, out: Console) -> tuple[list[Figure], dict[str, Any]]:
    figures: list[Figure] = []
    details: dict[str, Any] = {}
    if "collect" in options.benches:
        out.print("collecting...")
        figures += collection_costs(options.workloads, options.ticks, folder)
    if "decide" in options.benches:
        out.print("deciding...")
        figures += decision_costs(options.workloads, options.ticks, folder)
    if "plan" in options.benches:
        out.print("publishing and taking up plans...")
        figures += plan_costs(options.workloads, options.ticks, folder)
        figures += store_costs(options.workloads, options.ticks, folder)
    if "pods" in options.benches:
        out.print("watching pods...")
        figures += view_costs(options.workloads, options.seconds, folder)
    if "tick" in options.benches:
        out.print("ticking...")
        figures += tick_costs(options.workloads, options.ticks, folder)
    if "forecast" in options.benches:
        out.print("forecasting...")
        figures += forecast_costs(options.workloads, rivals=not options.quick)
        if options.traces is not None:
            out.print("scoring forecasts of recorded traffic...")
            figures += forecast_accuracy(options.traces, quick=options.quick)
    if "beside" in options.benches:
        out.print("the scaler beside a controller...")
        extent = Extent(
            options.workloads, options.replicas, options.tick, options.rounds, options.seconds, options.slice
        )
        compared = compare(extent, folder, progress=out.print)
        figures += compared.figures
        details = dict(compared.details)
    return figures, details


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument(
        "--only", action="append", choices=BENCHES, dest="benches", help="may be repeated; default: all"
    )
    parser.add_argument("--json", metavar="FILE", help="write the figures as JSON; - for stdout")
    parser.add_argument(
        "--quick", action="store_true", help="a fleet of a tenth, few and short rounds: shows that it works"
    )
    for name, kind, text in (
        ("workloads", int, "how many workloads"),
        ("replicas", int, "of each workload, beside the scaler"),
        ("tick", float, "seconds between the controller's ticks"),
        ("rounds", int, "of a headline comparison; others take half of them"),
        ("seconds", float, "on each side in each round"),
        ("slice", float, "seconds on one side before going to the other"),
    ):
        parser.add_argument(
            f"--{name}", type=kind, metavar="N", help=f"{text} ({FULL[name]:g}; quick: {QUICK[name]:g})"
        )
    parser.add_argument(
        "--ticks", type=int, default=5, metavar="N", help="decided and published to know what it costs (%(default)s)"
    )
    parser.add_argument("--traces", type=Path, metavar="FOLDER", help="recorded traffic to score forecasts on")
    options = parser.parse_args(arguments)
    for name, value in (QUICK if options.quick else FULL).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    _check(options, parser)
    options.benches = options.benches or list(BENCHES)
    return options


def _check(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    for name in ("ticks", *FULL):
        least = STREAMS if name == "workloads" else 0  # each stream follows a workload of its own
        value = getattr(options, name)
        if not (least <= value < inf and value > 0):
            allowed = f">= {least}" if least else "> 0"
            parser.error(f"--{name} must be {allowed}, was {value}")


def _console(*, stderr: bool) -> Console:
    """Return a console; one that is no terminal is wide enough for every line of the report."""
    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(stderr=stderr, width=WIDTH)


def _print(figures: Sequence[Figure], out: Console) -> None:
    for group, members in groupby(figures, key=lambda figure: figure.group):
        table = Table.grid(padding=(0, 2))
        for width in (50, 14, 20, 8, 6):
            table.add_column(min_width=width, no_wrap=True)
        for figure in members:
            table.add_row(*_cells(figure))
        out.print(f"\n{group}", style="bold", markup=False, highlight=False)
        out.print(table)


def _cells(figure: Figure) -> tuple[str, ...]:
    spread = figure.spread
    between = f"{_shown(spread.low)} .. {_shown(spread.high)}" if spread and len(spread.values) > 1 else ""
    verdict = {True: "[green]met[/]", False: "[red]missed[/]", None: ""}[figure.met]
    value = _shown(figure.value) + ("" if figure.unit == "ratio" else f" {figure.unit}")
    return f"  {figure.name}", value, between, str(figure.target or ""), verdict


def _shown(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _document(options: argparse.Namespace, figures: Sequence[Figure], details: dict[str, Any]) -> dict[str, Any]:
    settings = {name: getattr(options, name) for name in ("benches", "quick", "ticks", *FULL)}
    return {
        "schema": 1,
        "settings": settings,
        "machine": _machine(),
        "figures": [figure.to_json() for figure in figures],
        "details": details,
    }


def _machine() -> dict[str, Any]:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cores": usable,
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "load_before": os.getloadavg()[0],
    }


def _write(target: str, document: dict[str, Any]) -> None:
    text = json.dumps(document, indent=2) + "\n"
    if target == "-":
        sys.stdout.write(text)
    else:
        Path(target).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
