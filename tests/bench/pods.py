"""What the view of a big cluster costs: the first list of all pods, then events, and a snapshot now and then.

A process of the bench. It runs the whole view against `pod_server` over real HTTP: pods, Deployments, ScaledObjects.
"""

import sys
import threading
import time
from functools import partial
from typing import Any, Final

import structlog

from scaler.adapters.clock import SystemClock
from scaler.adapters.kubernetes.api import ApiConnection, at
from scaler.adapters.kubernetes.view import KubernetesClusterView
from scaler.adapters.kubernetes.workloads import Workloads
from scaler.config.live import observed_workload, settings_of
from scaler.config.models import DecisionSettings
from scaler.config.platform import Platform
from tests.bench.children import MeasurementError, say, told
from tests.bench.pod_server import VERSION

LISTED_WITHIN_S: Final = 400.0
SNAPSHOT_EVERY_S: Final = 1.0  # far more often than a controller ticks
SAMPLE_EVERY_S: Final = 0.05


def measure(port: int, workloads: int, replicas: int, rate: float, seconds: float) -> dict[str, Any]:
    """Return the CPU seconds of the first list and snapshot, and, while events come, shares, lags and snapshots."""
    clock, platform = SystemClock(), Platform(addresses=frozenset({"headway.headway:6000"}))
    sources = (partial(reader, platform=platform) for reader in (settings_of, observed_workload))
    api = ApiConnection(at(f"http://127.0.0.1:{port}"), clock)
    view = KubernetesClusterView(api, Workloads(DecisionSettings(), *sources))
    try:
        before_s = time.process_time()
        view.start()
        _wait_until_listed(view, clock)
        listed_s = time.process_time() - before_s
        before_s = time.process_time()
        seen = view.look().workloads
        first_s = time.process_time() - before_s
        if sum(it.counts.ready for it in seen.values()) != workloads * replicas:
            raise MeasurementError("not every pod was counted")
        return {"listed_s": listed_s, "first_s": first_s} | _events(api, view, rate, seconds)
    finally:
        view.close()
        api.close()


def _wait_until_listed(view: KubernetesClusterView, clock: SystemClock) -> None:
    pause, deadline_s = threading.Event(), clock.monotonic_s() + LISTED_WITHIN_S
    while not view.ready:
        if clock.monotonic_s() > deadline_s:
            raise MeasurementError(f"the first list was not done within {LISTED_WITHIN_S:g} s: {view.problems}")
        pause.wait(0.2)


def _events(api: ApiConnection, view: KubernetesClusterView, rate: float, seconds: float) -> dict[str, Any]:
    """Let events come, look at the view now and then, and see how far behind it is."""
    (pods,) = view._pods
    pause, clock = threading.Event(), api.clock
    begun_s = float(api.raw("/begin"))
    before_s, started_s = time.process_time(), clock.monotonic_s()
    lags_s, snapshots_s, next_s = [], [], 0.0
    while (elapsed_s := clock.monotonic_s() - started_s) < seconds:
        if elapsed_s >= next_s:
            next_s += SNAPSHOT_EVERY_S
            looked_s = time.thread_time()
            view.look()
            snapshots_s.append(time.thread_time() - looked_s)
        pause.wait(SAMPLE_EVERY_S)
        seen = int(pods._version) - VERSION
        lags_s.append(max(0.0, clock.now_s() - begun_s - seen / rate))
    took_s, events = time.process_time() - before_s, pods.progress.events
    if not events:
        raise MeasurementError(f"no event came within {seconds:g} s")
    return {"share": took_s / elapsed_s, "events": events, "lags_s": lags_s, "snapshots_s": snapshots_s}


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))  # stdout is for the parent
    task = told()
    sizes = {key: int(task[key]) for key in ("port", "workloads", "replicas")}
    say(measure(**sizes, rate=float(task["rate"]), seconds=float(task["seconds"])))
    threading.Event().wait()  # until the parent has read how much memory this took
