"""What a role is connected to outside its process: a cluster's API server, or the files that stand in for it.

The API server's part is in `cluster.py`, imported where it is configured: the client library takes as long to load as
all of Headway.
"""

from collections.abc import Callable, Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass

from scaler.adapters.cluster_file import FileClusterView
from scaler.adapters.plan_store import FilePlanStore
from scaler.adapters.view_metrics import ViewFigures
from scaler.compose.parts import Overrides
from scaler.compose.stores import make_room_for_plan, plan_path
from scaler.config.process import ProcessConfig
from scaler.config.validate import policy_of
from scaler.core.plan import Plan
from scaler.core.values import WorkloadId
from scaler.ports import Clock, ClusterView, Leadership, Notice, Notices, PlanStore, PolicySource
from scaler.runtime.leadership import SoleLeadership
from scaler.runtime.policy import FixedPolicy


@dataclass(frozen=True, slots=True)
class Cluster:
    """The view of the cluster, and what steers the decision about it. The defaults are those of a file."""

    view: ClusterView
    policies: PolicySource
    notices: Notices | None = None
    noticed: Callable[[Plan], tuple[Notice, ...]] = lambda _: ()  # what to tell people after each plan
    ready: Callable[[], bool] = lambda: True  # whether there is enough to decide on
    problems: Callable[[], tuple[str, ...]] = tuple  # one line each
    explanations: Callable[[], Mapping[WorkloadId, str]] = dict  # of workloads that are not, or not wholly, usable
    refused: Callable[[], Collection[WorkloadId]] = tuple  # workloads whose manifests cannot be used
    out_of_sight: Callable[[], Collection[str]] = tuple  # namespaces whose manifests cannot be read
    figures: Callable[[], ViewFigures] | None = None
    targets: Callable[[], Mapping[WorkloadId, tuple[str, str]]] = dict  # kind and name of what a workload scales


@dataclass(frozen=True, slots=True)
class Outside:
    """What a controller is connected to."""

    cluster: Cluster
    plans: PlanStore
    leadership: Leadership
    take_part: Callable[[], None] = lambda: None  # in the election, from now on; before it one never leads


def outside_of_controller(config: ProcessConfig, overrides: Overrides, clock: Clock, stack: AsyncExitStack) -> Outside:
    """Connect a controller; `stack` gives everything back. ValueError where the configuration cannot be used."""
    if config.cluster is None:
        raise ValueError("a controller needs cluster")
    file_store = _file_plan_store(config, overrides)
    if file_store:
        make_room_for_plan(config, overrides)
    if file_store and config.cluster.file and config.leadership is None:
        return Outside(_file_cluster(config), file_store, SoleLeadership())
    from scaler.compose.cluster import ApiSide  # noqa: PLC0415  # see above

    api = ApiSide(config, clock, stack)
    plans, epoch = (file_store, None) if file_store else api.plan_store()
    cluster = _file_cluster(config) if config.cluster.file else api.cluster()
    if config.leadership is None:
        return Outside(cluster, plans, SoleLeadership())
    leadership, take_part = api.leadership(config.leadership.lease, epoch)
    return Outside(cluster, plans, leadership, take_part)


def plan_store_of_scaler(config: ProcessConfig, overrides: Overrides, clock: Clock, stack: AsyncExitStack) -> PlanStore:
    """Connect a scaler to the plan; `stack` gives everything back."""
    if file_store := _file_plan_store(config, overrides):
        return file_store
    from scaler.compose.cluster import ApiSide  # noqa: PLC0415  # see above

    return ApiSide(config, clock, stack).plan_store()[0]


def _file_cluster(config: ProcessConfig) -> Cluster:
    if config.cluster is None or config.cluster.file is None:
        raise ValueError("cluster must name a file")
    return Cluster(FileClusterView(config.cluster.file), FixedPolicy(policy_of(config)))


def _file_plan_store(config: ProcessConfig, overrides: Overrides) -> FilePlanStore | None:
    """Return the file's plan store; None where the plan lies in ConfigMaps."""
    in_config_maps = config.plan_store is not None and config.plan_store.config_map is not None
    if in_config_maps and overrides.plan_store is None:
        return None
    return FilePlanStore(plan_path(config, overrides))
