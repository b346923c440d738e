"""Which namespaces are asked for together: as few queries as their answers and their own text have room for."""

from collections.abc import Callable, Iterable, Mapping, Sequence

_KEPT_CALLS = 40  # ten minutes of ticks
_MOST_HALVED = 32  # shards more than their rows need: enough to single out three of 1,000 namespaces
Shard = tuple[str, ...]
Fits = Callable[[Sequence[str]], bool]


class Shards:
    """Groups of namespaces, each with at most so many rows and so many characters of names.

    Namespaces stay together from tick to tick: a shard that has grown too large is split, a new namespace goes where
    there is room, and all are sorted anew only when that would halve their number. The order of input does not matter.
    A single namespace that is too large by itself is a shard of its own. One that the server refused is halved, and
    stays so for a while: an answer may be larger than what is expected of it, or cost the server more than it allows.
    One that is refused alone is kept apart for as long as it is, so that it costs the others nothing. A server that
    refuses everything is not asked ever more for it: refusals add at most `_MOST_HALVED` shards.
    """

    def __init__(self, max_rows: int) -> None:
        self._max_rows = max_rows
        self._shards: list[Shard] = []
        self._sorted_after = 0  # so many more calls
        self._needed = 0  # shards, if none had been refused
        self._apart: dict[str, int] = {}  # namespaces that were refused alone, for so many more calls

    def of(self, rows: Mapping[str, int], max_characters: int) -> tuple[Shard, ...]:
        """Return the shards of these namespaces, whose answers are expected to have so many rows."""

        def has_room(names: Sequence[str]) -> bool:
            characters = sum(len(name) + 1 for name in names)
            return len(names) == 1 or (sum(rows[n] for n in names) <= self._max_rows and characters <= max_characters)

        def fits(names: Sequence[str]) -> bool:
            return has_room(names) and (len(names) == 1 or self._apart.keys().isdisjoint(names))

        self._apart = {name: calls - 1 for name, calls in self._apart.items() if calls > 1 and name in rows}
        kept = [tuple(name for name in shard if name in rows) for shard in self._shards]
        pieces = [piece for shard in kept if shard for piece in _split(shard, fits)]
        known = {name for piece in pieces for name in piece}
        for name in sorted(rows.keys() - known):
            room = next((i for i, piece in enumerate(pieces) if fits((*piece, name))), None)
            if room is None:
                pieces.append((name,))
            else:
                pieces[room] = tuple(sorted((*pieces[room], name)))
        fresh = _packed(sorted(rows), fits)
        self._needed = len(_packed(sorted(rows), has_room))
        self._sorted_after = max(0, self._sorted_after - 1)
        self._shards = fresh if 2 * len(fresh) <= len(pieces) and not self._sorted_after else pieces
        return tuple(self._shards)

    def refused(self, shard: Shard) -> None:
        """Ask for a shard in halves from now on; for one that cannot be halved, by itself."""
        if shard not in self._shards:
            return
        if len(shard) == 1:
            self._apart[shard[0]] = _KEPT_CALLS
        elif len(self._shards) < self._needed + _MOST_HALVED:
            at, middle = self._shards.index(shard), len(shard) // 2
            self._shards[at : at + 1] = [shard[:middle], shard[middle:]]
            self._sorted_after = _KEPT_CALLS


def _split(names: Shard, fits: Fits) -> list[Shard]:
    """Return a shard in as many halves, and halves of halves, as it takes."""
    if fits(names):
        return [names]
    middle = len(names) // 2
    return [*_split(names[:middle], fits), *_split(names[middle:], fits)]


def _packed(names: Iterable[str], fits: Fits) -> list[Shard]:
    """Return shards that are filled one after the other."""
    shards: list[Shard] = []
    for name in names:
        if shards and fits((*shards[-1], name)):
            shards[-1] = (*shards[-1], name)
        else:
            shards.append((name,))
    return shards
