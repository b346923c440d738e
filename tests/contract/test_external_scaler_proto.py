"""KEDA's contract: what is on the wire, and that the code beside the proto was made from it."""

from pathlib import Path

import pytest
from google.protobuf.descriptor import FieldDescriptor as Field

import external_scaler_proto
from external_scaler_proto import externalscaler_pb2 as pb
from external_scaler_proto.regenerate import GENERATED, PACKAGE, regenerate

FIELDS = {
    "ScaledObjectRef": [("name", 1, Field.TYPE_STRING), ("namespace", 2, Field.TYPE_STRING)],
    "IsActiveResponse": [("result", 1, Field.TYPE_BOOL)],
    "GetMetricSpecResponse": [("metricSpecs", 1, Field.TYPE_MESSAGE)],
    "MetricSpec": [
        ("metricName", 1, Field.TYPE_STRING),
        ("targetSize", 2, Field.TYPE_INT64),
        ("targetSizeFloat", 3, Field.TYPE_DOUBLE),
    ],
    "GetMetricsRequest": [("scaledObjectRef", 1, Field.TYPE_MESSAGE), ("metricName", 2, Field.TYPE_STRING)],
    "GetMetricsResponse": [("metricValues", 1, Field.TYPE_MESSAGE)],
    "MetricValue": [
        ("metricName", 1, Field.TYPE_STRING),
        ("metricValue", 2, Field.TYPE_INT64),
        ("metricValueFloat", 3, Field.TYPE_DOUBLE),
    ],
}
METHODS = {
    "IsActive": ("ScaledObjectRef", "IsActiveResponse", False),
    "StreamIsActive": ("ScaledObjectRef", "IsActiveResponse", True),
    "GetMetricSpec": ("ScaledObjectRef", "GetMetricSpecResponse", False),
    "GetMetrics": ("GetMetricsRequest", "GetMetricsResponse", False),
    "StreamMetricSpec": ("ScaledObjectRef", "GetMetricSpecResponse", True),
}


@pytest.mark.parametrize("message", FIELDS)
def test_fields(message: str) -> None:
    """Field names, numbers and types are KEDA's."""
    fields = pb.DESCRIPTOR.message_types_by_name[message].fields_by_name
    scalars = [(f.name, f.number, f.type) for f in fields.values() if f.name != "scalerMetadata"]
    assert scalars == FIELDS[message]


def test_metadata_is_a_map_in_field_3() -> None:
    """The trigger's metadata is a map of strings."""
    field = pb.ScaledObjectRef.DESCRIPTOR.fields_by_name["scalerMetadata"]
    assert field.number == 3
    sent = pb.ScaledObjectRef(scalerMetadata={"slo": "1s"})
    assert sent.SerializeToString() == b"\x1a\x09\x0a\x03slo\x12\x021s"


def test_methods() -> None:
    """The service, its methods and which of them stream are KEDA's."""
    service = pb.DESCRIPTOR.services_by_name["ExternalScaler"]
    assert service.full_name == "externalscaler.ExternalScaler"
    methods = {m.name: (m.input_type.name, m.output_type.name, m.server_streaming) for m in service.methods}
    assert methods == METHODS
    assert not any(method.client_streaming for method in service.methods)


def test_regenerating_changes_nothing(tmp_path: Path) -> None:
    """The generated code that is checked in is what the proto and the locked grpcio-tools make."""
    package = Path(external_scaler_proto.__file__).parent
    (tmp_path / PACKAGE).mkdir()
    regenerate(package.parent, tmp_path)
    assert {p.name for p in (tmp_path / PACKAGE).iterdir()} == set(GENERATED)
    for name in GENERATED:
        assert (tmp_path / PACKAGE / name).read_text() == (package / name).read_text(), name


def test_a_broken_proto_is_refused(tmp_path: Path) -> None:
    """What protoc does not accept is an error, not an empty module."""
    (tmp_path / PACKAGE).mkdir()
    (tmp_path / PACKAGE / "externalscaler.proto").write_text('syntax = "proto3"; message {')
    with pytest.raises(RuntimeError, match=r"protoc must accept external_scaler_proto/externalscaler\.proto"):
        regenerate(tmp_path, tmp_path)
