"""Kinds of configuration values that say where something is: addresses, URLs and paths."""

from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, ValidationInfo, WithJsonSchema

from scaler.config.address import Address as ListenAddress
from scaler.config.problems import shown


def _address(address: str) -> str:
    _parsed(address)
    return address


def _loopback(address: str) -> str:
    if not _parsed(address).loopback:
        raise ValueError(f"must be a loopback address such as 127.0.0.1:8081, was {shown(address)}")
    return address


def _parsed(address: str) -> ListenAddress:
    try:
        return ListenAddress.parse(address)
    except ValueError:
        raise ValueError(f"must be HOST:PORT, :PORT or [IPV6]:PORT, was {shown(address)}") from None


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
