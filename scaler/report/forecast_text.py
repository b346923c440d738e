"""Forecasts and their scores as tables for a person."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from scaler.config.durations import format_duration
from scaler.report.forecast_documents import EvaluateDocument, ForecastDocument, SeriesScore, Summary
from scaler.report.text import quantity

_OWN = "headway"


def forecast_table(document: ForecastDocument) -> list[RenderableType]:
    """Return a forecast, or why there is none."""
    if document.absent is not None:
        until = f", ready at {document.ready_at}" if document.ready_at else ""
        return [Text(f"{document.trace}: no forecast: {document.absent.replace('_', ' ')}{until}")]
    names = list(document.forecasts[0].point)
    table = Table(title=f"{document.trace} from {document.at}, per second", title_justify="left")
    table.add_column("ahead")
    for kind in ("", "max until then "):
        for name in names:
            table.add_column(f"{kind}{name}", justify="right")
    for row in document.forecasts:
        values = [*row.point.values(), *row.window_max.values()]
        table.add_row(format_duration(row.horizon_s), *(quantity(value) for value in values))
    weights = ", ".join(f"{name} {share:.0%}" for name, share in sorted(document.weights.items(), key=lambda i: -i[1]))
    return [table, Text(f"weights at the furthest horizon: {weights}")]


def evaluation_tables(document: EvaluateDocument) -> list[RenderableType]:
    """Return a table for each group and target, and the series on which our own model does worst."""
    tables: list[RenderableType] = []
    groups = list(dict.fromkeys((row.group, row.target) for row in document.summary))
    for group, target in groups:
        rows = [row for row in document.summary if (row.group, row.target) == (group, target)]
        tables.append(_table(group, target, rows))
    return [*tables, *_worst(document)]


def _table(group: str, target: str, rows: Sequence[Summary]) -> Table:
    horizons = sorted({row.horizon_s for row in rows})
    what = "the point" if target == "point" else "the maximum of the window"
    table = Table(
        title=f"{group}, {what}: pinball loss at 0.9 over the calibrated seasonal naive's (coverage of 0.9 and 0.99)",
        title_justify="left",
    )
    table.add_column("model")
    for horizon_s in horizons:
        table.add_column(format_duration(horizon_s), justify="right")
    for model in dict.fromkeys(row.model for row in rows):
        cells = {row.horizon_s: _cell(row) for row in rows if row.model == model}
        style = "bold" if model == _OWN else ""
        table.add_row(model, *(cells.get(horizon_s, "-") for horizon_s in horizons), style=style)
    return table


def _cell(row: Summary) -> str:
    ratio = row.pinball_ratio["0.9"]
    shares = [row.coverage["0.9"], row.coverage["0.99"]]
    if ratio is None or None in shares:
        return "-"
    return f"{ratio:.3f} ({', '.join(f'{share:.3f}' for share in shares)})"


def _worst(document: EvaluateDocument) -> list[RenderableType]:
    """Name the series on which our model gains least over the best of the others."""
    own: dict[str, list[SeriesScore]] = {}
    for row in document.series:
        if row.model == _OWN and row.target == "point" and row.pinball["0.9"] is not None:
            own.setdefault(row.trace, []).append(row)
    ratios = {trace: _against_others(document, trace, rows) for trace, rows in own.items()}
    known = {trace: found for trace, found in ratios.items() if found is not None}
    if not known:
        return []
    trace, (ratio, model) = max(known.items(), key=lambda item: item[1][0])
    return [Text(f"worst series of {_OWN}: {trace}, {ratio:.3f} times the loss of {model} there")]


def _against_others(document: EvaluateDocument, trace: str, own: Sequence[SeriesScore]) -> tuple[float, str] | None:
    """Return the mean loss over that of the best model that is none of ours, over the same horizons, and its name."""
    horizons = {row.horizon_s for row in own}
    mean = sum(row.pinball["0.9"] or 0.0 for row in own) / len(own)
    others: dict[str, dict[int, float]] = {}
    for row in document.series:
        loss = row.pinball["0.9"]
        if row.trace == trace and row.target == "point" and loss is not None and not row.model.startswith(_OWN):
            others.setdefault(row.model, {})[row.horizon_s] = loss
    losses = {model: sum(found.values()) / len(found) for model, found in others.items() if set(found) == horizons}
    best = min(losses, key=lambda model: losses[model], default=None)
    return None if best is None or losses[best] == 0 else (mean / losses[best], best)
