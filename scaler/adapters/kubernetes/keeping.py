"""Where a follower leaves what it hears of one kind, for any thread to read."""

import threading
from collections.abc import Mapping
from typing import Generic, Protocol, TypeVar

from scaler.adapters.kubernetes.objects import Key

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class Sink(Protocol[T_contra]):
    """Where the objects of one kind are kept. Called from the follower's thread."""

    def replace(self, objects: Mapping[Key, T_contra], namespace: str) -> None:
        """Keep these and no others of a namespace (empty: of all), in one step for every reader."""
        ...

    def put(self, key: Key, it: T_contra) -> None:
        """Keep an object, new or changed."""
        ...

    def remove(self, key: Key) -> None:
        """Drop an object, if it is there."""
        ...


class Kept(Generic[T]):
    """A Sink that is a dictionary. An object that comes again unchanged is the same one as before."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._objects: dict[Key, T] = {}

    def replace(self, objects: Mapping[Key, T], namespace: str) -> None:
        """Keep these and no others, of a namespace or (empty) of all."""
        with self._lock:
            others = {key: it for key, it in self._objects.items() if namespace and key[0] != namespace}
            self._objects = others | {key: self._known(key, it) for key, it in objects.items()}

    def put(self, key: Key, it: T) -> None:
        """Keep an object, new or changed."""
        with self._lock:
            self._objects[key] = self._known(key, it)

    def remove(self, key: Key) -> None:
        """Drop an object, if it is there."""
        with self._lock:
            self._objects.pop(key, None)

    def get(self, key: Key) -> T | None:
        """Return an object; None if there is none."""
        return self._objects.get(key)

    def all(self) -> tuple[T, ...]:
        """Return all of them."""
        with self._lock:
            return tuple(self._objects.values())

    def _known(self, key: Key, it: T) -> T:
        old = self._objects.get(key)
        return old if old is not None and old == it else it
