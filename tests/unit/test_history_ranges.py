"""Answers to range queries, whatever a server may say in them."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecasting.series import Grid
from scaler.adapters.history.own import OwnSettings
from scaler.adapters.history.ranges import _read

GRID = Grid(600, 300, 4)


def answer(*pairs: tuple[float, str], **more: Any) -> dict[str, Any]:
    return {"resultType": "matrix", "result": [{"metric": {"a": "b"}, "values": list(pairs)}], **more}


def test_values_go_where_they_belong_and_others_nowhere() -> None:
    """What is not finite, or outside the grid, is missing."""
    data = answer(
        (300, "9"),
        (600, "1"),
        (900.0004, "2"),
        (1200, "NaN"),
        (1500, "+Inf"),
        (1800, "9"),
        (1e300, "9"),
        (float("nan"), "9"),
    )
    (row,) = _read(data, GRID, ()).rows
    np.testing.assert_array_equal(row.values, [1, 2, np.nan, np.nan])


def test_a_native_histogram_has_no_values() -> None:
    """It is left out, and the other series are read."""
    data = {"resultType": "matrix", "result": [{"metric": {}, "histograms": []}, *answer((600, "1"))["result"]]}
    assert len(_read(data, GRID, ()).rows) == 1


@pytest.mark.parametrize("stats", [None, {}, [], {"samples": None}, {"samples": {"totalQueryableSamples": "many"}}])
def test_a_server_need_not_tell_its_samples(stats: Any) -> None:
    """Statistics of another shape are none."""
    assert _read(answer(stats=stats), GRID, ()).samples is None


def test_samples_are_what_the_server_says() -> None:
    """Prometheus counts what a query touched."""
    assert _read(answer(stats={"samples": {"totalQueryableSamples": 7}}), GRID, ()).samples == 7


def test_another_kind_of_answer_is_an_error() -> None:
    """A vector is no matrix."""
    with pytest.raises(ValueError, match="must be matrix"):
        _read({"resultType": "vector", "result": []}, GRID, ())


_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["metric", "values", "a"]), inner),
    max_leaves=8,
)


@given(_JSON, _JSON)
def test_whatever_the_server_answers_is_values_or_one_of_the_errors_that_are_expected(result: Any, stats: Any) -> None:
    """These are what a source turns into a SourceError."""
    try:
        read = _read({"resultType": "matrix", "result": result, "stats": stats}, GRID, ())
    except (ValueError, TypeError, KeyError, AttributeError, IndexError):
        return
    assert all(row.values.shape == (4,) for row in read.rows)


@pytest.mark.parametrize(
    "wrong", [{"labels": {'a="b",c': "d"}}, {"namespace_label": "name space"}, {"workloads": 0}, {"answer_bytes": 1}]
)
def test_settings_that_make_no_query_are_refused(wrong: dict[str, Any]) -> None:
    """They are written into queries, or divide."""
    with pytest.raises(ValueError, match="must"):
        OwnSettings(**wrong)
