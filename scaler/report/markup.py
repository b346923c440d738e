"""HTML as a tree: text is escaped by construction, because no markup is ever put together from strings."""

from xml.etree.ElementTree import Element, tostring

from scaler.report.text import printable


def element(tag: str, *children: Element | str, **attributes: str) -> Element:
    """Return an element. In a name of an attribute, `_` stands for `-`, and a last one keeps off Python's keywords."""
    named = {name.rstrip("_").replace("_", "-"): printable(value) for name, value in attributes.items()}
    node = Element(tag, named)
    for child in children:
        if isinstance(child, Element):
            node.append(child)
        else:
            _append_text(node, printable(child))
    return node


def style_sheet(css: str) -> Element:
    """Return a style element. The sheet is Headway's own: what is in it is not escaped."""
    node = Element("style")
    node.text = css
    return node


def page(root: Element) -> str:
    """Write a whole document."""
    return "<!DOCTYPE html>\n" + tostring(root, encoding="unicode", method="html") + "\n"


def _append_text(node: Element, text: str) -> None:
    if len(node):
        node[-1].tail = (node[-1].tail or "") + text
    else:
        node.text = (node.text or "") + text
