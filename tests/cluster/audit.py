"""What the API server was asked, by whom, as its own audit log has it."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WRITES = frozenset(("create", "update", "patch", "delete", "deletecollection"))


@dataclass(frozen=True)
class Call:
    """One request. `resource` names the subresource too: `deployments/scale`."""

    user: str
    verb: str
    group: str
    resource: str
    namespace: str
    name: str
    status: int
    at: str

    @property
    def right(self) -> tuple[str, str, str]:
        """What a rule must grant for it: verb, group, resource."""
        return self.verb, self.group, self.resource


class Audit:
    """The log from some moment on."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._from = log.stat().st_size

    def calls(self, users: Collection[str]) -> list[Call]:
        """Return what these users have asked since; a watch counts once, when it was opened."""
        seen: dict[str, Call] = {}
        for entry in self._entries():
            if entry["user"]["username"] in users and "resource" in entry.get("objectRef", {}):
                seen.setdefault(entry["auditID"], _call(entry))
        return list(seen.values())

    def _entries(self) -> Iterator[dict[str, Any]]:
        with self._log.open("rb") as log:
            log.seek(self._from)
            for line in log:
                if line.endswith(b"\n"):  # the last one may be half written
                    yield json.loads(line)


def _call(entry: dict[str, Any]) -> Call:
    about = entry["objectRef"]
    resource = "/".join(filter(None, (about["resource"], about.get("subresource"))))
    return Call(
        user=entry["user"]["username"],
        verb=entry["verb"],
        group=about.get("apiGroup", ""),
        resource=resource,
        namespace=about.get("namespace", ""),
        name=about.get("name", ""),
        status=entry.get("responseStatus", {}).get("code", 0),
        at=entry["requestReceivedTimestamp"],
    )


def table(calls: Iterable[Call]) -> str:
    """Return how often what was asked, for a person."""
    counted = Counter((call.verb, call.resource) for call in calls)
    return "\n".join(f"{number:6} {verb} {resource}" for (verb, resource), number in counted.most_common())
