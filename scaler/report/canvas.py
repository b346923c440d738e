"""How a plot is drawn: its size, its style, its curves with their gaps, and limits that stay in sight.

Uses matplotlib's Figure alone: no pyplot, no display, no state of the process that outlives a drawing.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from scaler.report.palette import light
from scaler.report.text import quantity

FloatArray = npt.NDArray[np.float64]

# A plot is drawn once for wide and once for narrow screens, so that its letters have their size on both. CSS pixels.
WIDE = (880, 260)
NARROW = (358, 230)

_MARGINS_PX = {"left": 46, "right": 10, "top": 12, "bottom": 42}  # the same everywhere: times stand above each other
_PX_PER_INCH = 72  # of matplotlib's SVG
_TAME = 6  # an axis with values above its limit times this is logarithmic beyond the limit

_STYLE: dict[Any, Any] = {
    "font.size": 12,
    "text.color": light("ink"),
    "text.parse_math": False,
    "axes.edgecolor": light("rule"),
    "axes.labelcolor": light("quiet"),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "axes.xmargin": 0.0,
    "grid.color": light("rule"),
    "grid.linewidth": 1,
    "lines.linewidth": 1.8,
    "xtick.color": light("rule"),
    "ytick.color": light("rule"),
    "xtick.labelcolor": light("quiet"),
    "ytick.labelcolor": light("quiet"),
    "ytick.major.size": 0,
}


@contextmanager
def house_style() -> Iterator[None]:
    """Draw in the reports' style within: a user's own may want LaTeX, or hide what is drawn."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield


def drawn(draw: Callable[[Axes], None], size_px: tuple[int, int], *, x_label: str) -> Figure:
    """Return a figure of one pair of axes that `draw` has filled; x is time."""
    width, height = size_px
    with house_style():
        figure = Figure(figsize=(width / _PX_PER_INCH, height / _PX_PER_INCH), dpi=_PX_PER_INCH)
        figure.subplots_adjust(
            left=_MARGINS_PX["left"] / width,
            right=1 - _MARGINS_PX["right"] / width,
            top=1 - _MARGINS_PX["top"] / height,
            bottom=_MARGINS_PX["bottom"] / height,
        )
        axes = figure.add_subplot()
        draw(axes)
        axes.set_xlabel(x_label)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=8 if width > NARROW[0] else 5, integer=True))
    return figure


def curve(
    axes: Axes,
    at: FloatArray,
    values: FloatArray,
    role: str,
    *,
    name: str,
    steps: bool = False,
    dashes: bool = False,
    width: float = 1.8,
) -> None:
    """Draw a curve with its gaps; a known value between two gaps is a dot, which a line alone would not show."""
    known = ~np.isnan(values)
    alone = known & ~np.append(known[1:], False) & ~np.append(False, known[:-1])
    axes.plot(
        at,
        values,
        color=light(role),
        linewidth=width,
        linestyle=(0, (4, 2)) if dashes else "-",
        drawstyle="steps-post" if steps else "default",
        marker=".",
        markevery=np.flatnonzero(alone).tolist(),
        gid=f"curve-{name}",
    )


def marks(axes: Axes, at: FloatArray, values: FloatArray, role: str, *, name: str, up: bool) -> None:
    """Draw a triangle at each of the points."""
    axes.plot(
        at,
        values,
        "^" if up else "v",
        color=light(role),
        markersize=6,
        clip_on=False,
        zorder=4,
        gid=f"curve-{name}",
    )


def band(
    axes: Axes,
    at: FloatArray,
    low: FloatArray | float,
    high: FloatArray,
    role: str,
    *,
    where: npt.NDArray[np.bool_] | None = None,
    steps: bool = True,
    alpha: float = 0.3,
) -> None:
    """Fill between two curves, where it is asked for."""
    axes.fill_between(
        at, low, high, where=where, step="post" if steps else None, color=light(role), alpha=alpha, linewidth=0
    )


def from_zero(axes: Axes, *, whole: bool = False) -> None:
    """Let y start at zero, with few ticks; `whole` for counts."""
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=whole))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: quantity(value)))


def limit_line(axes: Axes, limit: float, values: FloatArray) -> None:
    """Draw a limit, and keep it in sight: values far beyond it make the axis logarithmic above the limit."""
    from_zero(axes)
    axes.axhline(limit, color=light("breach"), linewidth=1.4, linestyle=(0, (6, 3)), gid="curve-limit")
    top = highest(values)
    if not is_far_beyond(values, limit):
        axes.set_ylim(0, max(1.1 * top, 1.25 * limit))
        return
    axes.set_yscale("symlog", linthresh=limit, linscale=0.7)
    axes.set_ylim(0, 1.3 * top)
    factors = (2, 5, 10, 20, 50) if top < 50 * limit else tuple(10.0**n for n in range(1, 12))
    axes.set_yticks([0, limit / 2, limit, *(limit * factor for factor in factors if limit * factor <= 1.3 * top)])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: quantity(value)))


def is_far_beyond(values: FloatArray, limit: float) -> bool:
    """Return whether a linear axis up to the highest value would squash what lies below the limit."""
    return highest(values) > _TAME * limit


def highest(values: FloatArray) -> float:
    """Return the highest known value; 0 without any."""
    known = values[~np.isnan(values)]
    return float(known.max()) if len(known) else 0.0
