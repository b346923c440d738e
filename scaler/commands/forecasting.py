"""`headway forecast` and `headway evaluate`."""

import argparse
from collections.abc import Callable, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import Any

from scaler.commands.output import BadInputError, print_text, write_json

HORIZONS = ("5m", "15m", "30m", "1h")


def add_to(commands: Any, command: Callable[..., argparse.ArgumentParser]) -> None:
    """Add both commands to the program."""
    forecast = command(commands, "forecast", _forecast, "a forecast from the end of a trace, with a plot")
    forecast.add_argument("--trace", type=Path, required=True, metavar="F", help="a trace file")
    forecast.add_argument("--horizon", default="1h", metavar="D", help="how far ahead (%(default)s)")
    forecast.add_argument(
        "--quantiles", nargs="+", type=float, default=[0.5, 0.9, 0.99], metavar="Q", help="0.5 .. 0.99"
    )
    forecast.add_argument("--svg", type=Path, default=Path("headway-forecast.svg"), metavar="F", help="%(default)s")
    evaluate = command(commands, "evaluate", _evaluate, "rolling-origin scores of every model on recorded series")
    evaluate.add_argument("--trace", type=Path, required=True, nargs="+", action="extend", metavar="F")
    evaluate.add_argument("--horizon", nargs="+", action="extend", metavar="D", help=f"default: {' '.join(HORIZONS)}")
    evaluate.add_argument("--model", nargs="+", action="extend", metavar="M", help="default: all")
    evaluate.add_argument(
        "--group", nargs="+", action="extend", metavar="NAME=GLOB", help="of trace names; default: all=*"
    )
    evaluate.add_argument("--refit", default="1h", metavar="D", help="of fast models; slow ones a day (%(default)s)")
    evaluate.add_argument("--plots", type=Path, metavar="DIR", help="write SVG plots there")
    evaluate.add_argument("--backend", choices=["loky", "dask", "ray"], default="loky")
    evaluate.add_argument("--address", metavar="A", help="of a running Dask scheduler or Ray cluster")
    evaluate.add_argument("--workers", type=_count, metavar="N", help="default: the cores of this machine")
    for parser in (forecast, evaluate):
        parser.add_argument("--unit", choices=["requests", "promptTokens", "outputTokens", "totalTokens"])
        parser.add_argument(
            "--timezone", default="UTC", metavar="Z", help="of the service, and of local stamps (%(default)s)"
        )


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be >= 1, was {text}")
    return value


def _forecast(options: argparse.Namespace) -> int:
    from scaler.compose.forecasts import ForecastRequest, forecast_trace
    from scaler.report.forecast_plots import write_forecast_plot
    from scaler.report.forecast_text import forecast_table

    for quantile in options.quantiles:
        if not 0.5 <= quantile <= 0.99:
            raise BadInputError(f"--quantiles must be 0.5 .. 0.99, was {quantile:g}")
    request = ForecastRequest(
        trace=options.trace,
        horizon_s=_duration("--horizon", options.horizon),
        quantiles=tuple(sorted(set(options.quantiles))),
        unit=options.unit,
        zone=_zone(options.timezone),
    )
    found = _or_bad_input(lambda: forecast_trace(request))
    _render(forecast_table(found.document), options)
    if found.document.absent is None:
        write_forecast_plot(found.document, found.batch, options.svg)
        print_text(f"{options.svg}", to_stderr=options.json == "-")
    write_json(options.json, found.document.model_dump(mode="json"))
    return 0


def _evaluate(options: argparse.Namespace) -> int:
    from scaler.compose.forecasts import EvaluateRequest, evaluate_traces
    from scaler.parallel import Backend, BackendError
    from scaler.report.forecast_plots import write_evaluation_plots
    from scaler.report.forecast_text import evaluation_tables

    request = EvaluateRequest(
        traces=tuple(options.trace),
        horizons_s=tuple(_duration("--horizon", text) for text in options.horizon or HORIZONS),
        models=tuple(options.model or ()),
        groups=tuple(_group(text) for text in options.group or ("all=*",)),
        unit=options.unit,
        zone=_zone(options.timezone),
        refit_s=_duration("--refit", options.refit),
        backend=Backend(options.backend),
        address=options.address,
        workers=options.workers,
    )
    try:
        document = _or_bad_input(lambda: evaluate_traces(request))
    except BackendError as error:
        raise BadInputError(str(error)) from error
    _render(evaluation_tables(document), options)
    if options.plots is not None:
        options.plots.mkdir(parents=True, exist_ok=True)
        for path in write_evaluation_plots(document, options.plots):
            print_text(f"{path}", to_stderr=options.json == "-")
    write_json(options.json, document.model_dump(mode="json"))
    return 0


def _or_bad_input(work: Callable[[], Any]) -> Any:
    from scaler.traces.errors import TraceError

    try:
        return work()
    except (TraceError, ValueError) as error:
        raise BadInputError(str(error)) from error


def _duration(option: str, text: str) -> float:
    from scaler.config.durations import parse_duration

    try:
        found = parse_duration(text)
    except ValueError as error:
        raise BadInputError(f"{option} {error}") from error
    if found <= 0:
        raise BadInputError(f"{option} must be > 0, was {text}")
    return found


def _zone(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise BadInputError(f"--timezone must be an IANA name such as Europe/Berlin, was {name}") from error


def _group(text: str) -> tuple[str, str]:
    name, equals, glob = text.partition("=")
    if not (name and equals and glob):
        raise BadInputError(f"--group must be NAME=GLOB, was {text}")
    return name, glob


def _render(tables: Sequence[Any], options: argparse.Namespace) -> None:
    from rich.console import Console

    console = Console(stderr=options.json == "-")
    if not console.is_terminal:
        console = Console(stderr=options.json == "-", width=140)
    for table in tables:
        console.print(table)
