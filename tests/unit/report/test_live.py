"""What a person sees while a run goes on, at a terminal and in a file."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from scaler.report.live import LiveView
from scaler.report.sparkline import History, sparkline
from tests.run_records import a_record, a_sample

HOSTILE = "a\x1b[31mred\x07\nline"


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def a_view(file: io.StringIO, *, width: int = 80, title: str = "Headway demo") -> LiveView:
    console = Console(file=file, width=width, height=25, force_terminal=file.isatty(), legacy_windows=False)
    return LiveView(console, title=title, objective=0.99)


def frame(file: io.StringIO) -> str:
    """Return what was drawn last, without the control sequences of colours and cursor moves."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", file.getvalue()).replace("\r", "")


def show(file: io.StringIO, *, width: int = 80, reason: str = "reactive: demand") -> str:
    with a_view(file, width=width) as view:
        for sample in a_record(samples=200).samples:
            view.update(sample, sample.saturation, "slots", reason)
    return frame(file)


def test_a_file_gets_plain_lines_without_control_characters() -> None:
    """Piped output holds no control character but the line ends, whatever a name or a reason contains."""
    file = io.StringIO()
    with a_view(file, title=HOSTILE) as view:
        view.update(a_sample(), 0.6, HOSTILE, HOSTILE)
        view.update(a_sample(15.0, told=5), None, HOSTILE, HOSTILE)
    assert all(c.isprintable() for line in file.getvalue().split("\n") for c in line)
    assert len(file.getvalue().splitlines()) == 3


def test_a_file_gets_a_line_only_when_the_target_changes() -> None:
    """The first target and each change make a line; samples between them do not."""
    file = io.StringIO()
    with a_view(file) as view:
        for at_s, told in enumerate([3, 3, 3, 6, 6, 4]):
            view.update(a_sample(at_s, told=told), 0.6, "slots", f"because {told}")
    lines = file.getvalue().splitlines()[1:]
    assert [line.split(" (")[0] for line in lines] == [
        "0:00:00  told 3: because 3",
        "0:00:03  told 3 -> 6: because 6",
        "0:00:05  told 6 -> 4: because 4",
    ]


def test_before_the_first_plan_there_is_no_target_to_tell() -> None:
    """The reason stands alone, once; the first plan is no change of anything."""
    file = io.StringIO()
    with a_view(file) as view:
        for at_s in (0.0, 60.0):
            view.update(a_sample(at_s, told=None), None, "none", "no plan yet", planned=False)
        view.update(a_sample(120.0, told=3), 0.6, "slots", "reactive: demand")
    lines = file.getvalue().splitlines()[1:]
    assert [line.split(" (")[0] for line in lines] == ["0:00:00  no plan yet", "0:02:00  told 3: reactive: demand"]


def test_no_answer_is_shown_as_an_error_and_not_as_a_number() -> None:
    """A sample whose `told` is absent reads `error`, and the way back from it is a change too."""
    file = io.StringIO()
    with a_view(file) as view:
        for told in (3, None, None, 3):
            view.update(a_sample(told=told), None, "", "stale")
    assert [line.split("  told ")[1].split(":")[0] for line in file.getvalue().splitlines()[1:]] == [
        "3",
        "3 -> error",
        "error -> 3",
    ]
    assert "saturation unknown" in file.getvalue()


def test_a_colour_that_the_environment_asks_for_does_not_animate_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """FORCE_COLOR, as CI systems set it, leaves piped output plain."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    file = io.StringIO()
    console = Console(file=file, width=80)
    with LiveView(console, title="run", objective=0.99) as view:
        view.update(a_sample(), 0.6, "slots", "start")
    assert console.is_terminal
    assert "\x1b" not in file.getvalue()


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_table_fits_its_terminal(width: int) -> None:
    """At no width is a line longer than the terminal, or a heading cut."""
    shown = show(Terminal(), width=width)
    assert max(len(line) for line in shown.splitlines()) <= width
    for name in ("arrivals/s", "ready", "pending", "told", "saturation", "waiting", "attainment"):
        assert name in shown


def test_a_table_ends_with_the_last_six_decisions() -> None:
    """The newest decision is the last line; older ones than six are gone."""
    file = Terminal()
    with a_view(file) as view:
        for told in range(10):
            view.update(a_sample(told=told), 0.6, "slots", f"reason-{told}.")
    last = frame(file).rstrip("\n").splitlines()[-6:]
    assert [line.split("  ")[-1] for line in last] == [f"reason-{told}." for told in range(4, 10)]


def test_a_table_says_where_the_attainment_stands() -> None:
    """Attainment is shown beside the objective, with a sign and not by colour alone."""
    for attainment, sign in ((0.9899, "<"), (0.99, ">=")):
        file = Terminal()
        with a_view(file) as view:
            view.update(a_sample(attainment=attainment), 0.6, "slots", "")
        assert f"{sign} 99 %" in frame(file)


def test_a_view_without_a_sample_says_so() -> None:
    """Before the first sample there is a line, not an empty table."""
    file = Terminal()
    with a_view(file):
        pass
    assert "waiting for the first sample" in frame(file)


def test_a_name_cannot_act_on_the_terminal() -> None:
    """Escape sequences in a reason are drawn as text."""
    file = Terminal()
    with a_view(file) as view:
        view.update(a_sample(), 0.6, "slots", "\x1b]0;owned\x07")
    assert "\x1b]" not in file.getvalue()
    assert "\\x1b]0;owned\\x07" in frame(file)


def test_what_the_encoding_does_not_have_is_escaped() -> None:
    """A stream in ASCII gets names outside it escaped, and raises nothing."""
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding="ascii", write_through=True)
    with LiveView(Console(file=file, width=80), title="trafic-été", objective=0.99) as view:
        view.update(a_sample(), 0.6, "slots", "")
    assert raw.getvalue().startswith(rb"trafic-\xe9t\xe9")


@given(st.lists(st.floats(0, 1e6), max_size=2000), st.integers(1, 150))
def test_a_history_stays_bounded_and_true(values: list[float], columns: int) -> None:
    """However long a run, its curve fits its columns, and its means lie within the data."""
    history = History()
    for value in values:
        history.add(value)
    means = history.values()
    assert len(means) < 240
    assert all(min(values) - 1e-6 <= mean <= max(values) + 1e-6 for mean in means)
    assert len(sparkline(means, columns)) <= columns


def test_a_sparkline_runs_from_zero_to_its_maximum() -> None:
    """The scale starts at zero, so that a flat load looks flat; a peak between columns is not lost."""
    assert sparkline((0.0, 4.0, 8.0), 80) == "▁▅█"
    assert sparkline((8.0, 8.0), 80) == "██"
    assert sparkline((0.0, 0.0), 80) == "▁▁"
    assert sparkline((0.0, 0.0, 9.0, 0.0, 0.0, 0.0), 2) == "█▁"
    assert sparkline((1.0, 8.0), 80, ascii_only=True).isascii()
    assert sparkline((), 80) == ""
