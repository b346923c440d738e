"""The shape of what a role writes with `--json`, once it listens: where to reach it.

`docs/schemas/announcement.schema.json` is generated from this model. A script waits for the file and reads the ports
that were really bound.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class Announcement(BaseModel):
    """The addresses of one role by name: `http`, `admin`, `grpc`; those of `serve` are `controller_http` and so on."""

    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True)

    schema_: Annotated[Literal[1], Field(alias="schema")]
    role: Literal["controller", "scaler", "serve"]
    addresses: dict[str, Annotated[str, Field(pattern=r"^.*:[1-9][0-9]{0,4}$")]]  # HOST:PORT; no host: all interfaces
