import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from freezegun import freeze_time
from hypothesis import given

from scaler.core.plan import Plan
from scaler.core.published import PlanVersion
from scaler.core.values import Missing, WorkloadId
from scaler.runtime.control import TickReport
from scaler.runtime.logging import configure_logging, log_tick, target_changes
from tests.plan_builders import AT_S, CHAT, PLANS, plan, recommendation, unknown


class Terminal(io.StringIO):
    """A stream that a person looks at."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """Put logging back as it was: its set-up is global."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in ("scaler", "forecasting", "apscheduler")}
    yield
    root.handlers[:], root.level = handlers, level
    for name, old in levels.items():
        logging.getLogger(name).setLevel(old)
    logging.captureWarnings(capture=False)
    structlog.reset_defaults()


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def report(shown: Plan, *, problems: tuple[str, ...] = ()) -> TickReport:
    return TickReport(shown, PlanVersion(3, 41), leading=True, published=True, took_s=0.123456, problems=problems)


@freeze_time("2024-05-16T11:30:00.25Z")
def test_an_event_is_one_json_object_with_its_time_in_utc() -> None:
    """Off a terminal an event is one line of JSON: time, level, where from, and the fields."""
    stream = io.StringIO()
    configure_logging(stream=stream)
    structlog.get_logger("scaler.some.module").info("plan", sequence=4)
    assert lines(stream) == [
        {
            "event": "plan",
            "level": "info",
            "logger": "scaler.some.module",
            "sequence": 4,
            "time": "2024-05-16T11:30:00.250000Z",
        }
    ]


@pytest.mark.parametrize("name", ["scaler.some.module", "grpc"])
def test_a_line_begins_with_when_how_bad_and_what(name: str) -> None:
    """Time, level and event come first, whoever logs, so that they are seen in a line that runs off the screen."""
    stream = io.StringIO()
    configure_logging(stream=stream)
    if name == "grpc":
        logging.getLogger(name).info("plan")
    else:
        structlog.get_logger(name).info("plan", a_field=1)
    (line,) = lines(stream)
    assert list(line)[:3] == ["time", "level", "event"]


@freeze_time("2024-05-16T11:30:00Z")
def test_libraries_log_in_the_same_form() -> None:
    """A record of the standard logging comes out as an event of the same fields."""
    stream = io.StringIO()
    configure_logging(stream=stream)
    logging.getLogger("grpc").warning("bind %s failed", ":6000")
    assert lines(stream) == [
        {"event": "bind :6000 failed", "level": "warning", "logger": "grpc", "time": "2024-05-16T11:30:00Z"}
    ]


def test_a_terminal_gets_a_readable_line() -> None:
    """On a terminal an event is text, not JSON."""
    stream = Terminal()
    configure_logging(stream=stream)
    structlog.get_logger("scaler").info("plan", sequence=4)
    (line,) = stream.getvalue().splitlines()
    assert "plan" in line
    assert not line.startswith("{")


@pytest.mark.parametrize("readable", [True, False])
def test_text_from_outside_makes_no_line_of_its_own(readable: bool) -> None:
    """Line ends and escape sequences in a value are escaped: one event stays one line."""
    stream = io.StringIO()
    configure_logging(stream=stream, readable=readable)
    structlog.get_logger("scaler").info("plan", name="chat\n\x1b[2J{}\u2028x")
    assert len(stream.getvalue().splitlines()) == 1
    assert "\x1b[2J" not in stream.getvalue()


@pytest.mark.parametrize("readable", [True, False])
def test_a_trace_shows_no_local_variables(readable: bool) -> None:
    """An exception is logged with its trace, and without the values around it."""
    stream = io.StringIO()
    configure_logging(stream=stream, readable=readable)
    try:
        fail({"password": "hunter" + "2"})
    except KeyError:
        structlog.get_logger("scaler").exception("tick_failed")
    assert "Traceback" in stream.getvalue()
    assert "KeyError" in stream.getvalue()
    assert "hunter2" not in stream.getvalue()


def fail(settings: dict[str, str]) -> None:
    """Fail with a secret at hand."""
    settings["missing"]


def test_debug_is_for_headway_alone() -> None:
    """At debug Headway's own modules say more; libraries, whose debug output may hold secrets, do not."""
    stream = io.StringIO()
    configure_logging(level="debug", stream=stream)
    structlog.get_logger("scaler.adapters.x").debug("own")
    logging.getLogger("urllib3.connectionpool").debug("Authorization: Bearer hunter2")
    assert [line["event"] for line in lines(stream)] == ["own"]


def test_below_the_level_nothing_is_logged() -> None:
    """At warning an info event is dropped, and an unknown level is an error that lists the levels."""
    stream = io.StringIO()
    configure_logging(level="warning", stream=stream)
    structlog.get_logger("scaler").info("plan")
    structlog.get_logger("scaler").warning("late")
    assert [line["event"] for line in lines(stream)] == ["late"]
    with pytest.raises(ValueError, match="log level must be one of debug, info, warning, error, was 'loud'"):
        configure_logging(level="loud")


def test_setting_up_twice_logs_once() -> None:
    """A second set-up replaces the first."""
    first, second = io.StringIO(), io.StringIO()
    configure_logging(stream=first)
    configure_logging(stream=second)
    structlog.get_logger("scaler").info("plan")
    assert (len(lines(first)), len(lines(second))) == (0, 1)


def test_a_tick_is_one_event_and_a_change_one_more() -> None:
    """A changed target is logged with what it was, what it is and why; then the tick with its counts."""
    before = report(plan(recommendation(target=10), recommendation(WorkloadId("demo", "same"))))
    now = report(plan(recommendation(), recommendation(WorkloadId("demo", "same"))))
    with structlog.testing.capture_logs() as events:
        log_tick(now, before)
    change, tick = events
    assert change == {
        "event": "target",
        "log_level": "info",
        "namespace": "demo",
        "workload": "chat",
        "before": 10,
        "after": 12,
        "told": 12,
        "reason": "rate: per 60 s",
        "mode": "auto",
        "saturation": 1.24,
        "binding": "slots",
        "demand": 42.5,
        "evidence_age_s": 12.0,
        "missing": [],
        "notes": [],
    }
    assert tick == {
        "event": "tick",
        "log_level": "info",
        "at_s": AT_S,
        "took_s": 0.1235,
        "leading": True,
        "published": True,
        "epoch": 3,
        "sequence": 41,
        "workloads": 2,
        "changed": 1,
        "unknown": 0,
        "with_missing": 0,
        "oldest_evidence_s": 12.0,
        "problems": [],
    }


def test_an_unchanged_plan_is_the_tick_alone() -> None:
    """Nothing changed: one event."""
    same = report(plan(recommendation()))
    with structlog.testing.capture_logs() as events:
        log_tick(same, same)
    assert [event["event"] for event in events] == ["tick"]


def test_losing_and_finding_a_target_are_changes() -> None:
    """A target that is no longer known is null, with the reason; so is one that was not known before."""
    (lost,) = target_changes(plan(unknown()), plan(recommendation()))
    assert (lost["before"], lost["after"], lost["reason"]) == (12, None, "nothing_known")
    (found,) = target_changes(plan(recommendation()), plan(unknown()))
    assert (found["before"], found["after"]) == (None, 12)
    (first,) = target_changes(plan(recommendation()), None)
    assert (first["before"], first["after"], first["workload"]) == (None, 12, CHAT.name)


def test_a_store_that_could_not_be_written_is_a_warning() -> None:
    """A tick whose plan was not published stands out."""
    with structlog.testing.capture_logs() as events:
        log_tick(report(plan(), problems=("plan store: disk full",)), None)
    assert [(e["log_level"], e["problems"]) for e in events] == [("warning", ["plan store: disk full"])]


@given(PLANS, PLANS)
def test_the_changes_lead_from_one_plan_to_the_next(previous: Plan, now: Plan) -> None:
    """Applied to the targets of one plan, the logged changes give those of the next; nothing else is logged."""
    targets = known_targets(previous)
    for change in target_changes(now, previous):
        key = WorkloadId(change["namespace"], change["workload"])
        assert targets.get(key) == change["before"]
        assert key not in targets or change["before"] != change["after"]
        targets[key] = change["after"]
    expected = known_targets(now)
    assert {key: targets[key] for key in expected} == expected


def known_targets(shown: Plan) -> dict[WorkloadId, int | None]:
    """Return the target of each workload, None where it is not known."""
    items = shown.recommendations.items()
    return {key: None if isinstance(item.target, Missing) else item.target for key, item in items}
