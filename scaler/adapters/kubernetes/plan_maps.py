"""The ConfigMaps of a plan store: where they are, and how they are read and written within a budget of time."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from scaler.adapters.kubernetes.api import ApiConnection, ApiError, path
from scaler.adapters.kubernetes.plan_shards import MAX_SHARDS, Head, head_from_object
from scaler.ports import StoreError

NOT_FOUND: Final = 404
CONFLICT: Final = 409
ATTEMPTS: Final = 3  # of a write or a read that somebody else's write came between


@dataclass(frozen=True, slots=True)
class PlanStoreSettings:
    """Where the ConfigMaps are, in how many shards a plan is written, and who writes (a name for people)."""

    namespace: str
    writer: str
    name: str = "headway-plan"
    shards: int = 8
    budget_s: float = 10.0  # of the wall: of one publication, beat or look
    fallback_s: float = 5.0  # between two looks at the server while the watch is not well

    def __post_init__(self) -> None:
        if not 1 <= self.shards <= MAX_SHARDS:
            raise ValueError(f"shards must be 1 to {MAX_SHARDS}, was {self.shards}")
        if not (self.budget_s > 0 and self.fallback_s > 0):
            raise ValueError(f"budget_s and fallback_s must be > 0, were {self.budget_s} and {self.fallback_s}")

    def shard_name(self, number: int) -> str:
        """Return the name of a shard's ConfigMap."""
        return f"{self.name}-{number}"


class Moved(Exception):  # noqa: N818 - no error: somebody else wrote, and it is looked at again
    """What was read before is not what is there any more."""


class Maps:
    """The ConfigMaps, within a budget of time. Blocking."""

    def __init__(self, api: ApiConnection, settings: PlanStoreSettings) -> None:
        self.api = api
        self.settings = settings
        self.collection = path("api", "v1", "namespaces", settings.namespace, "configmaps")
        self._ends_s = 0.0

    def begin(self) -> None:
        """Begin a budget."""
        self._ends_s = self.api.clock.monotonic_s() + self.settings.budget_s

    def left_s(self) -> float:
        """Return what is left of it; StoreError when it is used up."""
        left_s = self._ends_s - self.api.clock.monotonic_s()
        if left_s <= 0:
            raise StoreError(f"{self.collection}: not done in {self.settings.budget_s:g} s")
        return left_s

    def get(self, name: str) -> dict[str, Any] | None:
        """Return a ConfigMap, or None where there is none."""
        try:
            return self.api.get(f"{self.collection}{path(name)}", timeout_s=self.left_s())
        except ApiError as error:
            if error.status == NOT_FOUND:
                return None
            raise StoreError(f"ConfigMap {name} cannot be read: {error}") from error

    def put(self, name: str, body: Mapping[str, Any]) -> str:
        """Replace the version that the body names, or create it where it names none. Return the new version."""
        try:
            if "resourceVersion" in body["metadata"]:
                written = self.api.replace(f"{self.collection}{path(name)}", body, timeout_s=self.left_s())
            else:
                written = self.api.create(self.collection, body, timeout_s=self.left_s())
            return str(written["metadata"]["resourceVersion"])
        except ApiError as error:
            if error.status in {NOT_FOUND, CONFLICT} or error.uncertain:
                raise Moved(f"ConfigMap {name}: {error}") from error
            raise StoreError(f"ConfigMap {name} cannot be written: {error}") from error


def head_of(found: Mapping[str, Any] | None, name: str) -> Head:
    """Return what the index's ConfigMap holds, an empty head where there is none; StoreError for anything else."""
    if found is None:
        return Head()
    try:
        return head_from_object(found)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"ConfigMap {name} does not hold what it should: {error}") from error


def revision_of(found: Mapping[str, Any] | None) -> str:
    """Return the version of a ConfigMap, empty where there is none."""
    return "" if found is None else str(found["metadata"]["resourceVersion"])
