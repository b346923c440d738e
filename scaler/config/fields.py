"""Kinds of configuration values that occur in more than one place. Each carries, in its schema, what it allows."""

import ipaddress
import re
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, WithJsonSchema
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from scaler.config.durations import parse_duration
from scaler.config.problems import shown


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
Duration = Annotated[float, BeforeValidator(seconds), Field(ge=0), WithJsonSchema(duration_schema(">= 0"))]


_DNS_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
Namespace = Annotated[
    str,
    Field(max_length=63, pattern=f"^{_DNS_LABEL}$"),
    WithJsonSchema({"type": "string", "allowed": "a namespace: at most 63 of a-z, 0-9 and '-'"}),
]
# KEDA names the HPA keda-hpa-<name>, in at most 63 characters.
MAX_NAME_CHARS = 54
ScaledObjectName = Annotated[
    str,
    Field(max_length=MAX_NAME_CHARS, pattern=rf"^{_DNS_LABEL}(?:\.{_DNS_LABEL})*$"),
    WithJsonSchema({"type": "string", "allowed": f"a name: at most {MAX_NAME_CHARS} of a-z, 0-9, '-' and '.'"}),
]


_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]*\]|[A-Za-z0-9._-]*):([0-9]{1,5})")


def split_address(address: str) -> tuple[str, int]:
    """Return host (empty for all interfaces, without brackets) and port; ValueError if it is not `HOST:PORT`."""
    match = _ADDRESS.fullmatch(address)
    if not match or int(match[2]) > 65_535:
        raise ValueError(f"must be HOST:PORT, :PORT or [IPV6]:PORT, was {shown(address)}")
    return match[1].strip("[]"), int(match[2])


def _address(address: str) -> str:
    split_address(address)
    return address


def _loopback(address: str) -> str:
    host, _ = split_address(address)
    if host != "localhost" and not _is_loopback(host):
        raise ValueError(f"must be a loopback address such as 127.0.0.1:8081, was {shown(address)}")
    return address


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


Address = Annotated[str, AfterValidator(_address)]
# Whoever may read the plan of every namespace is not checked yet, so it stays on the machine.
LoopbackAddress = Annotated[str, AfterValidator(_loopback)]


def _url(url: str) -> str:
    """Accept an http(s) URL without credentials. A refused one is not shown: it may hold some."""
    try:
        parts = urlsplit(url)
        ok = parts.scheme in {"http", "https"} and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        ok = False
    if not ok or not url.isprintable():
        raise ValueError("must be an http:// or https:// URL")
    if "@" in parts.netloc:
        raise ValueError("must not hold credentials: use username and passwordFile, or bearerTokenFile")
    if parts.query or parts.fragment:
        raise ValueError("must not have a query or a fragment")
    return url.rstrip("/")


Url = Annotated[str, AfterValidator(_url)]


def _resolved(path: Any, info: ValidationInfo) -> Path:
    """Take a relative path from the folder of the file that names it (`base` in the validation context)."""
    if not (isinstance(path, str) and path and path.isprintable()):
        raise ValueError(f"must be a path, was {shown(path)}")
    base = (info.context or {}).get("base")
    return Path(base, path) if base is not None else Path(path)


FilePath = Annotated[Path, BeforeValidator(_resolved), WithJsonSchema({"type": "string"})]
