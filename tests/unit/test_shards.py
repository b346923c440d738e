"""How namespaces are put into shards."""

from hypothesis import given
from hypothesis import strategies as st

from scaler.adapters.shards import Shards

NAMES = st.text("abcdefgh-", min_size=1, max_size=12)
ROWS = st.dictionaries(NAMES, st.integers(0, 60), max_size=30)


@given(st.lists(ROWS, min_size=1, max_size=6))
def test_every_namespace_is_in_one_shard_that_has_room(ticks: list[dict[str, int]]) -> None:
    """However namespaces come, go and grow, each is asked for once; only one that is too large alone is too large."""
    shards = Shards(max_rows=100)
    for rows in ticks:
        found = shards.of(rows, max_characters=40)
        assert sorted(name for shard in found for name in shard) == sorted(rows)
        for shard in found:
            assert len(shard) == 1 or sum(rows[name] for name in shard) <= 100
            assert len(shard) == 1 or sum(len(name) + 1 for name in shard) <= 40


@given(ROWS)
def test_shards_stay_and_do_not_depend_on_order(rows: dict[str, int]) -> None:
    """The same namespaces with the same rows are the same shards, tick after tick, in whatever order they are named."""
    shards = Shards(max_rows=100)
    first = shards.of(rows, 40)
    assert shards.of(dict(reversed(rows.items())), 40) == first
    assert Shards(max_rows=100).of(dict(reversed(rows.items())), 40) == first


def test_a_shard_that_grew_is_split_and_the_others_stay() -> None:
    """Only the namespaces of the shard that has become too large move."""
    shards = Shards(max_rows=100)
    rows = {"a": 40, "b": 40, "c": 40, "d": 40}
    assert shards.of(rows, 1000) == (("a", "b"), ("c", "d"))
    assert shards.of(rows | {"a": 90}, 1000) == (("a",), ("b",), ("c", "d"))


def test_shards_that_have_shrunk_are_put_together() -> None:
    """Once half as many would do, all are sorted anew."""
    shards = Shards(max_rows=100)
    assert len(shards.of(dict.fromkeys("abcd", 90), 1000)) == 4
    assert shards.of(dict.fromkeys("abcd", 20), 1000) == (("a", "b", "c", "d"),)


def test_a_shard_that_was_refused_is_asked_for_in_halves_for_a_while() -> None:
    """It is not put together again in the next tick, only to be refused once more."""
    shards = Shards(max_rows=100)
    rows = dict.fromkeys("abc", 10)
    (whole,) = shards.of(rows, 1000)
    shards.refused(whole)
    assert shards.of(rows, 1000) == (("a",), ("b", "c"))
    shards.refused(("unknown", "shard"))
    for _ in range(38):
        assert shards.of(rows, 1000) == (("a",), ("b", "c"))
    assert shards.of(rows, 1000) == (whole,)


def test_a_namespace_that_is_refused_alone_costs_the_others_nothing() -> None:
    """It is not put together with others every ten minutes, only to take their readings along until it is found."""
    shards, rows = Shards(max_rows=1000), dict.fromkeys("abcdefgh", 10)
    together = 0
    for tick in range(200):
        for shard in shards.of(rows, 1000):
            if "f" in shard:
                together += len(shard) > 1
                shards.refused(shard)
        assert together <= 3, tick
    assert len(shards.of(rows, 1000)) <= 4
    for _ in range(41):
        asked = shards.of(rows, 1000)
    assert asked == (tuple("abcdefgh"),)  # it can be answered again


def test_a_server_that_refuses_everything_is_not_asked_ever_more() -> None:
    """However often and whatever it refuses, there are 32 shards more than without refusals, not one a namespace."""
    shards, rows = Shards(max_rows=1000), {f"tenant-{i}": 10 for i in range(1000)}
    without = len(shards.of(rows, 1_000_000))
    for _ in range(60):
        asked = shards.of(rows, 1_000_000)
        assert len(asked) <= without + 32
        assert sorted(name for shard in asked for name in shard) == sorted(rows)
        for shard in asked:
            shards.refused(shard)
