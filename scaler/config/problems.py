"""What is wrong with a piece of configuration, said one way everywhere: key, allowed range, value.

The allowed range is read from the JSON Schema of the model that was violated, so that the message, the published schema
and the check cannot disagree. Values are shown short and escaped; what may hold a secret is never passed here.
"""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

KeyPath = tuple[str | int, ...]

_SHOWN_CHARS = 60


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: where in the document, and what it must be."""

    path: KeyPath
    message: str

    @property
    def key(self) -> str:
        """The path as text: `workloads[3].metadata.slo`."""
        return key_of(self.path)

    def under(self, *prefix: str | int) -> "Problem":
        """Return the same problem, seen from a document that holds this one at `prefix`."""
        return Problem((*prefix, *self.path), self.message)

    def __str__(self) -> str:
        return f"{self.key} {self.message}" if self.path else self.message


class RuleError(ValueError):
    """A rule between several keys is broken. It carries the problem, seen from the part that has the rule."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(str(problem))


class ConfigurationError(ValueError):
    """A configuration is not valid. All that is wrong with it is in `details`, as text in `problems`."""

    def __init__(self, details: Iterable[Problem]) -> None:
        self.details = tuple(details)
        super().__init__("; ".join(self.problems))

    @property
    def problems(self) -> tuple[str, ...]:
        """Each problem as one sentence."""
        return tuple(str(problem) for problem in self.details)


def key_of(path: KeyPath) -> str:
    """Write a path as a person would: `workloads[3].metadata.slo`. Names are shortened and escaped."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f"{'.' if text else ''}{plain(part)}"
    return text


def plain(text: str) -> str:
    """Return a name fit for a message: as it is if it is harmless, else escaped; never long."""
    harmless = text.isprintable() and not text.isspace() and text
    return _shorten(text) if harmless else shown(text)


def shown(value: object) -> str:
    """Show a value that was refused: escaped and short. Of a mapping or a list only that it is one."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case Mapping():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case str():
            # Cut before escaping: a long run of control characters must not become four times as long.
            return repr(_shorten(value))
        case _:
            return _shorten(str(value))


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean x?` for the nearest known name, or nothing."""
    folded = {other.casefold(): other for other in known}
    near = difflib.get_close_matches(name[:_SHOWN_CHARS].casefold(), folded, n=1, cutoff=0.7)
    return f"; did you mean {folded[near[0]]}?" if near else ""


def problems_of(error: ValidationError, model: type[BaseModel]) -> tuple[Problem, ...]:
    """Translate pydantic's findings about `model`, in the order of the document's keys."""
    return tuple(_problem(details, model) for details in error.errors(include_url=False))


def _problem(details: ErrorDetails, model: type[BaseModel]) -> Problem:
    path: KeyPath = details["loc"]
    match details["type"]:
        case "missing":
            message = "must be given"
        case "extra_forbidden":
            siblings = _resolve(_schema_at(model, path[:-1]), model).get("properties", ())
            message = f"is not a known key{did_you_mean(str(path[-1]), siblings)}"
        case "value_error" if isinstance(details["ctx"]["error"], RuleError):
            return details["ctx"]["error"].problem.under(*path)
        case "value_error":  # one of our own validators, which says it all and shows only what may be shown
            message = str(details["ctx"]["error"])
        case _:
            message = f"must be {allowed(_schema_at(model, path), model)}, was {shown(details['input'])}"
    return Problem(path, message)


@cache
def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema()


def _resolve(schema: Mapping[str, Any], model: type[BaseModel]) -> Mapping[str, Any]:
    """Follow references, and the one alternative of `X or null`."""
    while True:
        if "$ref" in schema:
            schema = _schema(model)["$defs"][schema["$ref"].rpartition("/")[2]]
        elif "anyOf" in schema and "allowed" not in schema:
            schema = next(choice for choice in schema["anyOf"] if choice.get("type") != "null")
        else:
            return schema


def _schema_at(model: type[BaseModel], path: KeyPath) -> Mapping[str, Any]:
    schema: Mapping[str, Any] = _schema(model)
    for part in path:
        schema = _resolve(schema, model)
        inner = schema.get("items") if isinstance(part, int) else schema.get("properties", {}).get(part)
        schema = inner or schema.get("additionalProperties") or {}
    return schema


def allowed(schema: Mapping[str, Any], model: type[BaseModel]) -> str:
    """Say in words what a JSON Schema of `model` allows: `0.5 .. 0.99999`, `one of requests, promptTokens`."""
    schema = _resolve(schema, model)
    if "allowed" in schema:
        return str(schema["allowed"])
    if "enum" in schema:
        return f"one of {', '.join(map(str, schema['enum']))}"
    kinds = {"object": "a mapping", "array": "a list", "boolean": "true or false", "string": "text"}
    kind = schema.get("type")
    if kind in kinds:
        return kinds[kind]
    return f"{'a whole number' if kind == 'integer' else 'a number'}{_range(schema)}"


def _range(schema: Mapping[str, Any]) -> str:
    if "minimum" in schema and "maximum" in schema:
        return f" {_number(schema['minimum'])} .. {_number(schema['maximum'])}"
    signs = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    limits = [f"{sign} {_number(schema[name])}" for name, sign in signs.items() if name in schema]
    return f" {' and '.join(limits)}" if limits else ""


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)
