"""What KEDA itself says of its calls to Headway: its counters and its log."""

import json
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.cluster.keda import Keda
from tests.cluster.objects import Objects


@dataclass(frozen=True)
class KedaReports:
    """Reads the operator's counters and log."""

    keda: Keda

    def unanswered(self, namespace: str) -> dict[str, float]:
        """Return how many calls of a namespace's triggers ended with an error, by RPC and status."""
        return {
            f"{each.labels['grpc_method']} {each.labels['grpc_code']}": each.value
            for each in self._samples("keda_grpc_client_handled_total", namespace=namespace)
            if each.value and each.labels["grpc_code"] != "OK" and each.labels["grpc_type"] == "unary"
        }

    def answered(self, namespace: str, rpc: str = "GetMetrics") -> float:
        """Return how many calls of an RPC were answered for a namespace's triggers."""
        labels = {"namespace": namespace, "grpc_method": rpc, "grpc_code": "OK"}
        return sum(each.value for each in self._samples("keda_grpc_client_handled_total", **labels))

    def failed_polls(self, namespace: str) -> float:
        """Return how many looks at a namespace's triggers failed: KEDA asks twice before it counts one.

        By the counter of ScaledObjects. That of scalers (`keda_scaler_detail_errors_total`) stays at 0 for what the
        polling loop meets, and for whatever goes wrong before a metric is known.
        """
        return sum(each.value for each in self._samples("keda_scaled_object_errors_total", namespace=namespace))

    def log_size(self) -> int:
        """Return where its log ends now."""
        return self.keda.operator.log.stat().st_size

    def errors_logged(self, namespace: str, since: int) -> list[str]:
        """Return what it logged as errors about a namespace after its log had this size."""
        with self.keda.operator.log.open("rb") as log:
            log.seek(since)
            entries = [json.loads(line) for line in log if line.startswith(b"{") and line.endswith(b"\n")]
        about = (each for each in entries if each["level"] == "error" and namespace in _namespaces(each))
        return [f"{each['msg']}: {each.get('error')}" for each in about]

    def _samples(self, name: str, **labels: str) -> Iterator[Sample]:
        with urllib.request.urlopen(self.keda.metrics_url, timeout=10) as answer:  # noqa: S310  # of this test
            text = answer.read().decode()
        return with_labels(text, name, **labels)


def _namespaces(entry: dict[str, Any]) -> set[Any]:
    return {entry.get(key) for key in ("namespace", "scaledObject.Namespace", "scaledobject.Namespace")}


def hpa_active(objects: Objects, namespace: str, name: str) -> bool:
    """Whether the HPA of a ScaledObject gets its metric (condition ScalingActive)."""
    found = objects.get(f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers/keda-hpa-{name}")
    conditions = (found or {}).get("status", {}).get("conditions", [])
    return any(each["type"] == "ScalingActive" and each["status"] == "True" for each in conditions)


def with_labels(exposition: str, name: str, **labels: str) -> Iterator[Sample]:
    """Return the samples of a name, in Prometheus' text format, that have these labels."""
    for family in text_string_to_metric_families(exposition):
        for sample in family.samples:
            if sample.name == name and labels.items() <= sample.labels.items():
                yield sample
