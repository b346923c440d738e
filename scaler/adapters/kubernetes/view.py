"""The live cluster view: which replicas every workload has, and how old that knowledge is.

It costs the API server one list and one watch for each kind (pods, Deployments, StatefulSets, ScaledObjects, HPAs that
KEDA did not make, nodes), whatever the number of workloads, and a GET now and then for targets of other kinds
(`scales.py`) and a few of KEDA's HPAs (`tolerance.py`). A snapshot remakes the views of the workloads that something
has happened to since the last one.
"""

import random
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import Any, Final

from scaler.adapters.kubernetes.api import ApiConnection
from scaler.adapters.kubernetes.following import Following, PodSink, followed, out_of_sight
from scaler.adapters.kubernetes.keda import KedaVersion
from scaler.adapters.kubernetes.keeping import Kept
from scaler.adapters.kubernetes.members import Members, Membership
from scaler.adapters.kubernetes.nodes import NodeRecord, read_node
from scaler.adapters.kubernetes.pods import read_pod
from scaler.adapters.kubernetes.scales import ScalePace, ScaleReader, ScaleReading
from scaler.adapters.kubernetes.targets import Scale, TargetRef, read_workload_resource
from scaler.adapters.kubernetes.tolerance import RETRY_S, KeptTolerance
from scaler.adapters.kubernetes.watch import Follower, Pace, Progress
from scaler.adapters.kubernetes.workloads import Claims, Workloads
from scaler.adapters.view_metrics import ViewFigures
from scaler.core.values import Reason, WorkloadId
from scaler.ports import ClusterSnapshot, SourceError, WorkloadView

# KEDA makes an HPA for each ScaledObject, and its status changes every few seconds: the server leaves those out.
NOT_KEDAS: Final = "!scaledobject.keda.sh/name"
DEPLOYMENTS, STATEFUL_SETS = ("apps", "Deployment"), ("apps", "StatefulSet")
END_S: Final = 5.0
_SHOWN_PROBLEMS: Final = 20
_SHOWN_CHARACTERS: Final = 1000  # of what is said about one workload
_Thread = Follower[Any] | ScaleReader | KedaVersion | KeptTolerance


@dataclass(frozen=True, slots=True)
class NodesView:
    """All nodes, as they were last known to be at `at_s`."""

    at_s: float
    nodes: tuple[NodeRecord, ...]


class KubernetesClusterView:
    """A ClusterView over a live API server. Safe for threads; `start` it, and `close` it before its connection."""

    def __init__(
        self,
        api: ApiConnection,
        workloads: Workloads,
        *,
        namespaces: Sequence[str] = (),
        other_targets: Collection[str] | None = None,
        pace: Pace | None = None,
        scale_pace: ScalePace | None = None,
        tolerance_retry_s: float = RETRY_S,
        chance: random.Random | None = None,
    ) -> None:
        """Watch the namespaces given (none: all) and keep `workloads` current from there.

        `other_targets` are the kinds that may be scaled besides Deployments and StatefulSets; None: whatever can be.
        """
        self._api = api
        self._clock = api.clock
        self._workloads = workloads
        self._lock = threading.Lock()
        self._members = Members()
        self._nodes: Kept[NodeRecord] = Kept()
        self._kept: Mapping[tuple[str, str], Kept[Scale]] = {DEPLOYMENTS: Kept(), STATEFUL_SETS: Kept()}
        self._reader = ScaleReader(api, scale_pace, kinds=other_targets)
        self._keda = KedaVersion(api)
        ask, tell = workloads.asking_tolerance, workloads.learn_tolerance
        self._tolerance = KeptTolerance(api, ask, tell, retry_s=tolerance_retry_s)
        self._claims: Claims | None = None
        self._scales: dict[WorkloadId, Scale] = {}
        self._views: dict[WorkloadId, WorkloadView] = {}
        self._absent: dict[WorkloadId, str] = {}
        self._snapshot: Mapping[WorkloadId, WorkloadView] = {}
        follow = Following(api, tuple(namespaces), pace, chance)
        self._pods = follow.all("pods", ("api", "v1"), read_pod, PodSink(self._members, self._lock))
        self._apps = {
            kind: follow.all(plural, ("apis", "apps", "v1"), read_workload_resource, self._kept[kind])
            for kind, plural in ((DEPLOYMENTS, "deployments"), (STATEFUL_SETS, "statefulsets"))
        }
        self._scaled_objects = follow.all(
            "scaledobjects",
            ("apis", "keda.sh", "v1alpha1"),
            workloads.read_scaled_object,
            workloads.scaled_objects,
            selective=True,
        )
        self._autoscalers = follow.all(
            "horizontalpodautoscalers",
            ("apis", "autoscaling", "v2"),
            workloads.read_autoscaler,
            workloads.autoscalers,
            labels=NOT_KEDAS,
            selective=True,
        )
        self._node_followers = follow.cluster("nodes", ("api", "v1"), read_node, self._nodes)

    def start(self) -> None:
        """Begin to watch."""
        for follower in self._followers():
            follower.start()
        self._reader.start()
        self._keda.start()
        self._tolerance.start()

    def close(self) -> None:
        """End every watch and its thread; what hangs in a call ends with its time-out, or as the connection closes."""
        threads: tuple[_Thread, ...] = (*self._followers(), self._reader, self._keda, self._tolerance)
        for it in threads:
            it.stop()
        began_s = self._clock.monotonic_s()
        for it in threads:  # END_S is for all together: there may be hundreds, and a pod has 30 s to end
            it.join(max(0.0, END_S - self._clock.wall_duration(self._clock.monotonic_s() - began_s)))

    async def snapshot(self) -> ClusterSnapshot:
        """Return the newest view; SourceError while pods, targets or workloads have never been listed."""
        return await self._api.run(self.look)

    def look(self) -> ClusterSnapshot:
        """Return the newest view, in the caller's thread."""
        waiting = [it for it in self._needed() if not it.progress.synced]
        if waiting:
            said = "; ".join(it.progress.problem or f"{it.name}: not listed yet" for it in waiting)
            raise SourceError(Reason.VIEW_UNAVAILABLE, said)
        at_s = self._clock.now_s() - self._age_s()  # told before looking: what comes in between is newer
        claims = self._workloads.claims()
        with self._lock:
            self._follow(claims)
            gpus = self._remake(self._members.take_touched())
            snapshot = ClusterSnapshot(at_s, self._snapshot)
        self._workloads.learn_gpus(gpus)
        return snapshot

    def nodes(self) -> NodesView:
        """Return all nodes; SourceError while they have never been listed."""
        for follower in self._node_followers:
            age_s = follower.age_s
            if age_s is None:
                raise SourceError(Reason.VIEW_UNAVAILABLE, follower.progress.problem or "nodes: not listed yet")
            return NodesView(self._clock.now_s() - age_s, self._nodes.all())
        raise AssertionError("unreachable: there is one follower of nodes")

    @property
    def ready(self) -> bool:
        """Return whether everything that a decision needs has been listed."""
        return all(it.progress.synced for it in self._needed())

    @property
    def out_of_sight(self) -> Mapping[str, str]:
        """The namespaces where there is no right to see what must be seen, and why; their workloads are absent."""
        return out_of_sight((*self._pods, *self._scaled_objects))

    @property
    def progress(self) -> Mapping[str, Progress]:
        """What each watch has done and what ails it, by the name of its kind (and namespace)."""
        return {it.name: it.progress for it in self._followers()}

    @property
    def absent(self) -> Mapping[WorkloadId, str]:
        """Why workloads of the policy are not in the view."""
        with self._lock:
            return dict(self._absent)

    @property
    def explanations(self) -> Mapping[WorkloadId, str]:
        """Why workloads have no settings, or only those of an earlier manifest, or are not in the view. For people."""
        found = {workload: [reason] for workload, reason in self.absent.items()}
        for workload, problems in self._workloads.claims().refused.items():
            found.setdefault(workload, []).extend(problems)
        return {workload: "; ".join(said)[:_SHOWN_CHARACTERS] for workload, said in found.items()}

    @property
    def problems(self) -> tuple[str, ...]:
        """One short line for each thing that keeps the view from being whole, the first of many; no secrets."""
        found = [f"{it.name}: {said}" for it in self._followers() if (said := it.progress.problem or it.silence)]
        found += filter(None, [self._keda.problem, self._tolerance.problem])
        lines = [f"{workload}: {reason}" for workload, reason in self.explanations.items()]
        more = [f"and {len(lines) - _SHOWN_PROBLEMS} more"] if len(lines) > _SHOWN_PROBLEMS else []
        return (*found, *lines[:_SHOWN_PROBLEMS], *more)

    @property
    def figures(self) -> ViewFigures:
        """The figures of this moment."""
        lists, events, odd = Counter[str](), Counter[str](), Counter[str]()
        for it in self._followers():
            kind = it.name.partition(" ")[0]
            lists[kind] += it.progress.lists
            events[kind] += it.progress.events
            odd[kind] += it.progress.odd
        age_s = self._age_s() if self.ready else None
        return ViewFigures(age_s, lists, events, odd, len(self._workloads.claims().refused), len(self.absent))

    def _followers(self) -> Iterator[Follower[Any]]:
        yield from chain(self._pods, *self._apps.values())
        yield from chain(self._scaled_objects, self._autoscalers, self._node_followers)

    def _needed(self) -> Iterator[Follower[Any]]:
        """Yield what must have been listed, of the namespaces in sight.

        Scales of a kind that must not be listed can be read one by one. Without KEDA there are no ScaledObjects, and
        HPAs can be observed all the same.
        """
        pods, scaled_objects, apps = map(
            self._in_sight, (self._pods, self._scaled_objects, chain(*self._apps.values()))
        )
        yield from pods
        yield from (it for it in scaled_objects if not it.progress.unknown or it.progress.synced)
        yield from (it for it in apps if not it.progress.refused or it.progress.synced)

    def _evidence(self) -> Iterator[Follower[Any]]:
        """Yield what the age of the view is the age of: where replicas are counted.

        A stale ScaledObject only means that an older setting still holds; and that is what holds anyway.
        """
        apps = filter(followed, self._in_sight(chain(*self._apps.values())))
        return chain(self._in_sight(self._pods), apps)

    def _in_sight(self, followers: Iterable[Follower[Any]]) -> Iterator[Follower[Any]]:
        hidden = self.out_of_sight
        return (it for it in followers if it.namespace not in hidden)

    def _age_s(self) -> float:
        return max((it.age_s or 0.0) for it in self._evidence())

    # With the lock held.

    def _follow(self, claims: Claims) -> None:
        """Take up what workloads there are now, and what their targets were told."""
        changed = claims is not self._claims
        if changed:
            for gone in (self._claims.targets.keys() if self._claims else set()) - claims.targets.keys():
                self._forget(gone)
            self._claims = claims
        hidden = self.out_of_sight
        targets = claims.targets.values()
        self._reader.want([it for it in targets if it.namespace not in hidden and not self._watched(it)])
        absent: dict[WorkloadId, str] = {}
        for workload, target in claims.targets.items():
            reading = (
                self._scale_of(target) if (it := target.namespace) not in hidden else ScaleReading(None, hidden[it])
            )
            if reading.scale is None:
                absent[workload] = reading.problem
                self._forget(workload)
                continue
            if reading.scale is self._scales.get(workload) and not changed:
                continue
            self._members.expect(workload, Membership(target, reading.scale.selector))
            if self._scales.get(workload) != reading.scale:
                self._scales[workload] = reading.scale
                self._members.touch(workload)
        self._absent = absent

    def _forget(self, workload: WorkloadId) -> None:
        if self._scales.pop(workload, None) is not None:
            self._members.expect(workload, None)

    def _remake(self, touched: set[WorkloadId]) -> Mapping[WorkloadId, int | None]:
        """Make views anew, and return how many GPUs a replica of theirs takes.

        Of a kind whose template is not watched only its pods tell. While it has none, the last that was known holds.
        """
        gpus: dict[WorkloadId, int | None] = {}
        if not touched:
            return gpus
        for workload in touched:
            scale = self._scales.get(workload)
            if scale is None:
                self._views.pop(workload, None)
                continue
            self._views[workload] = self._members.view(workload, scale.replicas)
            count = scale.gpus or self._members.gpus(workload)
            if count is not None or scale.has_template:
                gpus[workload] = count
        targets = self._claims.targets if self._claims else {}
        self._reader.hurry(targets[it] for it in touched if it in targets)
        self._snapshot = MappingProxyType(dict(self._views))
        return gpus

    def _watched(self, target: TargetRef) -> bool:
        followers = self._apps.get((target.group, target.kind), ())
        return any(followed(it) for it in followers if it.namespace in {"", target.namespace})

    def _scale_of(self, target: TargetRef) -> ScaleReading:
        if not self._watched(target):
            return self._reader.get(target)
        scale = self._kept[target.group, target.kind].get((target.namespace, target.name))
        return ScaleReading(scale, "" if scale else f"there is no {target} that can be scaled")
