"""Demand as a gateway sees it: before the replicas, and also where there are none.

`presets` says which series of a gateway count requests, `queries` turns that into PromQL, `answers` judges what comes
back, `collector` does this once a tick for all workloads that the platform gave a route.
"""

from scaler.adapters.signals.gateways.collector import GatewayCollector
from scaler.adapters.signals.gateways.presets import GATEWAYS

__all__ = ["GATEWAYS", "GatewayCollector"]
