from itertools import product

from hypothesis import example, given
from hypothesis import strategies as st

from scaler.config.grants import Grants, grant_problems, matches, meet
from scaler.config.sources import SourceSection

_PATTERN = st.text(alphabet="ab*", min_size=1, max_size=6)
# Long enough: where two patterns of at most six characters meet at all, they do in a name of at most ten.
_NAMES = ["".join(letters) for length in range(1, 11) for letters in product("ab", repeat=length)]


@given(_PATTERN, _PATTERN)
@example("a*b", "*ba*")
def test_patterns_meet_exactly_where_some_name_is_meant_by_both(one: str, other: str) -> None:
    """The answer from the patterns is that of trying every name."""
    assert meet(one, other) == any(matches(one, name) and matches(other, name) for name in _NAMES)


@given(st.lists(st.lists(_PATTERN, min_size=1, max_size=3), max_size=4), st.permutations(range(4)))
def test_a_file_without_overlaps_means_one_thing_whatever_its_order(entries: list[list[str]], order: list[int]) -> None:
    """What passes the check gives each namespace the same source in every order of the entries."""
    sources = [
        {"name": "s", "namespaces": patterns, "queue": {"queue": f"q{index}"}} for index, patterns in enumerate(entries)
    ]
    if any(grant_problems({"sources": sources})):
        return
    read = [SourceSection.model_validate(source) for source in sources]
    shuffled = [read[index] for index in order if index < len(read)]
    for name in _NAMES[:62]:
        assert Grants.of(read).source(name, "s") == Grants.of(shuffled).source(name, "s")
