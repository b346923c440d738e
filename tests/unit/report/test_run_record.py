"""The result document of a run."""

import json
import re

import pytest
from pydantic import ValidationError

from scaler.report.run_record import DemoResult
from tests.run_records import a_result

CONTRACT = (
    "schema",
    "trace",
    "ticks",
    "grpc_calls",
    "grpc_p99_ms",
    "replicas_min",
    "replicas_max",
    "scale_ups",
    "scale_downs",
    "slo_attainment",
    "gpu_hours",
)


def test_the_document_begins_with_the_contracts_figures() -> None:
    """Scripts find the figures of the contract under their names, the schema's number first."""
    document = a_result().document()
    assert tuple(document)[: len(CONTRACT)] == CONTRACT
    assert document["schema"] == 1


def test_the_schema_requires_every_figure() -> None:
    """A figure that does not apply is null, never left out."""
    schema = DemoResult.model_json_schema(mode="serialization")
    assert set(schema["required"]) == set(a_result().document())


def test_a_figure_that_does_not_apply_is_null() -> None:
    """A run without requests has no attainment: null, not 0."""
    document = a_result(requests=0, slo_attainment=None, queue_time_p50_s=None, grpc_p99_ms=None).document()
    assert [document[key] for key in ("slo_attainment", "queue_time_p50_s", "grpc_p99_ms")] == [None, None, None]


def test_a_document_survives_json() -> None:
    """What was written reads back as the same result."""
    result = a_result()
    assert DemoResult.model_validate_json(json.dumps(result.document())) == result


@pytest.mark.parametrize(
    ("name", "value"),
    [("slo_attainment", 1.2), ("gpu_hours", float("nan")), ("grpc_p99_ms", float("inf")), ("ticks", -1), ("tiks", 1)],
)
def test_a_figure_that_cannot_be_is_refused(name: str, value: float) -> None:
    """Shares above 1, NaN, infinities, negative counts and unknown names never reach a document."""
    with pytest.raises(ValidationError, match=re.escape(name)):
        a_result(**{name: value})
