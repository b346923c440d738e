"""A matplotlib figure as an inline SVG element: coloured by the page, named for a screen reader, without identifiers.

What matplotlib writes is a document of its own, with a style sheet and identifiers that would reach beyond it, and
colours that a dark page cannot change.
"""

import io
import re
from xml.etree.ElementTree import Element, fromstring

import matplotlib as mpl
from matplotlib.figure import Figure

from scaler.report.canvas import house_style
from scaler.report.markup import element
from scaler.report.palette import variable_of

_COLOUR = re.compile(r"#[0-9a-fA-F]{6}\b")
_FONT_FAMILY = re.compile(r"font-family: [^;]*;? ?")
_REFERENCE = re.compile(r"#([\w-]+)")
_DECIMALS = re.compile(r"(\d+\.\d)\d+")  # a tenth of a pixel is enough
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))


def inline_svg(figure: Figure, *, name: str, title: str, description: str) -> Element:
    """Return the figure as an `svg` element of its own size, with its title and description.

    `name` is unique on the page: it is part of every identifier.
    """
    root = fromstring(_drawn(figure, name))  # noqa: S314 -- matplotlib's own output, a moment old
    for node in root.iter():
        node.tag = node.tag.rpartition("}")[2]
        node.attrib = {key.rpartition("}")[2]: value for key, value in node.attrib.items()}
        if "style" in node.attrib:
            node.set("style", _styled(node.attrib["style"]))
        if "d" in node.attrib:
            node.set("d", _DECIMALS.sub(r"\1", node.attrib["d"]).replace("\n", ""))
    for child in [child for child in root if child.tag == "metadata"]:
        root.remove(child)
    for defs in root.findall("defs"):
        for sheet in defs.findall("style"):
            defs.remove(sheet)
    _drop_identifiers(root)
    _describe(root, name, title, description)
    return root


def _drawn(figure: Figure, name: str) -> str:
    out = io.StringIO()
    # The salt makes identifiers the same in every run, and different from one plot to the next.
    with house_style():
        mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": name})
        figure.savefig(out, format="svg", transparent=True, metadata=_NO_METADATA)
    return out.getvalue()


def _styled(style: str) -> str:
    """Replace the colours by the page's variables, and leave the font to the page."""
    return _COLOUR.sub(lambda match: variable_of(match[0]), _FONT_FAMILY.sub("", style))


def _drop_identifiers(root: Element) -> None:
    """Keep the identifiers that something refers to. Those of curves become classes: they repeat from plot to plot."""
    used = {match for node in root.iter() for value in node.attrib.values() for match in _REFERENCE.findall(value)}
    for node in root.iter():
        identifier = node.attrib.get("id")
        if identifier is None or identifier in used:
            continue
        del node.attrib["id"]
        if identifier.startswith("curve-"):
            node.set("class", identifier)


def _describe(root: Element, name: str, title: str, description: str) -> None:
    width, height = root.attrib.pop("width"), root.attrib.pop("height")
    root.attrib.pop("version", None)
    root.set("class", "plot")
    root.set("role", "img")
    root.set("aria-labelledby", f"{name}-title {name}-desc")
    root.set("style", f"max-width:{_px(width)};aspect-ratio:{_px(width)[:-2]}/{_px(height)[:-2]}")
    root.insert(0, element("title", title, id=f"{name}-title"))
    root.insert(1, element("desc", description, id=f"{name}-desc"))


def _px(points: str) -> str:
    return points.removesuffix("pt") + "px"  # a figure's points are the page's pixels
