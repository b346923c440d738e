"""How a number of replicas becomes KEDA's value."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from external_scaler_proto import externalscaler_pb2 as pb
from scaler.adapters.keda.wire import MAX_VALUE, METRIC_NAME, is_metric, metric_response


@given(st.one_of(st.integers(0, 10**15), st.floats(0, MAX_VALUE, exclude_max=True)))
def test_both_fields(replicas: float) -> None:
    """The integer is the float rounded up, so that an old KEDA never gets less; both survive the wire."""
    (value,) = pb.GetMetricsResponse.FromString(metric_response(replicas).SerializeToString()).metricValues
    assert value.metricName == METRIC_NAME
    assert value.metricValueFloat == replicas
    assert value.metricValue == math.ceil(value.metricValueFloat) >= replicas


@given(st.one_of(st.floats(max_value=0, exclude_max=True), st.floats(min_value=MAX_VALUE), st.just(math.nan)))
def test_what_keda_would_read_as_zero_or_nonsense(replicas: float) -> None:
    """It is an error here, before it is on the wire."""
    with pytest.raises(ValueError, match="replicas must be >= 0"):
        metric_response(replicas)


@given(st.lists(st.booleans(), min_size=len(METRIC_NAME), max_size=len(METRIC_NAME)))
def test_any_casing(upper: list[bool]) -> None:
    """KEDA's versions differ in the casing that they ask in."""
    name = "".join(c.upper() if up else c for c, up in zip(METRIC_NAME, upper, strict=True))
    assert is_metric(name)
    assert not is_metric(f"s0-{name}")
