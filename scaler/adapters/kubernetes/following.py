"""Makes the followers of a view, one for each kind, or for each kind and namespace that is watched."""

import random
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scaler.adapters.kubernetes.api import ApiConnection, path
from scaler.adapters.kubernetes.members import Members
from scaler.adapters.kubernetes.objects import Key
from scaler.adapters.kubernetes.pods import SeenPod
from scaler.adapters.kubernetes.watch import Follower, Pace


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
