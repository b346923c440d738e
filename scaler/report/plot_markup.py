"""The plots of a run as parts of a page: heading, legend, drawing for wide and for narrow screens, summary."""

from xml.etree.ElementTree import Element

from scaler.report.canvas import NARROW, WIDE
from scaler.report.markup import element
from scaler.report.plots import Key, Plot, figure_of, plots_of
from scaler.report.run_record import RunRecord
from scaler.report.svg import inline_svg


def plot_sections(record: RunRecord) -> list[Element]:
    """Return a section per plot; none for a run without samples."""
    return [_section(plot) for plot in plots_of(record)]


def _section(plot: Plot) -> Element:
    return element(
        "section",
        element("h2", plot.title),
        element("ul", *(element("li", _swatch(key), key.label) for key in plot.keys), class_="legend"),
        element(
            "figure",
            _drawing(plot, WIDE, "wide"),
            _drawing(plot, NARROW, "narrow"),
            element("figcaption", plot.summary),
        ),
    )


def _drawing(plot: Plot, size_px: tuple[int, int], kind: str) -> Element:
    svg = inline_svg(figure_of(plot, size_px), name=f"{plot.name}-{kind}", title=plot.title, description=plot.summary)
    return element("div", svg, class_=kind)


def _swatch(key: Key) -> Element:
    colour = f"var(--{key.role})"
    match key.mark:
        case "line":
            mark = element("path", d="M0 6H20", style=f"stroke:{colour};stroke-width:2.5")
        case "dashes":
            mark = element("path", d="M0 6H20", style=f"stroke:{colour};stroke-width:2;stroke-dasharray:5 2.5")
        case "area":
            mark = element("path", d="M0 0H20V12H0Z", style=f"fill:{colour};fill-opacity:.4;stroke:{colour}")
        case "up":
            mark = element("path", d="M10 1L15.5 11H4.5Z", style=f"fill:{colour}")
        case "down":
            mark = element("path", d="M10 11L15.5 1H4.5Z", style=f"fill:{colour}")
    return element("svg", mark, viewBox="0 0 20 12", aria_hidden="true")
