"""The gateways that Headway reads demand from, and the two labels that name a route among each one's series.

The readers of `scaler/adapters/signals` take the labels from here, so that `headway check` and they cannot disagree.
"""

from collections.abc import Mapping

ISTIO = "istio"
ENVOY = "envoy"
EPP = "epp"

# The order is that of `SourceRef.identity`.
ROUTE_LABELS: Mapping[str, tuple[str, str]] = {
    ISTIO: ("destination_service_namespace", "destination_service_name"),
    ENVOY: ("namespace", "envoy_cluster_name"),  # the gateway's own namespace
    EPP: ("namespace", "inference_pool"),  # the namespace of the endpoint picker
}
