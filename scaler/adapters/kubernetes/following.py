"""Makes the followers of a view, one for each kind, or for each kind and namespace that is watched."""

import random
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from scaler.adapters.kubernetes.api import ApiConnection, path
from scaler.adapters.kubernetes.members import Members
from scaler.adapters.kubernetes.objects import Key
from scaler.adapters.kubernetes.pods import SeenPod
from scaler.adapters.kubernetes.watch import Follower, Pace

# Times without the right, by production's pace for 15 s at least: a server that has just started may not have read its
# roles yet.
BARRED_AFTER: Final = 6


def barred(follower: Follower[Any]) -> bool:
    """Return whether there is no right to what it follows, by several answers."""
    return follower.progress.forbidden >= BARRED_AFTER


def followed(follower: Follower[Any]) -> bool:
    """Return whether what was listed is kept current: it is no longer where the right to it was taken away."""
    return follower.progress.synced and not barred(follower)


def out_of_sight(followers: Iterable[Follower[Any]]) -> Mapping[str, str]:
    """Return the namespaces in which one of these is barred, and the problem. Where all would be, none is.

    A right was taken away there, or the namespace was deleted and its bindings with it: that must not blind Headway in
    the others. Where nothing is in sight there is no view, which its caller says.
    """
    every = tuple(followers)
    found = {it.namespace: it.progress.problem for it in every if it.namespace and barred(it)}
    return found if len(found) < len({it.namespace for it in every}) else {}


class PodSink:
    """Pods' way into the members, under the view's lock."""

    def __init__(self, members: Members, lock: threading.Lock) -> None:
        self._members = members
        self._lock = lock

    def replace(self, objects: Mapping[Key, SeenPod], namespace: str) -> None:
        """Hold these pods and no others, of a namespace or (empty) of all."""
        with self._lock:
            self._members.replace(objects, namespace)

    def put(self, key: Key, it: SeenPod) -> None:
        """Take a new or changed pod."""
        with self._lock:
            self._members.put(key, it)

    def remove(self, key: Key) -> None:
        """Forget a pod, if it is there."""
        with self._lock:
            self._members.remove(key)


@dataclass(frozen=True, slots=True)
class Following:
    """Makes followers of one view, alike but for their kind."""

    api: ApiConnection
    namespaces: tuple[str, ...]
    pace: Pace | None
    chance: random.Random | None

    def all(self, plural: str, root: tuple[str, ...], read: Any, sink: Any, **more: Any) -> tuple[Follower[Any], ...]:
        """Return what follows a kind in the namespaces that are watched."""
        if not self.namespaces:
            return self.cluster(plural, root, read, sink, **more)
        return tuple(
            self._one(f"{plural} of {it}", path(*root, "namespaces", it, plural), read, sink, namespace=it, **more)
            for it in self.namespaces
        )

    def cluster(
        self, plural: str, root: tuple[str, ...], read: Any, sink: Any, **more: Any
    ) -> tuple[Follower[Any], ...]:
        """Return what follows a kind in the whole cluster."""
        return (self._one(plural, path(*root, plural), read, sink, **more),)

    def _one(self, name: str, where: str, read: Any, sink: Any, **more: Any) -> Follower[Any]:
        return Follower(name, where, read, sink, self.api, pace=self.pace, chance=self.chance, **more)
