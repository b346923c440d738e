from hypothesis import given
from hypothesis import strategies as st

from scaler.config.durations import MAX_DURATION_S, format_duration, parse_duration

_MAX_MS = int(MAX_DURATION_S * 1000)


@given(st.integers(0, _MAX_MS))
def test_whole_milliseconds_survive_the_round_trip(milliseconds: int) -> None:
    """What is written is read back as the same float."""
    assert parse_duration(format_duration(milliseconds / 1000)) == milliseconds / 1000


@given(st.floats(0, MAX_DURATION_S))
def test_the_round_trip_loses_half_a_millisecond_at_most(seconds: float) -> None:
    """Any duration is written to the nearest millisecond."""
    assert abs(parse_duration(format_duration(seconds)) - seconds) <= 0.0005 + 1e-6


@given(st.text() | st.from_regex(r"[0-9.]{0,5}(ms|s|m|h|d)?[0-9.]{0,5}(ms|s|m|h|d)?", fullmatch=True))
def test_any_text_is_a_duration_or_an_error(text: str) -> None:
    """No text crashes the reader, and what it accepts is a duration that can be written."""
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        assert "must be a duration" in str(error)  # noqa: PT017  # either outcome is right, each in its own way
    else:
        assert 0 <= seconds <= MAX_DURATION_S
        format_duration(seconds)
