"""A live cluster view over the double of an API server: a steered clock, short waits, and waiting for what it sees."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from scaler.adapters.kubernetes.api import ApiConnection, ApiSettings
from scaler.adapters.kubernetes.scales import ScalePace
from scaler.adapters.kubernetes.view import KubernetesClusterView
from scaler.adapters.kubernetes.watch import Pace
from scaler.adapters.kubernetes.workloads import Workloads
from scaler.config.live import observed_workload, settings_of
from scaler.config.models import DecisionSettings, WorkloadSettings
from scaler.config.platform import Platform
from scaler.core.values import WorkloadId
from scaler.ports import ClusterSnapshot, SourceError, WorkloadView
from tests.api_rig import PATIENT, connected
from tests.api_server_double import ApiServerDouble
from tests.kubernetes_objects import deployment, pod, scaled_object, stateful_set
from tests.metrics_fakes import T0, FixedClock

PATIENCE_S = 30.0
QUICK = Pace(backoff_s=0.01, backoff_max_s=0.02, refused_max_s=0.02)
QUICK_RETRY_S = 0.02
QUICK_SCALES = ScalePace(per_second=200.0, refresh_s=0.01)
PLATFORM = Platform(addresses=frozenset({"headway.headway:6000"}))
ENGINE = WorkloadId("tenant", "engine")
DISCOVERY = {
    "/apis/argoproj.io/v1alpha1": {
        "resources": [
            {"name": "rollouts", "kind": "Rollout"},
            {"name": "rollouts/scale", "kind": "Scale"},
            {"name": "experiments", "kind": "Experiment"},
        ]
    }
}
PLURALS = {
    "Pod": "/api/v1/namespaces/{}/pods",
    "Node": "/api/v1/nodes",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
    "Rollout": "/apis/argoproj.io/v1alpha1/namespaces/{}/rollouts",
    "ScaledObject": "/apis/keda.sh/v1alpha1/namespaces/{}/scaledobjects",
    "HorizontalPodAutoscaler": "/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers",
}


def until(holds: Callable[[], Any], what: str = "what a test waits for") -> None:
    """Wait until something holds; it is asked again and again, for there is no event for each thing that may come."""
    pause = threading.Event()
    for _ in range(int(PATIENCE_S / 0.005)):
        if holds():
            return
        pause.wait(0.005)
    raise AssertionError(f"{what} did not come within {PATIENCE_S:g} s")


@dataclass
class Cluster:
    """A cluster and the view of it."""

    server: ApiServerDouble
    api: ApiConnection
    view: KubernetesClusterView
    workloads: Workloads
    clock: FixedClock

    def put(self, *objects: dict[str, Any]) -> None:
        put(self.server, *objects)

    def remove(self, it: dict[str, Any]) -> None:
        self.server.remove(path_of(it))

    def look(self) -> ClusterSnapshot:
        return self.view.look()

    def engine(self, workload: WorkloadId = ENGINE) -> WorkloadView | None:
        """Return the view of one workload, None while there is none."""
        try:
            return self.view.look().workloads.get(workload)
        except SourceError:
            return None

    def settings(self, workload: WorkloadId = ENGINE) -> WorkloadSettings:
        """Return the settings of one workload, which must be there."""
        every = {WorkloadId(it.namespace, it.name): it for it in self.workloads.current().workloads}
        return every[workload]

    def sees(self, pods: Sequence[str], workload: WorkloadId = ENGINE) -> None:
        """Wait until these are a workload's ready pods."""
        until(lambda: (it := self.engine(workload)) is not None and it.pods == tuple(pods), f"ready pods {pods}")

    def bookmark(self) -> None:
        """Wait until every watch has had a bookmark that was made after this call, and no other is under way."""
        followers = [it for it in self.view._followers() if not it.progress.refused]
        before = [it.progress.bookmarks for it in followers]

        def all_had() -> bool:
            self.server.bookmark()
            return all(it.progress.bookmarks > count for it, count in zip(followers, before, strict=True))

        until(all_had, "a bookmark to every watch")
        self.server.put(
            "/api/v1/namespaces/else/configmaps/mark", {"data": {"after": str(self.server.objects.version)}}
        )
        version = str(self.server.objects.version)
        self.server.bookmark()
        until(lambda: all(it._version == version for it in followers), "the last bookmark to every watch")

    def asked_all(self, verb: str) -> bool:
        """Return whether every kind has been listed, or watched, since the server forgot its requests."""
        return len({where for asked, where in self.server.requests if asked == verb}) == len(self.view.progress)

    def age_s(self) -> float:
        return self.clock.now_s() - self.view.look().at_s


def path_of(it: dict[str, Any]) -> str:
    metadata = it["metadata"]
    return f"{PLURALS[it['kind']].format(metadata.get('namespace', ''))}/{metadata['name']}"


def put(server: ApiServerDouble, *objects: dict[str, Any]) -> None:
    """Create or replace objects, each where it belongs."""
    for it in objects:
        server.put(path_of(it), it)


def engine(replicas: int = 2) -> tuple[dict[str, Any], ...]:
    """Return a workload: its ScaledObject, its Deployment and ready pods `engine-0` and on."""
    pods = (pod(f"engine-{number}") for number in range(replicas))
    return scaled_object("engine", slotsPerReplica="8"), deployment("engine", replicas=replicas), *pods


@contextmanager
def cluster(
    *objects: dict[str, Any],
    pace: Pace = QUICK,
    scale_pace: ScalePace = QUICK_SCALES,
    namespaces: Sequence[str] = (),
    other_targets: Sequence[str] | None = None,
    settings: ApiSettings = PATIENT,
    prepare: Callable[[ApiServerDouble], object] = lambda _: None,
    synced: bool = True,
) -> Iterator[Cluster]:
    """Start a server with objects, and a view of it; wait until all kinds are watched, unless `synced` is false."""
    with ApiServerDouble() as server:
        server.documents |= DISCOVERY
        put(server, stateful_set("unused"), *objects)
        prepare(server)
        clock = FixedClock(T0 + 100_000_000.0)
        workloads = Workloads(
            DecisionSettings(), partial(settings_of, platform=PLATFORM), partial(observed_workload, platform=PLATFORM)
        )
        with connected(server, clock, settings) as api:
            view = KubernetesClusterView(
                api,
                workloads,
                namespaces=namespaces,
                other_targets=other_targets,
                pace=pace,
                scale_pace=scale_pace,
                tolerance_retry_s=QUICK_RETRY_S,
            )
            view.start()
            try:
                it = Cluster(server, api, view, workloads, clock)
                if synced:
                    until(lambda: all(p.watches or p.refused for p in view.progress.values()), "the first watches")
                    it.bookmark()  # only then is it sure that the server has them too
                yield it
            finally:
                view.close()
