"""Kinds of configuration values that occur in more than one place. Each carries, in its schema, what it allows."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from scaler.config.durations import parse_duration


def camel_key(name: str) -> str:
    """Return the key that a field has in a file: `rate_window_s` is `rateWindow`, whose text carries its unit."""
    return to_camel(name.removesuffix("_s"))


def seconds(value: Any) -> Any:
    """Read a duration for a pydantic field; what it allows is in the field's schema, hence the short error."""
    if not isinstance(value, str | int | float):
        raise PydanticCustomError("duration_type", "not a duration")
    try:
        return parse_duration(value)
    except ValueError:
        raise PydanticCustomError("duration_parsing", "not a duration") from None


def duration_schema(lowest: str) -> dict[str, Any]:
    """Return the JSON Schema of a duration; `lowest` is `> 0` or `>= 0`."""
    return {"type": ["string", "number"], "allowed": f"a duration {lowest} such as 500ms, 15s, 4m, 1h30m or 14d"}


PositiveDuration = Annotated[float, BeforeValidator(seconds), Field(gt=0), WithJsonSchema(duration_schema("> 0"))]


DNS_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
Namespace = Annotated[
    str,
    Field(max_length=63, pattern=f"^{DNS_LABEL}$"),
    WithJsonSchema({"type": "string", "allowed": "a namespace: at most 63 of a-z, 0-9 and '-'"}),
]
# One namespace, or several at once: `team-*`, or `*` for all.
NamespacePattern = Annotated[
    str,
    Field(max_length=63, pattern=r"^[a-z0-9*](?:[-a-z0-9*]*[a-z0-9*])?$"),
    WithJsonSchema({"type": "string", "allowed": "a namespace, or a pattern of namespaces such as team-* or *"}),
]
LABEL_NAME = "[a-zA-Z_][a-zA-Z0-9_]*"
# KEDA names the HPA keda-hpa-<name>, in at most 63 characters.
MAX_NAME_CHARS = 54
ScaledObjectName = Annotated[
    str,
    Field(max_length=MAX_NAME_CHARS, pattern=rf"^{DNS_LABEL}(?:\.{DNS_LABEL})*$"),
    WithJsonSchema({"type": "string", "allowed": f"a name: at most {MAX_NAME_CHARS} of a-z, 0-9, '-' and '.'"}),
]
