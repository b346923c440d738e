"""Forecasts and their scores as SVG files. No text from outside is drawn but names of traces and models."""

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from scaler.config.durations import format_duration
from scaler.report.canvas import band, curve, from_zero, house_style
from scaler.report.forecast_documents import EvaluateDocument, ForecastDocument, Summary
from scaler.report.palette import light

if TYPE_CHECKING:
    from forecasting.series import Batch

_INCH = 72
_HOUR_S = 3600
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))


def write_forecast_plot(document: ForecastDocument, batch: "Batch", path: Path) -> None:
    """Draw the last day and the fan of the forecast."""
    day = min(batch.grid.count, 24 * _HOUR_S // batch.grid.step_s)
    at = (np.arange(-day + 1, 1) * batch.grid.step_s) / _HOUR_S
    past = batch.values[0, -day:]
    with house_style():
        figure = Figure(figsize=(880 / _INCH, 320 / _INCH), dpi=_INCH)
        figure.subplots_adjust(left=0.08, right=0.98, top=0.88, bottom=0.16)
        axes = figure.add_subplot()
        curve(axes, at, past, "demand", name="demand")
        now = past[-1] if np.isfinite(past[-1]) else np.nan
        ahead = np.array([0.0, *(row.horizon_s / _HOUR_S for row in document.forecasts)])
        quantiles = list(document.forecasts[0].point)
        fan = {q: np.array([now, *(row.point[q] for row in document.forecasts)]) for q in quantiles}
        for lower, upper in pairwise(quantiles):
            band(axes, ahead, fan[lower], fan[upper], "supply", steps=False)
        curve(axes, ahead, fan[quantiles[0]], "supply", name="lowest")
        peak = np.array([now, *(row.window_max[quantiles[-1]] for row in document.forecasts)])
        curve(axes, ahead, peak, "pending", name="window-max", dashes=True)
        from_zero(axes)
        axes.set_xlabel(f"hours from {document.at}")
        axes.set_ylabel("per second")
        shown = f"demand (line), quantiles {', '.join(quantiles)} (fan), highest until then at {quantiles[-1]} (dashes)"
        axes.set_title(f"{document.trace}: {shown}", loc="left", fontsize=11)
        _save(figure, path)


def write_evaluation_plots(document: EvaluateDocument, folder: Path) -> list[Path]:
    """Draw, for each group and target, losses by model and horizon, and coverage; return the files."""
    written = []
    for group, target in dict.fromkeys((row.group, row.target) for row in document.summary):
        rows = [row for row in document.summary if (row.group, row.target) == (group, target)]
        path = folder / f"{group}-{target.replace('_', '-')}.svg"
        _write_scores(rows, f"{group}, {target.replace('_', ' ')}", path)
        written.append(path)
    return written


def _write_scores(rows: list[Summary], title: str, path: Path) -> None:
    models = list(dict.fromkeys(row.model for row in rows))
    horizons = sorted({row.horizon_s for row in rows})
    with house_style():
        figure = Figure(figsize=(1000 / _INCH, (90 + 22 * len(models)) / _INCH), dpi=_INCH)
        figure.subplots_adjust(left=0.17, right=0.98, top=0.86, bottom=0.14, wspace=0.08)
        panels = figure.subplots(1, 3, sharey=True)
        roles = ("demand", "supply", "pending", "cache", "breach", "quiet")
        for place, horizon_s in enumerate(horizons):
            for row in rows:
                if row.horizon_s != horizon_s:
                    continue
                values = (row.pinball_ratio["0.9"], row.coverage["0.9"], row.coverage["0.99"])
                for axes, value in zip(panels, values, strict=True):
                    if value is not None:
                        height = models.index(row.model) + 0.12 * (place - (len(horizons) - 1) / 2)
                        axes.plot(value, height, "o", color=light(roles[place % len(roles)]), markersize=5)
        for axes, name, nominal in zip(
            panels, ("pinball at 0.9, ratio", "coverage of 0.9", "coverage of 0.99"), (1.0, 0.9, 0.99), strict=True
        ):
            axes.axvline(nominal, color=light("quiet"), linewidth=1)
            axes.set_xlabel(name)
        panels[0].set_yticks(range(len(models)), models)
        panels[0].set_ylim(len(models) - 0.5, -0.5)
        order = ", ".join(format_duration(horizon_s) for horizon_s in horizons)
        figure.suptitle(f"{title}: horizons {order}, from top to bottom", x=0.01, ha="left", fontsize=12)
        _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": path.name})
    figure.savefig(path, format="svg", facecolor=light("page"), metadata=_NO_METADATA)
