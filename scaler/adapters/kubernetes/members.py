"""Which pods are whose: all live pods, grouped by labels and controller, and each workload's view made of its groups.

Pods come and go one by one while a tick wants the views of all. So an event touches its own pod's workloads only, and
only their views are made anew. Pods with one set of labels and one controller belong to the same workloads, so that
matching happens once a group (about one for each pod template), not once a pod.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from scaler.adapters.kubernetes.objects import Key
from scaler.adapters.kubernetes.pods import Controller, Labels, PodState, SeenPod, state_of
from scaler.adapters.kubernetes.selectors import Selector, SelectorIndex
from scaler.adapters.kubernetes.targets import TargetRef
from scaler.core.observation import ReplicaCounts
from scaler.core.values import WorkloadId
from scaler.ports import PodRecord, WorkloadView


@dataclass(frozen=True, slots=True)
class Membership:
    """What makes a pod a workload's: the scale target selects it and controls it."""

    target: TargetRef
    selector: Selector


@dataclass(eq=False, slots=True)
class _Group:
    """Pods with the same labels and the same controller."""

    controller: Controller
    labels: Labels
    pods: dict[str, PodRecord] = field(default_factory=dict)
    workloads: tuple[WorkloadId, ...] = ()
    gpus: int | None = None  # that a pod of it asks for: they are of one template


@dataclass(eq=False, slots=True)
class _Namespace:
    group_of: dict[str, _Group] = field(default_factory=dict)  # by the pod's name
    groups: dict[tuple[Controller, Labels], _Group] = field(default_factory=dict)
    selectors: SelectorIndex[WorkloadId] = field(default_factory=SelectorIndex)
    unmatched: bool = False  # the selectors have changed since the groups were matched


class Members:
    """All live pods. Not safe for threads by itself: its owner has a lock."""

    def __init__(self) -> None:
        self._namespaces: dict[str, _Namespace] = {}
        self._memberships: dict[WorkloadId, Membership] = {}
        self._groups: dict[WorkloadId, set[_Group]] = {}
        self._touched: set[WorkloadId] = set()

    def __len__(self) -> int:
        return sum(len(space.group_of) for space in self._namespaces.values())

    # Pods, as a watch tells them.

    def replace(self, pods: Mapping[Key, SeenPod], namespace: str = "") -> None:
        """Hold these pods and no others, of a namespace or of all."""
        for key in [key for key in self._keys(namespace) if key not in pods]:
            self.remove(key)
        for key, seen in pods.items():
            self.put(key, seen)

    def put(self, key: Key, seen: SeenPod) -> None:
        """Take a new or changed pod."""
        space = self._namespaces.setdefault(key[0], _Namespace())
        old, group = space.group_of.get(key[1]), self._group_for(space, seen)
        if old is not None and old is not group:
            self._leave(space, old, key[1])
        if group.pods.get(key[1]) != seen.record:  # else the record that is held is kept, and nothing is touched
            group.pods[key[1]] = seen.record
            self._touched.update(group.workloads)
        if group.gpus != seen.gpus:
            group.gpus = seen.gpus
            self._touched.update(group.workloads)
        space.group_of[key[1]] = group

    def remove(self, key: Key) -> None:
        """Forget a pod, if it is there."""
        space = self._namespaces.get(key[0])
        group = space.group_of.pop(key[1], None) if space else None
        if space is not None and group is not None:
            self._leave(space, group, key[1])

    # Workloads, as the policy and their scale targets tell them.

    def expect(self, workload: WorkloadId, membership: Membership | None) -> None:
        """Say which pods are a workload's; None: it is none any more."""
        old = self._memberships.get(workload)
        if old == membership:
            return
        self._touched.add(workload)
        if old is not None:
            del self._memberships[workload]
            space = self._namespaces[old.target.namespace]
            space.selectors.remove(workload)
            space.unmatched = True
        if membership is not None:
            self._memberships[workload] = membership
            space = self._namespaces.setdefault(membership.target.namespace, _Namespace())
            space.selectors.put(workload, membership.selector)
            space.unmatched = True

    def touch(self, workload: WorkloadId) -> None:
        """Have a workload's view made anew: something else of it has changed."""
        self._touched.add(workload)

    def take_touched(self) -> set[WorkloadId]:
        """Return the workloads of which something has changed since the last call."""
        for name, space in tuple(self._namespaces.items()):
            if not space.group_of and not len(space.selectors):
                del self._namespaces[name]
            elif space.unmatched:
                space.unmatched = False
                for group in space.groups.values():
                    self._assign(group, self._owners(space, group))
        touched, self._touched = self._touched, set()
        return touched

    def view(self, workload: WorkloadId, spec: int) -> WorkloadView:
        """Make a workload's view; `spec` is the number of replicas that its scale target was told."""
        pods = [pod for group in self._groups.get(workload, ()) for pod in group.pods.values()]
        return view_of(pods, spec)

    def gpus(self, workload: WorkloadId) -> int | None:
        """Return the GPUs that a workload's pods ask for, each, of two versions the larger; None: that is not known."""
        return max((group.gpus for group in self._groups.get(workload, ()) if group.gpus is not None), default=None)

    def _keys(self, namespace: str) -> Iterator[Key]:
        for name in (namespace,) if namespace else tuple(self._namespaces):
            if space := self._namespaces.get(name):
                yield from ((name, pod) for pod in space.group_of)

    def _group_for(self, space: _Namespace, seen: SeenPod) -> _Group:
        key = (seen.controller, seen.labels)
        group = space.groups.get(key)
        if group is None:
            group = space.groups[key] = _Group(seen.controller, seen.labels)
            self._assign(group, self._owners(space, group))
        return group

    def _leave(self, space: _Namespace, group: _Group, name: str) -> None:
        group.pods.pop(name, None)
        self._touched.update(group.workloads)
        if not group.pods:
            self._assign(group, ())
            del space.groups[group.controller, group.labels]

    def _owners(self, space: _Namespace, group: _Group) -> tuple[WorkloadId, ...]:
        """Return whose the pods of a group are.

        Labels alone would count strangers: a debugging pod that somebody copied with its labels, or the pods of another
        Deployment whose selector overlaps. Their own controllers do not count them either.
        """
        labels = dict(group.labels)
        matching = space.selectors.matching(labels)
        return tuple(sorted(w for w in matching if self._memberships[w].target.controls(group.controller, labels)))

    def _assign(self, group: _Group, workloads: tuple[WorkloadId, ...]) -> None:
        before, after = set(group.workloads), set(workloads)
        for workload in before - after:
            held = self._groups[workload]
            held.discard(group)
            if not held:
                del self._groups[workload]
        for workload in after - before:
            self._groups.setdefault(workload, set()).add(group)
        group.workloads = workloads
        self._touched |= before ^ after


def view_of(pods: Iterable[PodRecord], spec: int) -> WorkloadView:
    """Make the view of a workload from its pods. Those that ran to their end or failed are no replicas any more."""
    states = [(state_of(pod), pod) for pod in sorted(pods, key=lambda pod: pod.name)]
    alive = [(state, pod) for state, pod in states if state is not PodState.FINISHED]
    ready = tuple(pod.name for state, pod in alive if state is PodState.READY)
    kinds = [state for state, _ in alive]
    templates = {pod.template for state, pod in alive if pod.template and state is not PodState.TERMINATING}
    counts = ReplicaCounts(
        spec=spec,
        ready=len(ready),
        pending=kinds.count(PodState.PENDING),
        blocked=kinds.count(PodState.BLOCKED),
        terminating=kinds.count(PodState.TERMINATING),
    )
    return WorkloadView(counts, ready, len(templates) > 1, tuple(pod for _, pod in alive))
