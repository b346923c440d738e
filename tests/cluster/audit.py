"""What the API server was asked, by whom, as its own audit log has it."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WRITES = frozenset(("create", "update", "patch", "delete", "deletecollection"))
FIRST_ERROR = 400
FORBIDDEN = 403


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
        """Return what these users have asked of objects since; a watch counts once, where it was opened."""
        return [
            _call(entry)
            for entry in self._entries(users)
            if "resource" in entry.get("objectRef", {}) and not _is_end_of_watch(entry)
        ]

    def refused(self, users: Collection[str]) -> list[str]:
        """Return what these users were forbidden, as it stood in the requests; API discovery included."""
        return [
            f"{entry['verb']} {entry['requestURI']}" for entry in self._entries(users) if _status(entry) == FORBIDDEN
        ]

    def _entries(self, users: Collection[str]) -> Iterator[dict[str, Any]]:
        with self._log.open("rb") as log:
            log.seek(self._from)
            for line in log:
                if line.endswith(b"\n"):  # the last one may be half written
                    entry = json.loads(line)
                    if entry["user"]["username"] in users:
                        yield entry


def _is_end_of_watch(entry: dict[str, Any]) -> bool:
    """Tell a watch's second entry, which it has besides that of its start unless it was refused at once."""
    return bool(entry["verb"] == "watch" and entry["stage"] == "ResponseComplete" and _status(entry) < FIRST_ERROR)


def _status(entry: dict[str, Any]) -> int:
    return int(entry.get("responseStatus", {}).get("code", 0))


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
        status=_status(entry),
    )


def table(calls: Iterable[Call]) -> str:
    """Return how often what was asked, for a person."""
    counted = Counter((call.user.rpartition(":")[2], call.verb, call.resource) for call in calls)
    return "\n".join(f"{number:6} {' '.join(what)}" for what, number in counted.most_common())
