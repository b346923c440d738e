"""The verdict on a run, and how its numbers are written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.report.text import clock, exact_percent, percent, printable, quantity
from scaler.report.verdict import objective_met, verdict
from tests.run_records import a_record, a_result


def test_a_run_that_met_its_objective() -> None:
    """The verdict says what was served, at which cost against a fixed fleet, and that the objective was met."""
    assert verdict(a_record()) == (
        (
            "In 1h30m of recorded traffic (azure_llm_2024_code) the fleet received 212,345 requests and spent 8.12 "
            "GPU-hours on 3 to 14 replicas, 61 % less than the 21 of a fixed fleet of its peak size."
        ),
        "99.41 % of the requests met the queue-time SLO of 1s, so the objective of 99 % was met.",
    )


def test_a_run_that_missed_its_objective_says_by_how_much() -> None:
    """A miss is named, with the number of requests that were short."""
    record = a_record(result=a_result(requests=1000, slo_attainment=0.985))
    assert verdict(record)[1] == (
        "98.5 % of the requests met the queue-time SLO of 1s, so the objective of 99 % was missed, by 5 requests."
    )
    assert objective_met(record) is False


def test_a_run_without_requests_has_no_verdict_on_its_objective() -> None:
    """Where nothing arrived there is no attainment, good or bad."""
    record = a_record(result=a_result(requests=0, slo_attainment=None))
    served, judged = verdict(record)
    assert "received no request and spent" in served
    assert judged == "Without requests there is nothing to hold against the objective of 99 %."
    assert objective_met(record) is None


def test_a_near_miss_is_not_rounded_to_a_hit() -> None:
    """One request short in a million reads as a miss, in the figures as in the words."""
    record = a_record(objective=0.99999, result=a_result(requests=1_000_000, slo_attainment=0.999989))
    assert verdict(record)[1] == (
        "99.998 % of the requests met the queue-time SLO of 1s, so the objective of 99.999 % was missed, by 1 request."
    )


@pytest.mark.parametrize(
    ("spent", "fixed", "expected"),
    [
        (21.0, 21.0, "spent 21 GPU-hours on 3 to 14 replicas, as many as a fixed fleet of its peak size (21)."),
        (
            22.0,
            20.0,
            "spent 22 GPU-hours on 3 to 14 replicas, 10 % more than the 20 of a fixed fleet of its peak size.",
        ),
        (8.0, None, "spent 8 GPU-hours on 3 to 14 replicas."),
        (0.0, 0.0, "spent 0 GPU-hours on 3 to 14 replicas."),
    ],
)
def test_the_comparison_is_made_only_where_there_is_one(spent: float, fixed: float | None, expected: str) -> None:
    """A dearer run is called dearer, and an absent fixed fleet is not compared with."""
    served, _ = verdict(a_record(result=a_result(gpu_hours=spent, static_peak_gpu_hours=fixed)))
    assert served.endswith(expected)


def test_a_fleet_that_never_changed_has_one_size() -> None:
    """A range of one number is written as that number, and an unknown one not at all."""
    assert "on 1 replica," in verdict(a_record(result=a_result(replicas_min=1, replicas_max=1)))[0]
    assert "replica" not in verdict(a_record(result=a_result(replicas_min=None, replicas_max=None)))[0]


@given(st.floats(0, 1), st.sampled_from([0.5, 0.9, 0.99, 0.999, 0.99999]))
def test_a_share_reads_below_its_objective_exactly_when_it_is(share: float, objective: float) -> None:
    """Rounding never moves an attainment across its objective."""
    written, bar = percent(share, beside=objective), exact_percent(objective)
    assert (number(written) < number(bar)) == (share < objective)


def number(percentage: str) -> float:
    return float(percentage.removesuffix(" %"))


@pytest.mark.parametrize(
    ("share", "expected"), [(1.0, "100 %"), (0.0, "0 %"), (0.57, "57 %"), (0.98999, "98.99 %"), (1e-7, "0 %")]
)
def test_a_share_is_written_without_rounding_up(share: float, expected: str) -> None:
    """Two decimals at most, cut and not rounded."""
    assert percent(share) == expected


def test_numbers_and_times_are_written_for_people() -> None:
    """Three figures, separators from a thousand on, hours with minutes and seconds; unknown is a word."""
    assert [quantity(value) for value in (0, 0.01234, 4.5678, 312.0, 12_345, None)] == [
        "0",
        "0.0123",
        "4.57",
        "312",
        "12,345",
        "unknown",
    ]
    assert [clock(at_s) for at_s in (0, 59.6, 3725)] == ["0:00:00", "0:01:00", "1:02:05"]


@given(st.text())
def test_printable_text_is_printable_and_encodable(text: str) -> None:
    """Whatever comes in, no control character or lone surrogate comes out."""
    shown = printable(text)
    assert shown.isprintable()
    shown.encode()
