"""Which namespaces are asked for together: as few queries as their answers and their own text have room for."""

from collections.abc import Callable, Iterable, Mapping, Sequence

_KEPT_CALLS = 40  # ten minutes of ticks
Shard = tuple[str, ...]
Fits = Callable[[Sequence[str]], bool]


class Shards:
    """Groups of namespaces, each with at most so many rows and so many characters of names.

    Namespaces stay together from tick to tick: a shard that has grown too large is split, a new namespace goes where
    there is room, and all are sorted anew only when that would halve their number. The order of input does not matter.
    A single namespace that is too large by itself is a shard of its own. One that the server refused is halved, and
    stays so for a while: an answer may be larger than what is expected of it, or cost the server more than it allows.
    """

    def __init__(self, max_rows: int) -> None:
        self._max_rows = max_rows
        self._shards: list[Shard] = []
        self._sorted_after = 0  # so many more calls

    def of(self, rows: Mapping[str, int], max_characters: int) -> tuple[Shard, ...]:
        """Return the shards of these namespaces, whose answers are expected to have so many rows."""

        def fits(names: Sequence[str]) -> bool:
            characters = sum(len(name) + 1 for name in names)
            return len(names) == 1 or (sum(rows[n] for n in names) <= self._max_rows and characters <= max_characters)

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
        self._sorted_after = max(0, self._sorted_after - 1)
        self._shards = fresh if 2 * len(fresh) <= len(pieces) and not self._sorted_after else pieces
        return tuple(self._shards)

    def refused(self, shard: Shard) -> None:
        """Ask for a shard in halves from now on."""
        if shard in self._shards and len(shard) > 1:
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
