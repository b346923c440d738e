"""The live view over real HTTP: what it sees, how old it says that is, and what it does when the server misbehaves."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from scaler.adapters.kubernetes.following import BARRED_AFTER
from scaler.adapters.kubernetes.watch import Pace
from scaler.config.live import LiveWorkload
from scaler.config.models import Mode
from scaler.core.observation import ReplicaCounts
from scaler.core.values import Reason, WorkloadId
from scaler.ports import SourceError
from tests.api_rig import PATIENT
from tests.api_server_double import ApiServerDouble
from tests.cluster_view_rig import ENGINE, QUICK, cluster, engine, until
from tests.kubernetes_objects import deployment, node, pod, scaled_object, stateful_set

PODS = "/api/v1/pods"


def test_a_workload_is_seen_whole() -> None:
    """From ScaledObject, Deployment and pods come settings, counts, ready pods and their records."""
    with cluster(*engine(2), pod("engine-2", ready=False), pod("stranger", app="other")) as it:
        it.sees(["engine-0", "engine-1"])
        view = it.engine()
        assert view is not None
        assert view.counts == ReplicaCounts(spec=2, ready=2, pending=1)
        assert [(p.ip, p.ports) for p in view.members] == [("10.0.0.7", (8000,))] * 3
        (settings,) = it.workloads.current().workloads
        assert (settings.name, settings.min_replicas, settings.max_replicas, settings.slots_per_replica) == (
            "engine",
            1,
            10,
            8,
        )
        assert it.view.problems == ()


def test_what_happens_is_seen_as_it_happens() -> None:
    """New, changed and deleted pods, and a changed number of replicas, come through the watch: no list is repeated."""
    with cluster(*engine(1)) as it:
        it.sees(["engine-0"])
        it.put(pod("engine-1"), deployment("engine", replicas=2))
        it.sees(["engine-0", "engine-1"])
        until(lambda: (view := it.engine()) and view.counts.spec == 2)
        it.put(pod("engine-0", terminating=True))
        it.sees(["engine-1"])
        it.remove(pod("engine-0"))
        until(lambda: (view := it.engine()) and view.counts.terminating == 0)
        assert it.view.progress["pods"].lists == 1


def test_a_rollout_is_seen_with_both_versions() -> None:
    """While two versions run both are counted, and the view says that it is a rollout."""
    with cluster(*engine(1), pod("engine-new", template="new")) as it:
        it.sees(["engine-0", "engine-new"])
        assert it.look().workloads[ENGINE].rollout
        it.remove(pod("engine-0"))
        it.sees(["engine-new"])
        assert not it.look().workloads[ENGINE].rollout


def test_an_api_server_that_is_gone_for_ten_minutes() -> None:
    """The view keeps what it knew and says how old that is; when the server is back it lists, and no ghost stays."""
    with cluster(*engine(3)) as it:
        it.sees(["engine-0", "engine-1", "engine-2"])
        it.server.leave()
        until(lambda: it.view.progress["pods"].problem)
        it.clock.at_s += 600.0
        it.server.forget()
        until(lambda: it.asked_all("list"), "a list of every kind, for nothing less is believed by now")
        assert it.engine() is not None
        assert len(it.look().workloads[ENGINE].pods) == 3
        assert it.age_s() >= 600.0
        assert any(line.startswith("pods: ") for line in it.view.problems)
        it.remove(pod("engine-1"))
        it.put(pod("engine-9"))
        it.server.come_back()
        it.sees(["engine-0", "engine-2", "engine-9"])
        until(lambda: it.age_s() < 1.0, "a view of now")
        assert it.view.progress["pods"].lists == 2
        until(lambda: not it.view.problems)


def test_a_short_fault_costs_no_list() -> None:
    """A watch that broke off goes on from where it was, and misses nothing of what happened meanwhile."""
    with cluster(*engine(1)) as it:
        it.sees(["engine-0"])
        it.server.leave()
        until(lambda: it.view.progress["pods"].problem)
        it.put(pod("engine-1"))
        it.remove(pod("engine-0"))
        it.server.come_back()
        it.sees(["engine-1"])
        assert it.view.progress["pods"].lists == 1


def test_an_api_server_that_is_replaced_costs_no_list() -> None:
    """While its port refuses connections the view waits; then each watch goes on from where it was, and all is well."""
    with cluster(*engine(1)) as it:
        it.sees(["engine-0"])
        with it.server.restarting():
            until(lambda: "refused" in it.view.progress["pods"].problem, "a refused connection")
        it.put(pod("engine-1"))
        it.sees(["engine-0", "engine-1"])
        assert it.view.progress["pods"].lists == 1
        until(lambda: it.view.problems == (), "no fault of the past, also of kinds of which nothing happens")


def test_a_watch_that_hangs_ages() -> None:
    """A watch that says nothing proves nothing: the view ages from the last word, while all stands as it was."""
    with cluster(*engine(1)) as it:
        it.sees(["engine-0"])
        it.clock.at_s += 170.0
        assert it.age_s() == pytest.approx(170.0)
        assert it.look().workloads[ENGINE].counts.ready == 1
        it.bookmark()
        assert it.age_s() < 1.0
        assert it.view.progress["pods"].lists == 1


def test_a_watch_that_is_silent_for_too_long_is_replaced() -> None:
    """After the longest silence that a watch may keep comes a list, at once: a kind that is quiet is no fault."""
    with cluster(*engine(1), pace=Pace(backoff_s=1000.0, silence_s=0.2)) as it:
        it.sees(["engine-0"])
        until(lambda: it.view.progress["pods"].lists >= 3, "another list, and another")
        assert it.view.problems == ()


def test_a_watch_that_is_accepted_and_says_nothing_is_no_evidence() -> None:
    """A server that opens watches and sends nothing through them does not make a view young."""
    with cluster(*engine(1)) as it:
        it.sees(["engine-0"])
        it.clock.at_s += 100.0
        it.server.forget()
        it.server.cut_watches()
        until(lambda: it.asked_all("watch"), "a new watch of every kind")
        assert it.age_s() == pytest.approx(100.0)
        until(lambda: it.view.problems == (), "no fault of the past")
        it.server.fail("hang", verb="list")
        it.clock.at_s += 100.0
        assert "pods: nothing was heard for 200 s" in it.view.problems


def test_events_that_come_late_are_no_evidence_of_now() -> None:
    """A watch that tells of pods created minutes ago shows the cluster of then, and is given up for a list."""
    with cluster(*engine(1)) as it:
        it.sees(["engine-0"])
        created = "2027-01-16T17:46:40Z"  # now, as the rig's clock has it
        it.put(pod("engine-1", created=created))
        it.sees(["engine-0", "engine-1"])
        assert it.view.progress["pods"].lag_s == 0.0
        it.clock.at_s += 60.0
        it.put(pod("engine-2", created=created))
        it.sees(["engine-0", "engine-1", "engine-2"])
        assert it.view.progress["pods"].lag_s == pytest.approx(60.0)
        assert it.age_s() >= 60.0
        assert it.view.progress["pods"].lists == 1
        it.clock.at_s += 100.0
        it.put(pod("engine-3", created=created))
        until(lambda: it.view.progress["pods"].lists == 2)


@pytest.mark.parametrize("way", ["refused", "told"])
def test_a_watch_whose_version_has_expired_is_listed_again(way: str) -> None:
    """410 Gone, as an answer or as an event of the watch, leads to a list, and what vanished meanwhile is gone."""
    with cluster(*engine(2)) as it:
        it.sees(["engine-0", "engine-1"])
        if way == "refused":
            it.server.fail("status", verb="watch", path=PODS, status=410, reason="Expired", times=1)
        it.server.leave()
        until(lambda: it.view.progress["pods"].problem)
        it.remove(pod("engine-0"))
        it.server.objects.compact()
        it.server.come_back()
        it.sees(["engine-1"])
        assert it.view.progress["pods"].lists == 2


def test_a_list_whose_token_expires_starts_anew() -> None:
    """410 Gone in the middle of a list starts it anew; nothing of the first try stays."""
    pods = [pod(f"engine-{n}") for n in range(20)]
    with cluster(
        *engine(0), *pods,
        pace=Pace(page_objects=3, backoff_s=0.01),
        prepare=lambda server: expire_after_pages(server, 3),
    ) as it:  # fmt: skip
        it.sees(sorted(p["metadata"]["name"] for p in pods))
        assert it.server.count("list", PODS) > 7
        assert it.view.progress["pods"].lists == 1


def expire_after_pages(server: Any, pages: int) -> None:
    """Let every continue token expire once, when `pages` pages of pods have been served."""
    page, lock, left = server.objects.page, threading.Lock(), [pages]

    def served(place: Any, *rest: Any) -> Any:
        with lock:
            if place.plural == "pods" and left[0] >= 0:
                left[0] -= 1
                if left[0] < 0:
                    server.objects.compact()
        return page(place, *rest)

    server.objects.page = served


def test_bookmarks_advance_the_version() -> None:
    """After a bookmark a watch resumes from it: history before it may be gone, and no list is needed."""
    with cluster(*engine(1), node("n")) as it:
        it.sees(["engine-0"])
        it.server.objects.compact()
        it.bookmark()
        it.server.cut_watches()
        until(lambda: all(progress.watches == 2 for progress in it.view.progress.values()))
        it.put(pod("engine-1"))
        it.sees(["engine-0", "engine-1"])
        assert {progress.lists for progress in it.view.progress.values()} == {1}


def test_huge_objects_slow_a_list_down_and_do_not_end_it() -> None:
    """A page with more bytes than an answer may have is asked for in smaller ones."""
    fat = [pod(f"fat-{n}", app="fat") for n in range(3)]
    for it in fat:
        it["metadata"]["annotations"] = {"note": "x" * 900_000}
    with cluster(*engine(2), *fat, settings=replace(PATIENT, max_body_bytes=1_000_000)) as seen:
        seen.sees(["engine-0", "engine-1"])
        assert seen.server.count("list", PODS) > 4
        assert seen.view.progress["pods"].odd == 0


def test_odd_objects_are_skipped_and_counted() -> None:
    """A pod that cannot be read costs itself; one that became unreadable is not believed to be as it was."""
    with cluster(*engine(2), pod("odd", created="never")) as it:
        it.sees(["engine-0", "engine-1"])
        assert it.view.progress["pods"].odd == 1
        it.put(pod("engine-0", labels={f"label-{n}": "x" for n in range(200)}))
        it.sees(["engine-1"])
        assert it.view.progress["pods"].odd == 2


def test_nothing_is_said_before_everything_was_listed() -> None:
    """Before pods, scales and ScaledObjects have been listed there is no view, and it says what is missing."""
    with cluster(*engine(1), synced=False, prepare=lambda server: server.fail("status", path=PODS, status=500)) as it:
        with pytest.raises(SourceError, match="pods") as refused:
            it.look()
        assert refused.value.reason is Reason.VIEW_UNAVAILABLE
        assert not it.view.ready
        it.server.heal()
        it.sees(["engine-0"])


def test_without_the_right_to_pods_there_is_no_view() -> None:
    """403 on pods is a clear problem, and no view rather than one of no pods."""
    forbidden = {"path": PODS, "status": 403, "reason": "Forbidden"}
    with cluster(*engine(1), synced=False, prepare=lambda server: server.fail("status", **forbidden)) as it:
        until(lambda: it.view.progress["pods"].refused)
        with pytest.raises(SourceError, match="403 Forbidden"):
            it.look()
        until(lambda: it.view.progress["nodes"].synced, "the kinds that may be listed")


def test_without_the_right_to_deployments_their_scales_are_read() -> None:
    """403 on Deployments leaves the way through each scale; the problem is named."""
    forbidden = {"path": "/apis/apps/v1/deployments", "status": 403, "reason": "Forbidden"}
    apps = {
        "resources": [{"name": "deployments", "kind": "Deployment"}, {"name": "deployments/scale", "kind": "Scale"}]
    }

    def prepare(server: Any) -> None:
        server.fail("status", **forbidden)
        server.documents["/apis/apps/v1"] = apps

    with cluster(*engine(2), synced=False, prepare=prepare) as it:
        it.sees(["engine-0", "engine-1"])
        assert any(line.startswith("deployments: ") and "403" in line for line in it.view.problems)


def test_without_the_right_to_nodes_the_rest_works() -> None:
    """403 on nodes leaves no nodes, for a reason that is told, and everything else."""
    forbidden = {"path": "/api/v1/nodes", "status": 403, "reason": "Forbidden"}
    with cluster(*engine(1), prepare=lambda server: server.fail("status", **forbidden)) as it:
        it.sees(["engine-0"])
        until(lambda: it.view.progress["nodes"].refused)
        with pytest.raises(SourceError, match="403 Forbidden"):
            it.view.nodes()


CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/scaledobjects.keda.sh"


def crd(**labels: str) -> Callable[[ApiServerDouble], object]:
    """Install KEDA's CRD with labels; `version` stands for the one that tells its version."""
    named = {"app.kubernetes.io/version": labels["version"]} if labels else {}
    return lambda server: server.put(CRD, {"metadata": {"name": "scaledobjects.keda.sh", "labels": named}})


def test_a_keda_that_is_too_old_is_told_of() -> None:
    """The version that its CRD is labelled with is enough to say so."""
    with cluster(*engine(1), prepare=crd(version="2.16.1")) as it:
        until(lambda: it.view.problems, "a problem")
        (line,) = it.view.problems
        assert "KEDA must be 2.17 or newer, was 2.16.1" in line


@pytest.mark.parametrize(
    "prepare",
    [
        crd(version="2.17.2"),
        crd(),
        lambda _: None,
        lambda server: server.fail("status", path=CRD, status=403, reason="Forbidden"),
    ],
)
def test_of_a_keda_that_nothing_is_known_of_nothing_is_said(prepare: Callable[[ApiServerDouble], object]) -> None:
    """A version that is well, is not told, or may not be read is no problem, and is not asked for again and again."""
    with cluster(*engine(1), prepare=prepare) as it:
        until(lambda: it.server.count("get", CRD), "the question")
        it.sees(["engine-0"])
        assert it.view.problems == ()
        assert it.server.count("get", CRD) == 1


def test_figures_tell_what_the_view_has_done_and_how_it_stands() -> None:
    """Lists, events and what was odd are counted by kind; refused and absent workloads, and the age, are told."""
    odd = pod("odd", labels={f"label-{number}": "" for number in range(101)})
    with cluster(*engine(1), odd, scaled_object("bad", slo="never"), scaled_object("lone")) as it:
        it.put(pod("engine-1"))
        it.sees(["engine-0", "engine-1"])
        it.clock.at_s += 7.0
        figures = it.view.figures
        assert figures.age_s == pytest.approx(7.0)
        assert (figures.lists["pods"], figures.events["pods"], figures.odd["pods"]) == (1, 1, 1)
        assert figures.lists.keys() >= {"deployments", "statefulsets", "scaledobjects", "nodes"}
        assert (figures.refused, figures.absent) == (1, 1)


def test_why_a_workload_cannot_be_used_is_told_by_its_name() -> None:
    """One whose manifest has errors, and one whose target is not there, are each explained in a line."""
    with cluster(*engine(1), scaled_object("bad", slo="never"), scaled_object("lone")) as it:
        it.sees(["engine-0"])
        said = it.view.explanations
        assert said.keys() == {WorkloadId("tenant", "bad"), WorkloadId("tenant", "lone")}
        assert "slo" in said[WorkloadId("tenant", "bad")]
        assert "there is no Deployment tenant/lone" in said[WorkloadId("tenant", "lone")]
        assert {f"{workload}: {reason}" for workload, reason in said.items()} == set(it.view.problems)


def test_figures_before_the_first_list() -> None:
    """While nothing was listed there is no age."""
    with cluster(prepare=lambda server: server.fail("status", status=503), synced=False) as it:
        until(lambda: it.view.problems)
        assert it.view.figures.age_s is None
        assert sum(it.view.figures.lists.values()) == 0


def test_nodes_are_kept_too() -> None:
    """Nodes come with the age of their own view."""
    with cluster(node("n"), node("m", gpus=None)) as it:
        until(lambda: it.view.progress["nodes"].synced)
        assert sorted((n.name, n.warm("nvidia.com/gpu")) for n in it.view.nodes().nodes) == [("m", False), ("n", True)]
        it.clock.at_s += 30.0
        assert it.view.nodes().at_s == pytest.approx(it.clock.at_s - 30.0)


def test_a_stateful_set_and_a_custom_kind_are_targets() -> None:
    """Any kind with a scale subresource can be a target; its plural comes from discovery."""
    rollout = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "canary"}
    custom = deployment("canary", replicas=4) | {"kind": "Rollout", "apiVersion": "argoproj.io/v1alpha1"}
    stateful = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "broker"}
    with cluster(
        scaled_object("a", target=rollout), custom, pod("c-0", app="canary"),
        scaled_object("b", target=stateful), stateful_set("broker", replicas=3),
        pod("broker-0", app="broker", owner="StatefulSet"),
    ) as it:  # fmt: skip
        it.sees(["c-0"], WorkloadId("tenant", "a"))
        it.sees(["broker-0"], WorkloadId("tenant", "b"))
        workloads = it.look().workloads
        assert [workloads[WorkloadId("tenant", name)].counts.spec for name in "ab"] == [4, 3]
        it.put(custom | {"spec": custom["spec"] | {"replicas": 7}})
        until(lambda: (view := it.engine(WorkloadId("tenant", "a"))) and view.counts.spec == 7)


def test_only_kinds_that_may_be_scaled_are_asked_for() -> None:
    """Of a kind that is not among the configured ones no scale is asked for, and it is said why; Deployments go on."""
    rollout = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "canary"}
    custom = deployment("canary") | {"kind": "Rollout", "apiVersion": "argoproj.io/v1alpha1"}
    lost = WorkloadId("tenant", "a")
    objects = (*engine(1), scaled_object("a", target=rollout), custom, pod("c-0", app="canary"))
    with cluster(*objects, other_targets=("rollouts.other.io",)) as it:
        it.sees(["engine-0"])
        said = "its kind must be among cluster.kubernetes.otherTargets, was rollouts.argoproj.io"
        until(lambda: it.look() and it.view.absent.get(lost) == said, "the reason")
        assert it.server.count("get", "/rollouts/") == 0
    with cluster(*objects, other_targets=("rollouts.argoproj.io",)) as it:
        it.sees(["c-0"], lost)


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ({"apiVersion": "argoproj.io/v1alpha1", "kind": "Experiment", "name": "x"}, "kind Experiment has no scale"),
        ({"apiVersion": "argoproj.io/v1alpha1", "kind": "Invention", "name": "x"}, "knows no kind Invention"),
        ({"apiVersion": "example.com/v9", "kind": "Invention", "name": "x"}, "knows no kind Invention"),
        ({"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "gone"}, "404"),
        ({"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": ".."}, "must be a name"),
        ({"name": "gone"}, "there is no Deployment tenant/gone"),
    ],
)
def test_a_target_that_cannot_be_scaled_is_absent_with_its_reason(target: dict[str, str], says: str) -> None:
    """What is not there, or has no scale, has no view; the reason is told and the other workloads are seen."""
    with cluster(*engine(1), scaled_object("lost", target=target)) as it:
        it.sees(["engine-0"])
        lost = WorkloadId("tenant", "lost")
        until(lambda: it.look() and says in it.view.absent.get(lost, ""), says)
        assert lost not in it.look().workloads
        assert ENGINE in it.look().workloads


def test_a_scale_that_cannot_be_read_any_more_runs_out() -> None:
    """The last scale of a target holds through a short fault, and is nothing when it is too old."""
    rollout = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "engine"}
    custom = deployment("engine", replicas=4) | {"kind": "Rollout", "apiVersion": "argoproj.io/v1alpha1"}
    with cluster(scaled_object("engine", target=rollout), custom, pod("engine-0")) as it:
        it.sees(["engine-0"])
        it.server.fail("status", path="/scale", status=500)
        it.clock.at_s += 100.0
        until(lambda: any("500" in held.problem for held in it.view._reader._held.values()))
        assert it.engine() is not None
        it.clock.at_s += 100.0
        assert it.engine() is None
        assert "500" in it.view.absent[ENGINE]
        it.server.heal()
        it.sees(["engine-0"])


def test_a_scaled_object_that_turns_invalid_keeps_its_last_settings() -> None:
    """The workload goes on as it was; the fault is a problem and a notice, once, and so is its end."""
    with cluster(*engine(1)) as it:
        it.sees(["engine-0"])
        before = it.workloads.current().workloads
        it.workloads.take_notices()
        it.put(scaled_object("engine", slotsPerReplica="none", most=50))
        until(lambda: ENGINE in it.workloads.claims().refused)
        assert it.workloads.current().workloads == before
        assert it.engine() is not None
        assert any("slotsPerReplica" in line for line in it.view.problems)
        (notice,) = it.workloads.take_notices()
        assert (notice.workload, notice.reason, notice.warning) == (ENGINE, "SettingsRefused", True)
        assert "the last valid settings stay" in notice.message
        it.put(scaled_object("engine", slotsPerReplica="none", most=60))
        it.put(scaled_object("engine", slotsPerReplica="16", most=60))
        until(lambda: not it.workloads.claims().refused)
        assert it.workloads.current().workloads[0].max_replicas == 60
        assert [n.reason for n in it.workloads.take_notices()] == ["SettingsAccepted"]


def test_a_scaled_object_that_is_deleted_goes() -> None:
    """With its object a workload leaves the policy and the view, its last settings too."""
    with cluster(*engine(1)) as it:
        it.sees(["engine-0"])
        it.remove(scaled_object("engine"))
        until(lambda: not it.workloads.current().workloads)
        assert it.look().workloads == {}
        it.put(scaled_object("engine", uid="another", slotsPerReplica="none"))
        until(lambda: ENGINE in it.workloads.claims().refused)
        assert it.workloads.current().workloads == ()


def test_settings_do_not_pass_to_an_object_of_the_same_name() -> None:
    """A ScaledObject that was deleted and made anew while nobody watched starts without settings."""
    with cluster(*engine(1)) as it:
        it.sees(["engine-0"])
        it.server.leave()
        until(lambda: it.view.progress["scaledobjects"].problem)
        it.remove(scaled_object("engine"))
        it.put(scaled_object("engine", uid="another", slotsPerReplica="none"))
        it.server.objects.compact()
        it.server.come_back()
        until(lambda: ENGINE in it.workloads.claims().refused)
        assert it.workloads.current().workloads == ()


def test_a_scaled_object_of_another_scaler_is_none_of_ours() -> None:
    """A trigger that names another address asks somebody else; one that comes to name us is ours from then on."""
    other = scaled_object("engine", address="other.keda:6000", slotsPerReplica="8")
    with cluster(other, deployment("engine"), pod("engine-0")) as it:
        assert it.workloads.current().workloads == ()
        assert it.view.progress["scaledobjects"].odd == 0
        it.put(scaled_object("engine", address="dns:///headway.headway:6000", slotsPerReplica="8"))
        it.sees(["engine-0"])
        it.put(other)
        until(lambda: not it.workloads.current().workloads)


def test_of_two_scaled_objects_on_one_target_the_older_has_the_say() -> None:
    """Two that scale one target would move it in turn; the younger one is refused, until the older one is gone."""
    young = scaled_object("young", target={"name": "engine"}, created="2026-06-01T00:00:00Z", slotsPerReplica="8")
    with cluster(*engine(1), young) as it:
        it.sees(["engine-0"])
        key = WorkloadId("tenant", "young")
        assert [w.name for w in it.workloads.current().workloads] == ["engine"]
        assert "which tenant/engine scales" in it.workloads.claims().refused[key][0]
        it.remove(scaled_object("engine"))
        it.sees(["engine-0"], key)
        assert it.workloads.claims().refused == {}


def hpa(name: str, **annotations: str) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {
            "name": name, "namespace": "tenant", "uid": f"uid-hpa-{name}", "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {f"headway.dev/{key}": value for key, value in annotations.items()},
        },
        "spec": {
            "minReplicas": 2, "maxReplicas": 20,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        },
    }  # fmt: skip


def test_an_annotated_hpa_is_observed_and_keda_s_own_are_not_even_asked_for() -> None:
    """An HPA with `headway.dev/mode: observe` is a workload in observe mode; without the annotation it is none."""
    kedas = hpa("kedas", mode="observe")
    kedas["metadata"]["labels"] = {"scaledobject.keda.sh/name": "kedas"}
    with cluster(hpa("engine", mode="observe", slotsPerReplica="8"), hpa("plain"), kedas, *engine(1)[1:]) as it:
        it.sees(["engine-0"])
        (settings,) = it.workloads.current().workloads
        assert (settings.name, settings.mode, settings.min_replicas, settings.max_replicas) == (
            "engine",
            Mode.OBSERVE,
            2,
            20,
        )
        kedas["status"] = {"currentReplicas": 3}
        it.put(kedas)
        it.put(hpa("engine"))
        until(lambda: not it.workloads.current().workloads)
        assert it.view.progress["horizontalpodautoscalers"].events == 1


def test_without_keda_an_hpa_can_be_observed() -> None:
    """Where no ScaledObjects exist as a kind the view is whole without them; without the right to them it is not."""
    missing = {"path": "keda.sh", "status": 404, "reason": "NotFound"}
    with cluster(hpa("engine", mode="observe", slotsPerReplica="8"), *engine(1)[1:],
                 prepare=lambda server: server.fail("status", **missing)) as it:  # fmt: skip
        it.sees(["engine-0"])
    forbidden = missing | {"status": 403, "reason": "Forbidden"}
    with cluster(*engine(1), synced=False, prepare=lambda server: server.fail("status", **forbidden)) as it:
        until(lambda: it.view.progress["scaledobjects"].refused)
        with pytest.raises(SourceError, match="403"):
            it.look()


def test_keda_s_status_patches_cost_no_new_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """KEDA patches each ScaledObject twice a minute; a manifest of the same generation is not read again."""
    first = scaled_object("engine", slotsPerReplica="8")
    first["metadata"]["generation"] = 1
    with cluster(first, *engine(1)[1:]) as it:
        it.sees(["engine-0"])
        read: list[object] = []
        plain = it.workloads._settings_of

        def counted(manifest: Mapping[str, Any]) -> LiveWorkload | None:
            read.append(manifest)
            return plain(manifest)

        monkeypatch.setattr(it.workloads, "_settings_of", counted)
        events = it.view.progress["scaledobjects"].events
        for minute in range(5):
            it.put(first | {"status": {"lastActiveTime": f"2026-01-01T00:0{minute}:00Z"}})
        until(lambda: it.view.progress["scaledobjects"].events == events + 5)
        assert read == []
        second = scaled_object("engine", slotsPerReplica="9")
        second["metadata"]["generation"] = 2
        it.put(second)
        until(lambda: it.workloads.current().workloads[0].slots_per_replica == 9)


def test_only_the_namespaces_given_are_watched() -> None:
    """Where Headway may see some namespaces only, it asks for these and no others."""
    elsewhere = scaled_object("engine", namespace="neighbour", slotsPerReplica="8")
    with cluster(*engine(1), elsewhere, namespaces=("tenant", "second")) as it:
        it.sees(["engine-0"])
        assert [w.namespace for w in it.workloads.current().workloads] == ["tenant"]
        assert it.server.count("", "/api/v1/pods") == 0
        assert it.server.count("", "neighbour") == 0
        it.put(pod("engine-1"))
        it.sees(["engine-0", "engine-1"])


SECOND = WorkloadId("second", "engine")
BARRED = {"path": "/namespaces/second/", "status": 403, "reason": "Forbidden"}


def two_tenants() -> tuple[dict[str, Any], ...]:
    """Return a workload in each of the namespaces `tenant` and `second`."""
    second = deployment("engine", namespace="second"), pod("other-0", namespace="second")
    return *engine(1), scaled_object("engine", namespace="second", slotsPerReplica="8"), *second


def test_a_namespace_without_rights_does_not_blind_the_others() -> None:
    """From the start or later, its workloads alone are absent, with the reason; they return with the right."""
    with cluster(
        *two_tenants(), namespaces=("tenant", "second"), prepare=lambda server: server.fail("status", **BARRED)
    ) as it:
        it.sees(["engine-0"])
        assert it.view.ready
        assert set(it.view.out_of_sight) == {"second"}
        assert any(line.startswith("pods of second: ") and "403" in line for line in it.view.problems)
        it.server.heal()
        it.sees(["other-0"], SECOND)
        assert it.view.out_of_sight == {}

        it.server.fail("status", **BARRED)
        it.server.cut_watches()
        second = [name for name in it.view.progress if name.endswith(" of second")]
        until(lambda: all(it.view.progress[name].forbidden >= BARRED_AFTER for name in second), "the refusals")
        until(lambda: it.look() and "403" in it.view.absent.get(SECOND, ""), "the workload to be absent")
        it.clock.at_s += 600.0
        it.bookmark()
        assert it.age_s() < 1.0  # whatever is not seen of the second namespace
        assert it.engine() is not None
        assert it.server.count("get", "/namespaces/tenant/") == 0  # targets there are still watched, not read singly
        it.server.heal()
        it.sees(["other-0"], SECOND)


def test_a_first_refusal_takes_nothing_out_of_sight() -> None:
    """A server that has just started may refuse what it has not read the roles of yet: nothing is done upon one 403."""
    slow = replace(QUICK, backoff_s=3600.0, refused_max_s=3600.0)
    with cluster(
        *two_tenants(),
        namespaces=("tenant", "second"),
        pace=slow,
        synced=False,
        prepare=lambda server: server.fail("status", **BARRED),
    ) as it:
        until(lambda: it.view.progress["pods of second"].forbidden == 1)
        assert it.view.out_of_sight == {}
        with pytest.raises(SourceError, match="namespaces/second/pods"):
            it.look()


def test_without_the_right_to_any_namespace_there_is_no_view() -> None:
    """Where all are out of sight there is no view, rather than one of nothing."""
    everywhere = BARRED | {"path": "/pods"}
    with cluster(
        *two_tenants(),
        namespaces=("tenant", "second"),
        synced=False,
        prepare=lambda server: server.fail("status", **everywhere),
    ) as it:
        until(
            lambda: all(it.view.progress[f"pods of {name}"].forbidden >= BARRED_AFTER for name in ("tenant", "second"))
        )
        with pytest.raises(SourceError, match="403 Forbidden"):
            it.look()
        assert not it.view.ready


def test_where_the_right_to_deployments_is_taken_away_the_view_does_not_age() -> None:
    """What was listed of them is no longer believed; their scales are read one by one from then on."""
    apps = {
        "resources": [{"name": "deployments", "kind": "Deployment"}, {"name": "deployments/scale", "kind": "Scale"}]
    }
    with cluster(*engine(1)) as it:
        it.sees(["engine-0"])
        it.server.documents["/apis/apps/v1"] = apps
        it.server.fail("status", verb="list", path="/apis/apps/v1/deployments", status=403, reason="Forbidden")
        it.server.fail("status", verb="watch", path="/apis/apps/v1/deployments", status=403, reason="Forbidden")
        it.server.cut_watches()
        until(lambda: it.view.progress["deployments"].forbidden >= BARRED_AFTER)
        it.clock.at_s += 600.0
        it.bookmark()
        assert it.age_s() < 1.0
        it.put(deployment("engine", replicas=4))
        until(lambda: (view := it.engine()) and view.counts.spec == 4, "the scale")


def test_asking_costs_the_api_server_nothing() -> None:
    """Snapshots are made of what the watches said: 200 of them are no request at all."""
    with cluster(*engine(2)) as it:
        it.sees(["engine-0", "engine-1"])
        it.server.forget()
        for _ in range(200):
            it.look()
        assert it.server.count() == 0


def test_it_ends_at_once_whatever_it_is_doing() -> None:
    """Closing ends watches that wait for events: no thread is left."""
    with cluster(*engine(1), pace=QUICK) as it:
        it.sees(["engine-0"])
        it.view.close()
        names = {thread.name for thread in threading.enumerate()}
        assert not {name for name in names if name.startswith(("follow-", "read-scales"))}


def test_a_replica_costs_what_its_pod_template_asks_for() -> None:
    """The template's GPUs are the least that a replica costs; when it changes, only its own workload's settings do."""
    other = WorkloadId("tenant", "other")
    more = (scaled_object("other", gpusPerReplica="16"), deployment("other", gpus=8))
    with cluster(scaled_object("engine", gpusPerReplica="0.5"), deployment("engine", gpus=8), *more) as it:
        until(lambda: it.look() and it.settings().gpus_per_replica == 8.0, "the template's GPUs")
        kept = it.settings(other)
        assert kept.gpus_per_replica == 16.0
        it.put(deployment("engine", gpus=4))
        until(lambda: it.look() and it.settings().gpus_per_replica == 4.0, "the new template's GPUs")
        assert it.settings(other) is kept


def test_of_a_kind_whose_template_is_not_watched_a_pod_tells_the_gpus() -> None:
    """A replica costs what its pods ask for, and as much while there is no pod."""
    rollout = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "engine"}
    member = pod("engine-0", gpus=2)
    target = {**deployment("engine"), "apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout"}
    with cluster(scaled_object("engine", target=rollout), target, member) as it:
        until(lambda: it.engine() and it.settings().gpus_per_replica == 2.0, "the pod's GPUs")
        it.remove(member)
        it.sees([])
        assert it.settings().gpus_per_replica == 2.0
