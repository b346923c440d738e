"""YAML text to plain values with the line of every key, and every problem of the text itself.

PyYAML's safe loader builds scalars only; mappings and sequences are built here, so that a repeated key is a problem and
not a silent loss, and an alias that expands without end costs no more than a limit.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from scaler.config.problems import KeyPath, plain

try:
    from yaml import CSafeLoader as _Loader  # libyaml: ten times as fast
except ImportError:  # pragma: no cover  # a PyYAML without libyaml
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]  # the same interface

MAX_DEPTH = 64
MAX_VALUES = 500_000  # aliases counted each time; 10,000 workloads take about 120,000


@dataclass(frozen=True, slots=True)
class Document:
    """One document: its value, and on which line each key and list item of it stands (from 1)."""

    value: Any
    line: int
    lines: Mapping[KeyPath, int]

    def line_of(self, path: KeyPath) -> int:
        """Return the line of a path, or of the nearest part of it that is there."""
        while path:
            if path in self.lines:
                return self.lines[path]
            path = path[:-1]
        return self.line


@dataclass(frozen=True, slots=True)
class TextProblem:
    """Something wrong with the text, not with what it says."""

    line: int
    path: KeyPath
    message: str


@dataclass(frozen=True, slots=True)
class Parsed:
    """The documents of a file, as far as they can be read, and what is wrong with the text."""

    documents: tuple[Document, ...]
    problems: tuple[TextProblem, ...]


def parse_yaml(text: str) -> Parsed:
    """Read all documents of a text. Never raises for what the text holds."""
    documents: list[Document] = []
    problems: list[TextProblem] = []
    try:
        for document, found in _documents(text):
            documents.append(document)
            problems += found
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problems.append(TextProblem(mark.line + 1 if mark else 1, (), f"must be YAML: {_reason(error)}"))
    except yaml.YAMLError as error:  # an unreadable character: there is a position and no mark
        line = text.count("\n", 0, getattr(error, "position", 0)) + 1
        problems.append(TextProblem(line, (), "must be YAML: it has a character that YAML does not allow"))
    except RecursionError:
        problems.append(TextProblem(1, (), f"must be nested at most {MAX_DEPTH} deep"))
    return Parsed(tuple(documents), tuple(problems))


def _reason(error: yaml.MarkedYAMLError) -> str:
    return plain(" ".join(filter(None, (error.context, error.problem))))


def _documents(text: str) -> Iterator[tuple[Document, list[TextProblem]]]:
    loader = _Loader(text)
    try:
        while loader.check_node():
            root = loader.get_node()
            if root is not None:
                builder = _Builder(loader)
                value = builder.build(root, ())
                yield Document(value, root.start_mark.line + 1, builder.lines), builder.problems
    finally:
        loader.dispose()


class _TooMuchError(yaml.MarkedYAMLError):
    """A document expands beyond what is read."""


@dataclass(slots=True)
class _Builder:
    """Builds one document's value from its nodes."""

    loader: Any
    lines: dict[KeyPath, int] = field(default_factory=dict)
    problems: list[TextProblem] = field(default_factory=list)
    count: int = 0

    def build(self, node: yaml.Node, path: KeyPath) -> Any:
        """Return the value of a node; `path` is where it stands."""
        self.count += 1
        if self.count > MAX_VALUES or len(path) > MAX_DEPTH:
            limit = f"at most {MAX_VALUES} values" if self.count > MAX_VALUES else f"at most {MAX_DEPTH} levels"
            raise _TooMuchError(problem=f"a document may have {limit}", problem_mark=node.start_mark)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self._item(item, (*path, i)) for i, item in enumerate(node.value)]
        return self._scalar(node, path)

    def _item(self, node: yaml.Node, path: KeyPath) -> Any:
        self.lines[path] = node.start_mark.line + 1
        return self.build(node, path)

    def _scalar(self, node: yaml.Node, path: KeyPath) -> Any:
        try:
            return self.loader.construct_object(node)
        except (yaml.YAMLError, ValueError):  # an unknown tag, or a date such as 2024-13-01
            self._report(node, path, "must be a plain value")
            return None

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                merged |= self._merged(value_node, path)
            elif not isinstance(key_node, yaml.ScalarNode):
                self._report(key_node, path, "must have plain keys")
            else:
                # The text as written: to Kubernetes, and to us, every key is text, `on` and `1` included.
                self._entry(own, key_node, value_node, path)
        return merged | own

    def _entry(self, own: dict[str, Any], key_node: yaml.ScalarNode, value_node: yaml.Node, path: KeyPath) -> None:
        key = key_node.value
        here = (*path, key)
        if key in own:
            self._report(key_node, here, f"must be given once, was given on line {self.lines[here]} too")
        else:
            self.lines[here] = key_node.start_mark.line + 1
        own[key] = self.build(value_node, here)

    def _merged(self, node: yaml.Node, path: KeyPath) -> dict[str, Any]:
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        values = [self.build(source, (*path, "<<")) for source in sources]
        if not all(isinstance(value, dict) for value in values):
            self._report(node, path, "must merge mappings only")
            return {}
        return {key: value for source in reversed(values) for key, value in source.items()}

    def _report(self, node: yaml.Node, path: KeyPath, message: str) -> None:
        self.problems.append(TextProblem(node.start_mark.line + 1, path, message))
