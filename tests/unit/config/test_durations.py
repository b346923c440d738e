import pytest

from scaler.config.durations import MAX_DURATION_S, format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("500ms", 0.5),
        ("15s", 15.0),
        ("4m", 240.0),
        ("1h30m", 5400.0),
        ("14d", 1_209_600.0),
        ("1.5h", 5400.0),
        ("1d2h3m4s5ms", 93_784.005),
        ("90", 90.0),
        ("0.25", 0.25),
        ("0", 0.0),
        (" 15s ", 15.0),
        (90, 90.0),
        (0.1, 0.1),
    ],
)
def test_reads_what_people_write(text: str | float, seconds: float) -> None:
    """Every documented form is read to the exact number of seconds."""
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "s",
        "15 s",
        "4 min",
        "-5s",
        "+5s",
        "1e3",
        "1h30",
        "30m1h",
        "1m1m",
        "\u0661\u0665s",
        "15S",
        "nan",
        "inf",
        "1" * 400,
    ],
)
def test_refuses_what_can_be_meant_in_two_ways(text: str) -> None:
    """Anything else is an error that shows the value and the allowed form."""
    with pytest.raises(ValueError, match="must be a duration such as 500ms") as caught:
        parse_duration(text)
    assert repr(text[:40]) in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("number", [True, -1, float("nan"), float("inf"), 2 * MAX_DURATION_S])
def test_refuses_numbers_that_are_no_duration(number: float) -> None:
    """A truth value, a negative number and what is not finite or beyond a century are errors."""
    with pytest.raises(ValueError, match="must be a duration"):
        parse_duration(number)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.5, "500ms"), (90, "1m30s"), (5400, "1h30m"), (86_400, "1d"), (1.0004, "1s")],
)
def test_writes_the_shortest_usual_form(seconds: float, text: str) -> None:
    """A duration is written in whole units, largest first, to the millisecond."""
    assert format_duration(seconds) == text


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_writes_no_nonsense(seconds: float) -> None:
    """A number that is no duration cannot be written."""
    with pytest.raises(ValueError, match="seconds must be 0"):
        format_duration(seconds)
