"""The parts of `make bench` that decide what a figure says."""

import json
from pathlib import Path

import pytest

from scaler.config.models import DecisionSettings
from scaler.core.engine import step
from scaler.core.published import answers_of
from scaler.core.state import EngineState
from tests.bench import __main__ as bench
from tests.bench.beside import SCALER, push_delays_s
from tests.bench.children import Child, MeasurementError, running
from tests.bench.fleet import Fleet, policy, workload_ids
from tests.bench.load import Seen, Side, Task


def seen(trues_s: list[list[float]]) -> dict[str, object]:
    """What a client that was there from 100 s to 200 s saw of the scaler's streams."""
    return {"began_s": 100.0, "ended_s": 200.0, "trues_s": {SCALER: trues_s}}


def test_every_stream_owes_every_pulse_a_push() -> None:
    """A stream that said `true` after a pulse was served in that time; one that stayed silent was not."""
    delays_s = push_delays_s(seen([[110.5, 151.0], [111.0]]), [110.0, 150.0])
    assert delays_s == [0.5, 1.0, 1.0, None]


def test_a_push_before_the_pulse_does_not_answer_it() -> None:
    """What was said before a plan was in place is no answer to it."""
    assert push_delays_s(seen([[109.9]]), [110.0]) == [None]


def test_pulses_while_nobody_was_there_do_not_count() -> None:
    """A plan before the client came, or too close to its end to be heard of, says nothing about the streams."""
    assert push_delays_s(seen([[110.5]]), [99.0, 199.0, 300.0]) == []


def test_a_call_that_failed_has_no_latency() -> None:
    """Failures are counted by themselves: a fast error does not make a server look fast."""
    side = Seen(seconds=2.0, cpu_s=0.001, latencies_s=[0.001, 0.003])
    side.failed("UNAVAILABLE")
    summary = side.summary()
    assert (summary["calls"], summary["failures"], summary["rate_rps"]) == (2, 1, 1.0)
    assert summary["p99_ms"] == pytest.approx(3.0)
    assert summary["cpu_us_per_call"] == pytest.approx(500.0)


def test_a_round_in_which_no_call_succeeded_has_no_percentiles() -> None:
    """Nothing answered is no latency, not a latency of zero."""
    assert Seen(seconds=1.0).summary()["p99_ms"] is None


def test_nonsense_is_counted_as_wrong() -> None:
    """An answer without a value, and one of another metric, are both wrong."""
    side = Seen(seconds=1.0)
    side.answers.extend([b"", b"\n\x07\n\x05other"])
    side.check()
    assert side.wrong == 2


def test_a_task_survives_its_way_to_the_process() -> None:
    """What is written as JSON for a process is read as the same task there."""
    from dataclasses import asdict

    task = Task((Side("empty", "a:1", 1), Side("scaler", "b:2", 2)), 10, 2, 30.0, 0.7, rate_rps=300.0, streams=3)
    assert Task.of(json.loads(json.dumps(asdict(task)))) == task
    assert task.slices == 43


def test_the_fleet_moves_and_stays_whole() -> None:
    """Each tick shows every workload of the policy, and some of them have another load than before."""
    fleet = Fleet(70, 2)
    before, after = fleet.advance(), fleet.advance()
    assert list(after.workloads) == workload_ids(70)
    assert len(policy(70).workloads) == 70
    moved = sum(before.workloads[key] != after.workloads[key] for key in after.workloads)
    assert 0 < moved < 35


def test_answers_keep_changing() -> None:
    """However long the bench runs, each tick changes a share of the answers, so that there is a plan to take up."""
    fleet, settings, state, before = Fleet(70, 2), policy(70, DecisionSettings(hold_s=15.0)), EngineState.empty(), None
    changed = []
    for tick in range(60):
        result = step(state, fleet.advance(), settings, 1_700_000_000.0 + 15 * tick)
        state, answers = result.state, answers_of(result.plan)
        changed.append(before is None or answers != before)
        before = answers
    assert all(changed[-30:])


def test_a_process_that_ends_early_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    """Nobody waits for what cannot come any more, and the reason is shown."""
    with (
        running(Child("broken", ["-c", "raise SystemExit('no such thing')"], tmp_path)) as child,
        pytest.raises(MeasurementError, match="broken ended with 1: no such thing"),
    ):
        child.hear(60.0)


def test_a_figure_that_cannot_be_measured_is_exit_status_1(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The bench says what it could not measure, and writes nothing that could be taken for a result."""

    def broken(*_: object) -> None:
        raise MeasurementError("the scaler ended with 2")

    monkeypatch.setattr(bench, "plan_costs", broken)
    result = tmp_path / "bench.json"
    assert bench.main(["--quick", "--only", "plan", "--json", str(result)]) == 1
    assert "the scaler ended with 2" in capsys.readouterr().err
    assert not result.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--rounds", "0"],
        ["--ticks", "-1"],
        ["--workloads", "15"],
        ["--tick", "nan"],
        ["--slice", "inf"],
        ["--only", "everything"],
        ["--seconds", "soon"],
    ],
)
def test_bad_usage_is_exit_status_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be done is refused before anything is measured."""
    with pytest.raises(SystemExit) as exit_:
        bench.main(arguments)
    assert exit_.value.code == 2
    assert arguments[0] in capsys.readouterr().err
