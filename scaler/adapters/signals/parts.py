"""What parts an owner had a while ago, so that one that falls silent is missed and not taken for no load."""

from collections.abc import Collection, Hashable

REMEMBERED_S = 600.0  # after that the owner is taken to have what it shows


class PartsMemory:
    """Remembers the parts (ranks of a pod, GPUs of a pod) that each signal of an owner had.

    A part that is absent while others are there is lost, until it is back, until something new takes its place (a rank
    that started again under another identity) or for `REMEMBERED_S`. An owner of whose parts none is left started anew.
    It never remembers more parts than were once there together.
    """

    def __init__(self) -> None:
        self._seen: dict[Hashable, dict[Hashable, float]] = {}  # key -> part -> when it was last there

    def __len__(self) -> int:
        return len(self._seen)

    def lost(self, key: Hashable, parts: Collection[Hashable], now_s: float) -> bool:
        """Take the parts that are there now, and return whether one that was there is not."""
        before = self._seen.get(key, {})
        now = dict.fromkeys(parts, now_s)
        if before.keys() & now.keys():
            absent = sorted((at_s, i, part) for i, (part, at_s) in enumerate(before.items()) if part not in now)
            replaced = len(now.keys() - before.keys())
            now |= {part: at_s for at_s, _, part in absent[replaced:] if abs(now_s - at_s) <= REMEMBERED_S}
        self._seen[key] = now
        return len(now) > len(parts)

    def forget(self, now_s: float) -> None:
        """Drop owners that have not been seen for `REMEMBERED_S`; also those of a time that is yet to come."""
        self._seen = {
            key: parts for key, parts in self._seen.items() if abs(now_s - max(parts.values())) <= REMEMBERED_S
        }
