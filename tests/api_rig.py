"""What the tests of everything that speaks to a Kubernetes API share: the double, and connections to it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from scaler.adapters.clock import SystemClock
from scaler.adapters.kubernetes.api import ApiConnection, ApiSettings, at
from scaler.adapters.kubernetes.plan_maps import PlanStoreSettings
from scaler.adapters.kubernetes.plan_store import ConfigMapPlanStore
from scaler.ports import Clock
from tests.api_server_double import ApiServerDouble

PATIENT = ApiSettings(connect_timeout_s=20.0, read_timeout_s=20.0, total_timeout_s=30.0)


@contextmanager
def connected(
    server: ApiServerDouble, clock: Clock | None = None, settings: ApiSettings = PATIENT
) -> Iterator[ApiConnection]:
    """A connection to the double that is closed in the end."""
    api = ApiConnection(at(server.url), clock or SystemClock(), settings)
    try:
        yield api
    finally:
        api.close()


@contextmanager
def config_map_store(api: ApiConnection, writer: str = "controller-a", **settings: Any) -> Iterator[ConfigMapPlanStore]:
    """A plan store in the namespace `headway` whose watch is ended in the end."""
    store = ConfigMapPlanStore(api, PlanStoreSettings("headway", writer, **{"budget_s": 30.0, **settings}))
    try:
        yield store
    finally:
        store.close()
