from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.config.load import placed
from scaler.config.problems import ConfigurationError
from scaler.config.validate import validate_process
from scaler.config.yaml_documents import parse_yaml

_GOOD = {
    "slo": "1s",
    "objective": "0.9",
    "slotsPerReplica": "8",
    "kvTarget": "0.8",
    "leadTime": "4m",
    "unit": "requests",
}
_BAD = {
    "slo": "0",
    "objective": "7",
    "slotsPerReplica": "none",
    "kvTarget": "-1",
    "leadTime": "4 min",
    "unit": "bananas",
}
# One workload: which of its metadata keys are there, and which of those are bad; with comments between some lines.
_WORKLOADS = st.lists(
    st.dictionaries(st.sampled_from(sorted(_GOOD)), st.tuples(st.booleans(), st.booleans()), max_size=6), max_size=6
)


@given(_WORKLOADS)
def test_exactly_the_bad_lines_are_reported(workloads: list[dict[str, tuple[bool, bool]]]) -> None:
    """Whatever is bad, wherever it stands: each bad key is reported with its own line, and nothing else is."""
    lines = ["workloads:" if workloads else "{}"]
    bad_lines = []
    for index, keys in enumerate(workloads):
        lines += [f"  - namespace: n{index}", "    name: chat"]
        if keys:
            lines.append("    metadata:")
        for key, (bad, comment) in keys.items():
            lines += ["      # a comment"] if comment else []
            lines.append(f"      {key}: {(_BAD if bad else _GOOD)[key]}")
            bad_lines += [len(lines)] if bad else []
    parsed = parse_yaml("\n".join(lines))
    (document,) = parsed.documents
    if not bad_lines:
        assert len(validate_process(document.value, base=Path("/")).workloads) == len(workloads)
        return
    with pytest.raises(ConfigurationError) as caught:
        validate_process(document.value, base=Path("/"))
    reported = [placed(Path("f"), document, problem).line for problem in caught.value.details]
    assert sorted(reported) == bad_lines


@given(st.text(max_size=200) | st.text(alphabet="a:-[]{}&*!|>#%@`'\"\n <,?", max_size=80))
def test_any_text_parses_or_is_a_problem_on_a_line_of_it(text: str) -> None:
    """No text crashes the reader; a problem is on one of its lines."""
    parsed = parse_yaml(text)
    assert all(1 <= problem.line <= text.count("\n") + 2 for problem in parsed.problems)
    for document in parsed.documents:
        try:
            validate_process(document.value, base=Path("/"))
        except ConfigurationError as errors:
            assert errors.problems  # noqa: PT017  # either outcome is right
