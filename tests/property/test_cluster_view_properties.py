"""Whatever the objects and the order of events: nothing raises, and the view is what counting all anew would say."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from scaler.adapters.kubernetes.members import Members, Membership, view_of
from scaler.adapters.kubernetes.nodes import read_node
from scaler.adapters.kubernetes.objects import key_of
from scaler.adapters.kubernetes.pods import SeenPod, read_pod
from scaler.adapters.kubernetes.selectors import Selector, of_label_selector, of_text
from scaler.adapters.kubernetes.targets import TargetRef, read_scale, read_workload_resource
from scaler.core.values import WorkloadId
from scaler.ports import WorkloadView
from tests.kubernetes_objects import deployment, full_pod, node, pod

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12)
JUNK = st.recursive(SCALARS, lambda it: st.lists(it, max_size=3) | st.dictionaries(st.text(max_size=6), it, max_size=3))


@st.composite
def damaged(draw: st.DrawFn, whole: dict[str, Any]) -> dict[str, Any]:
    """Return an object of which one part, at any depth, is something else or gone."""
    it: Any = whole
    while isinstance(it, dict | list) and it:
        key = draw(st.sampled_from(sorted(it) if isinstance(it, dict) else range(len(it))))
        if not isinstance(it[key], dict | list) or not it[key] or draw(st.booleans()):
            if draw(st.booleans()):
                it[key] = draw(JUNK)
            else:
                del it[key]
            break
        it = it[key]
    return whole


@given(st.data())
def test_no_object_makes_reading_raise(data: st.DataObject) -> None:
    """Any part of any object may be missing or of another kind: it is read as far as it can be, or skipped."""
    pieces = [full_pod(1, 2), node("n"), deployment("d"), {"spec": {"replicas": 1}, "status": {"selector": "a=b"}}]
    for whole in pieces:
        it = data.draw(damaged(whole))
        key_of(it)
        read_pod(it)
        read_node(it)
        read_workload_resource(it)
        read_scale(it)


@given(JUNK, st.text(max_size=40))
def test_junk_is_no_object_and_no_selector_that_selects_all(junk: Any, text: str) -> None:
    """What is no object at all is skipped; what is read as a selector demands something."""
    assert read_pod(junk) is None
    for selector in (of_label_selector(junk), of_text(text)):
        assert selector is None or selector.requirements


NAMES = st.sampled_from(["a", "b", "c", "d"])
SPACES = st.sampled_from(["one", "two"])
APPS = st.sampled_from(["x", "y"])
SELECTORS = st.sampled_from(["app=x", "app=y", "tier=gpu", "app in (x,y)", "app=x,tier=gpu", "!tier,app"])


class Matching(RuleBasedStateMachine):
    """Pods and workloads come, change and go in any order; the model tries all pods against all selectors each time."""

    def __init__(self) -> None:
        super().__init__()
        self.members = Members()
        self.pods: dict[tuple[str, str], SeenPod] = {}
        self.memberships: dict[WorkloadId, Membership] = {}
        self.views: dict[WorkloadId, WorkloadView] = {}

    @rule(
        space=SPACES, name=NAMES, app=APPS, tier=st.booleans(), ready=st.booleans(), gated=st.booleans(),
        template=st.sampled_from(["1", "2"]), owner=st.sampled_from(["ReplicaSet", "Job", None]),
    )  # fmt: skip
    def a_pod_comes_or_changes(self, space: str, name: str, *, tier: bool, **how: Any) -> None:
        seen = read_pod(pod(name, namespace=space, labels={"tier": "gpu"} if tier else {}, **how))
        assert seen is not None
        self.pods[space, name] = seen
        self.members.put((space, name), seen)

    @rule(space=SPACES, name=NAMES)
    def a_pod_goes(self, space: str, name: str) -> None:
        self.pods.pop((space, name), None)
        self.members.remove((space, name))

    @rule(space=st.sampled_from(["", "one", "two"]), lost=st.sets(st.tuples(SPACES, NAMES)))
    def a_list_comes(self, space: str, lost: set[tuple[str, str]]) -> None:
        kept = {key: it for key, it in self.pods.items() if key not in lost or (space and key[0] != space)}
        self.members.replace({key: it for key, it in kept.items() if not space or key[0] == space}, space)
        self.pods = kept

    @rule(
        name=st.sampled_from(["w1", "w2"]), app=APPS, text=SELECTORS, space=SPACES,
        kind=st.sampled_from([("apps", "Deployment"), ("argoproj.io", "Rollout")]),
    )  # fmt: skip
    def a_workload_comes_or_changes(self, name: str, app: str, text: str, space: str, kind: tuple[str, str]) -> None:
        selector = of_text(text)
        assert isinstance(selector, Selector)
        membership = Membership(TargetRef(kind[0], "v1", kind[1], space, app), selector)
        self.memberships[WorkloadId(space, name)] = membership
        self.members.expect(WorkloadId(space, name), membership)

    @rule(name=st.sampled_from(["w1", "w2"]), space=SPACES)
    def a_workload_goes(self, name: str, space: str) -> None:
        self.memberships.pop(WorkloadId(space, name), None)
        self.members.expect(WorkloadId(space, name), None)

    @invariant()
    def the_view_is_what_counting_anew_says(self) -> None:
        """Only the views of touched workloads are made anew, and yet all are right."""
        for workload in self.members.take_touched():
            self.views.pop(workload, None)
            if workload in self.memberships:
                self.views[workload] = self.members.view(workload, 3)
        assert self.views == {key: view_of(self._pods_of(it), 3) for key, it in self.memberships.items()}
        assert len(self.members) == len(self.pods)

    def _pods_of(self, membership: Membership) -> list[Any]:
        return [
            seen.record
            for (space, _), seen in self.pods.items()
            if space == membership.target.namespace
            and membership.selector.matches(dict(seen.labels))
            and membership.target.controls(seen.controller, dict(seen.labels))
        ]


TestMatching = Matching.TestCase
TestMatching.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
