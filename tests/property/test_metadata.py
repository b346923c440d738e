from hypothesis import given
from hypothesis import strategies as st

from scaler.config.metadata import KEDA_KEYS, KEYS, metadata_problems, parse_metadata

SECRET = "s3cr3t-value"  # noqa: S105  # it must not be shown, which is the test
_VALUES = st.text() | st.sampled_from(["1", "0.9", "1s", "vllm", "auto", "-1", "nan", "1e999", "0x10", "1_0", "٣"])
_METADATA = st.dictionaries(st.sampled_from(sorted(KEYS)) | st.text(), _VALUES, max_size=25)


@given(_METADATA)
def test_arbitrary_metadata_is_parsed_or_refused_with_harmless_words(metadata: dict[str, str]) -> None:
    """Nothing crashes; every problem is one printable, bounded sentence; what has no problem parses."""
    problems = metadata_problems(metadata)
    assert all(problem.isprintable() and len(problem) < 500 for problem in problems)
    if not problems:
        parsed = parse_metadata(metadata)
        assert all(name.isprintable() for name in parsed.unknown)


@given(_METADATA, st.lists(st.sampled_from(sorted(KEDA_KEYS)) | st.text().map(lambda name: f"{name}FromEnv")))
def test_what_keda_resolved_is_never_shown(metadata: dict[str, str], keys: list[str]) -> None:
    """No value of KEDA's own or of a resolved key appears in a problem or in what was parsed."""
    mixed = metadata | dict.fromkeys(keys, SECRET)
    assert metadata_problems(mixed) == metadata_problems(metadata)
    if not metadata_problems(mixed):
        assert SECRET not in repr(parse_metadata(mixed))


@given(_METADATA)
def test_each_key_is_judged_by_itself(metadata: dict[str, str]) -> None:
    """The problems of many keys are those of each alone; only the bounds, and engine and source, know of each other."""
    together = set(metadata_problems(metadata))
    alone = {problem for key, value in metadata.items() for problem in metadata_problems({key: value})}
    assert _by_itself(together) == _by_itself(alone)


def _by_itself(problems: set[str]) -> set[str]:
    return {problem for problem in problems if "minReplicas (" not in problem and "with engine" not in problem}
