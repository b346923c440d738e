"""The shape of what `headway rights --json` writes: a Kubernetes List, so that `kubectl apply -f` takes it as it is.

`docs/schemas/rights.schema.json` is generated from this model. kubectl reads a List's items and nothing else of it, so
the `schema` that all of Headway's documents carry does no harm.
"""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class RightsDocument(BaseModel):
    """ServiceAccounts, Roles, ClusterRoles and their bindings."""

    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True)

    schema_: Annotated[Literal[1], Field(alias="schema")]
    api_version: Annotated[Literal["v1"], Field(alias="apiVersion")]
    kind: Literal["List"]
    items: list[dict[str, Any]]


def rights_document(manifests: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the document of these manifests."""
    whole = {"schema": 1, "apiVersion": "v1", "kind": "List", "items": list(manifests)}
    return RightsDocument.model_validate(whole).model_dump(mode="json")
