"""Names come and go for as long as a controller runs: what is kept of them is of those that are there."""

from functools import partial
from typing import Any

from scaler.adapters.kubernetes.members import Members, Membership
from scaler.adapters.kubernetes.notices import PlanTransitions
from scaler.adapters.kubernetes.objects import Key
from scaler.adapters.kubernetes.pods import read_pod
from scaler.adapters.kubernetes.selectors import of_text
from scaler.adapters.kubernetes.targets import TargetRef
from scaler.adapters.kubernetes.workloads import MAX_NOTICES, Workloads
from scaler.config.live import observed_workload, settings_of
from scaler.config.models import DecisionSettings
from scaler.config.platform import Platform
from scaler.core.values import WorkloadId
from tests.kubernetes_objects import pod, scaled_object
from tests.plan_builders import plan, recommendation

ROUNDS = 50
PLATFORM = Platform(addresses=frozenset({"headway.headway:6000"}))


def size(it: object, seen: set[int] | None = None) -> int:
    """Count what containers hold, all the way down through slots, attributes and containers."""
    seen = set() if seen is None else seen
    if id(it) in seen or isinstance(it, str | bytes | int | float | type | None):
        return 0
    seen.add(id(it))
    if isinstance(it, dict):
        return len(it) + sum(size(part, seen) for pair in it.items() for part in pair)
    if isinstance(it, list | tuple | set | frozenset):
        return len(it) + sum(size(part, seen) for part in it)
    names = [*getattr(it, "__dict__", ()), *(n for c in type(it).__mro__ for n in getattr(c, "__slots__", ()))]
    return sum(size(getattr(it, name, None), seen) for name in names)


def test_members_keep_nothing_of_pods_and_workloads_that_are_gone() -> None:
    """Every round has namespaces, workloads and pods of its own; when all are gone nothing is left."""
    members = Members()
    empty = size(members)
    for number in range(ROUNDS):
        namespace, workload = f"ns-{number}", WorkloadId(f"ns-{number}", "engine")
        selector = of_text("app=engine")
        assert selector is not None
        members.expect(workload, Membership(TargetRef("apps", "v1", "Deployment", namespace, "engine"), selector))
        keys = [_put(members, namespace, f"engine-{number}-{index}") for index in range(3)]
        members.take_touched()
        assert len(members.view(workload, 3).members) == 3
        for key in keys:
            members.remove(key)
        members.expect(workload, None)
        members.take_touched()
    assert size(members) == empty


def _put(members: Members, namespace: str, name: str) -> Key:
    seen = read_pod(pod(name, namespace=namespace, app="engine"))
    assert seen is not None
    members.put((namespace, name), seen)
    return namespace, name


def test_workloads_keep_nothing_of_manifests_that_are_gone() -> None:
    """Valid and refused ones alike; what is said of them and never fetched is bounded."""
    workloads = Workloads(
        DecisionSettings(), partial(settings_of, platform=PLATFORM), partial(observed_workload, platform=PLATFORM)
    )
    sizes = []
    for number in range(MAX_NOTICES // 2 + 10):
        for name, more in (("good", {}), ("bad", {"slo": "never"})):
            _take(workloads, f"{name}-{number}", **more)
        workloads.learn_gpus({WorkloadId("tenant", f"good-{number}"): 2})
        assert len(workloads.claims().policy.workloads) == 1
        for name in ("good", "bad"):
            workloads.remove("ScaledObject", ("tenant", f"{name}-{number}"))
        workloads.claims()
        if number in {5, MAX_NOTICES // 2}:
            sizes.append(size(workloads._claims) + size(workloads._gpus) + size(workloads._resolved))
    assert sizes[0] == sizes[1]
    assert len(workloads.take_notices()) <= MAX_NOTICES


def _take(workloads: Workloads, name: str, **metadata: Any) -> None:
    read = workloads.read_scaled_object(scaled_object(name, slotsPerReplica="8", **metadata))
    assert read is not None
    workloads.put("ScaledObject", ("tenant", name), read)


def test_transitions_keep_nothing_of_workloads_that_are_gone() -> None:
    """What held at a workload is forgotten with it."""
    transitions, sizes = PlanTransitions(), []
    for number in range(ROUNDS):
        item = recommendation(workload=WorkloadId("tenant", f"engine-{number}"))
        transitions.of(plan(item), stale_after_s=60.0)
        sizes.append(size(transitions))
    assert sizes[0] == sizes[-1]
