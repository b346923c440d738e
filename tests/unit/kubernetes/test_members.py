"""Which pods are whose, and what a workload's view is made of."""

from collections.abc import Iterable
from typing import Any

from scaler.adapters.kubernetes.members import Members, Membership
from scaler.adapters.kubernetes.pods import SeenPod, read_pod
from scaler.adapters.kubernetes.selectors import Selector, of_text
from scaler.adapters.kubernetes.targets import TargetRef
from scaler.core.observation import ReplicaCounts
from scaler.core.values import WorkloadId
from tests.kubernetes_objects import pod

ENGINE = WorkloadId("tenant", "engine")
OTHER = WorkloadId("tenant", "other")


def target(
    name: str = "engine", *, kind: str = "Deployment", group: str = "apps", namespace: str = "tenant"
) -> TargetRef:
    return TargetRef(group, "v1", kind, namespace, name)


def selector(text: str) -> Selector:
    read = of_text(text)
    assert read is not None
    return read


def listed(pods: Iterable[dict[str, Any]]) -> dict[tuple[str, str], SeenPod]:
    read = [read_pod(it) for it in pods]
    return {(it.record.namespace, it.record.name): it for it in read if it is not None}


def put(members: Members, *pods: dict[str, Any]) -> None:
    for key, it in listed(pods).items():
        members.put(key, it)


def engine(*pods: dict[str, Any], of: TargetRef | None = None, text: str = "app=engine") -> Members:
    members = Members()
    members.expect(ENGINE, Membership(of or target(), selector(text)))
    put(members, *pods)
    return members


def names(members: Members, workload: WorkloadId = ENGINE) -> tuple[str, ...]:
    members.take_touched()
    return tuple(it.name for it in members.view(workload, 1).members)


def test_pods_are_counted_by_what_they_are_good_for() -> None:
    """Ready, on the way, blocked and going are told apart; what has finished is no replica."""
    members = engine(
        pod("a"), pod("b"), pod("c", ready=False), pod("d", gated=True), pod("e", unschedulable=True),
        pod("f", terminating=True), pod("g", phase="Failed"), pod("h", phase="Succeeded"),
    )  # fmt: skip
    members.take_touched()
    view = members.view(ENGINE, 6)
    assert view.counts == ReplicaCounts(spec=6, ready=2, pending=1, blocked=2, terminating=1)
    assert view.pods == ("a", "b")
    assert [it.name for it in view.members] == ["a", "b", "c", "d", "e", "f"]
    assert not view.rollout


def test_two_versions_at_once_are_a_rollout() -> None:
    """While pods of two templates live there is a rollout; one that is only terminating is past."""
    assert engine(pod("a"), pod("b", template="new", ready=False)).view(ENGINE, 2).rollout
    assert not engine(pod("a", terminating=True), pod("b", template="new")).view(ENGINE, 2).rollout
    assert not engine(pod("a", phase="Failed"), pod("b", template="new")).view(ENGINE, 2).rollout


def test_a_pod_that_nothing_controls_is_nobodys() -> None:
    """A debugging copy with a replica's labels is no replica."""
    assert names(engine(pod("a"), pod("copy", owner=None))) == ("a",)


def test_a_pod_of_another_deployment_is_not_counted() -> None:
    """Where the selectors of two Deployments overlap, each has the pods of its own ReplicaSets."""
    stranger = pod("x", app="other", labels={"app": "engine"})
    assert names(engine(pod("a"), stranger)) == ("a",)
    forged = pod("y", app="engine-7d9f8c6b5", labels={"app": "engine"})  # of a Deployment named like a ReplicaSet
    assert names(engine(pod("a"), forged)) == ("a",)


def test_a_job_with_a_replicas_labels_is_not_counted() -> None:
    """Only ReplicaSets make a Deployment's pods, only the StatefulSet itself makes its own."""
    assert names(engine(pod("a"), pod("job", owner="Job"))) == ("a",)
    own = target(kind="StatefulSet")
    assert names(engine(pod("engine-0", owner="StatefulSet"), pod("b"), of=own)) == ("engine-0",)


def test_any_other_kind_has_the_pods_that_something_controls() -> None:
    """Of a kind that is not known the selector is believed, but for bare pods."""
    leaders = target(kind="LeaderWorkerSet", group="leaderworkerset.x-k8s.io")
    text = "leaderworkerset.sigs.k8s.io/name=engine,leaderworkerset.sigs.k8s.io/worker-index=0"
    marks = {"leaderworkerset.sigs.k8s.io/name": "engine"}
    members = engine(
        pod("engine-0", owner="StatefulSet", labels=marks | {"leaderworkerset.sigs.k8s.io/worker-index": "0"}),
        pod("engine-0-1", owner="StatefulSet", labels=marks | {"leaderworkerset.sigs.k8s.io/worker-index": "1"}),
        pod("bare", owner=None, labels=marks | {"leaderworkerset.sigs.k8s.io/worker-index": "0"}),
        of=leaders,
        text=text,
    )
    assert names(members) == ("engine-0",)


def test_a_namespace_is_a_wall() -> None:
    """Pods of another namespace are not a workload's, whatever their labels."""
    assert names(engine(pod("a"), pod("b", namespace="neighbour"))) == ("a",)


def test_a_pod_that_changes_its_labels_changes_hands() -> None:
    """A pod taken out of service by its labels leaves at once, and both workloads know."""
    members = engine(pod("a"))
    members.expect(OTHER, Membership(target("other", kind="Rollout", group="argoproj.io"), selector("app=other")))
    members.take_touched()
    put(members, pod("a", labels={"app": "other"}))
    assert members.take_touched() == {ENGINE, OTHER}
    assert names(members) == ()
    assert names(members, OTHER) == ("a",)


def test_only_what_changed_is_touched() -> None:
    """An event touches its own workload; one that says nothing new touches none."""
    members = engine(pod("a"))
    members.expect(OTHER, Membership(target("other"), selector("app=other")))
    put(members, pod("b", app="other"))
    members.take_touched()
    put(members, pod("a"), pod("b", app="other"))
    assert members.take_touched() == set()
    put(members, pod("a", ready=False))
    assert members.take_touched() == {ENGINE}
    members.remove(("tenant", "b"))
    members.remove(("tenant", "b"))
    members.remove(("nowhere", "b"))
    assert members.take_touched() == {OTHER}


def test_a_list_leaves_no_ghosts() -> None:
    """Pods that vanished while nobody watched are gone after a list, in one namespace or in all."""
    members = engine(pod("a"), pod("b"), pod("n", namespace="neighbour"))
    members.replace(listed([pod("b"), pod("c")]), "tenant")
    assert names(members) == ("b", "c")
    assert len(members) == 3
    members.replace(listed([pod("c")]))
    assert names(members) == ("c",)
    assert len(members) == 1


def test_pods_may_come_before_their_workload_and_stay_after_it() -> None:
    """The order in which lists arrive does not matter."""
    members = Members()
    put(members, pod("a"))
    members.expect(ENGINE, Membership(target(), selector("app=engine")))
    assert names(members) == ("a",)
    members.expect(ENGINE, None)
    assert members.take_touched() == {ENGINE}
    assert names(members) == ()
    members.expect(ENGINE, Membership(target(), selector("app=engine")))
    assert names(members) == ("a",)


def test_a_changed_selector_is_matched_again() -> None:
    """A target that selects something else has other pods from then on."""
    members = engine(pod("a"), pod("b", labels={"canary": "yes"}))
    members.expect(ENGINE, Membership(target(), selector("app=engine,canary=yes")))
    assert names(members) == ("b",)


def test_empty_namespaces_are_forgotten() -> None:
    """Namespaces that come and go leave nothing behind."""
    members = Members()
    for number in range(50):
        put(members, pod("a", namespace=f"preview-{number}"))
        members.remove((f"preview-{number}", "a"))
    members.take_touched()
    assert members._namespaces == {}
