"""The rights that a configuration needs: as few as there can be, each where it is needed."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from scaler.adapters.kubernetes.rights import Installation, grants, manifests, manifests_text
from scaler.config.problems import ConfigurationError
from scaler.config.process import ProcessConfig
from scaler.config.validate import validate_process
from tests.config_builders import cluster_config
from tests.rbac_judge import Ask, Judge

GOLDEN = Path(__file__).parents[2] / "golden" / "rights-of-headway-kubernetes.yaml"
CONTROLLER, SCALER = "headway-controller", "headway-scaler"
PODS, NODES = Ask("list", "", "pods"), Ask("watch", "", "nodes")
PLAN = {"namespace": "headway", "resource": "configmaps", "group": ""}


def config(**changes: Any) -> ProcessConfig:
    """Return the example's configuration with some top-level keys changed; None removes one."""
    return validate_process(cluster_config(**changes), base=Path("/"))


def judge(at: Installation | None = None, **changes: Any) -> Judge:
    return Judge.of(manifests(config(**changes), at))


def in_namespace(ask: Ask, namespace: str) -> Ask:
    return Ask(ask.verb, ask.group, ask.resource, namespace, ask.name)


def test_the_rights_of_the_example_are_the_golden_ones() -> None:
    """`headway rights --config examples/headway-kubernetes.yaml` prints the file, and kubectl would read the same."""
    assert manifests_text(config()) + "\n" == GOLDEN.read_text()
    assert list(yaml.safe_load_all(GOLDEN.read_text())) == manifests(config())


def test_a_name_that_kubectl_would_take_for_a_number_or_a_truth_value_is_quoted() -> None:
    """Names of namespaces made of a commit, say: kubectl reads more numbers and truth values than PyYAML quotes."""
    odd = ("y", "n", "08", "1e3", "0o17", "12e5")
    text = manifests_text(config(cluster={"kubernetes": {"namespaces": list(odd)}}))
    assert all(f"namespace: '{name}'" in text for name in odd)
    assert not any(f"namespace: {name}" in text for name in odd)


def test_there_is_no_wildcard_but_for_scales() -> None:
    """Nobody has all verbs, a whole group, a Secret, or anything that runs; `*/scale` may be read."""
    found = [rule for it in manifests(config()) for rule in it.get("rules", [])]
    wide = [rule for rule in found if "*" in {*rule["apiGroups"], *rule["verbs"]} or "*" in "".join(rule["resources"])]
    assert wide == [{"apiGroups": ["*"], "resources": ["*/scale"], "verbs": ["get"]}]
    named = {name for rule in found for name in rule["resources"]}
    assert not {name for name in named if name.startswith("secrets") or name.endswith(("/exec", "/log", "/proxy"))}


def test_scales_of_the_kinds_that_may_be_scaled() -> None:
    """Where it is configured which, there is a rule for each group and no wildcard; where there is none, no right."""
    kinds = ["rollouts.argoproj.io", "replicationcontrollers", "leaderworkersets.leaderworkerset.x-k8s.io"]
    found = judge(cluster={"kubernetes": {"otherTargets": kinds}})
    assert [(rule["apiGroups"], rule["resources"], rule["verbs"]) for rule in _scales(found)] == [
        ([""], ["replicationcontrollers/scale"], ["get"]),
        (["argoproj.io"], ["rollouts/scale"], ["get"]),
        (["leaderworkerset.x-k8s.io"], ["leaderworkersets/scale"], ["get"]),
    ]
    assert not _scales(judge(cluster={"kubernetes": {"otherTargets": []}}))


def _scales(found: Judge) -> list[Any]:
    return [rule for _, rule in found.rules(CONTROLLER) if "/scale" in "".join(rule["resources"])]


@pytest.mark.parametrize("kind", ["*", "*.argoproj.io", "Rollout", "rollouts/scale", "", "rollouts.", "apps/v1"])
def test_a_kind_that_would_widen_a_rule_is_refused(kind: str) -> None:
    """A wildcard or a subresource cannot get into the rules by the configuration."""
    with pytest.raises(ConfigurationError, match=r"otherTargets.* must be "):
        config(cluster={"kubernetes": {"otherTargets": [kind]}})


def test_a_controller_changes_its_plan_its_lease_and_events() -> None:
    """It deletes nothing, and what it updates is named; a create cannot be."""
    writes = [
        (tuple(rule["resources"]), verb, tuple(rule.get("resourceNames", ()))[:1])
        for _, rule in judge().rules(CONTROLLER)
        for verb in rule["verbs"]
        if verb not in {"get", "list", "watch"}
    ]
    assert sorted(writes) == [
        (("configmaps",), "create", ()),
        (("configmaps",), "update", ("headway-plan",)),
        (("events",), "create", ()),
        (("events",), "patch", ()),
        (("leases",), "create", ()),
        (("leases",), "update", (CONTROLLER,)),
    ]


@pytest.mark.parametrize("namespaces", [[], ["team-a"]])
def test_a_scaler_reads_the_plan_and_nothing_else(namespaces: list[str]) -> None:
    """Its rules are of named ConfigMaps in one namespace: no pod, no Secret, no other ConfigMap, and no write."""
    found = judge(cluster={"kubernetes": {"namespaces": namespaces}})
    assert {place for place, _ in found.rules(SCALER)} == {"headway"}
    assert {verb for _, rule in found.rules(SCALER) for verb in rule["verbs"]} == {"get", "list", "watch"}
    for verb in ("get", "list", "watch"):
        assert found.allows(SCALER, Ask(verb, name="headway-plan", **PLAN))
        assert not found.allows(SCALER, Ask(verb, name="other", **PLAN))
        assert not found.allows(SCALER, Ask(verb, **PLAN))  # all of them
        assert not found.allows(SCALER, Ask(verb, "", "secrets", "headway"))
        assert not found.allows(SCALER, Ask(verb, "", "pods", "team-a"))
    assert not found.allows(SCALER, Ask("update", name="headway-plan", **PLAN))


def test_all_namespaces_are_watched_where_none_is_named() -> None:
    """Then one ClusterRole, bound once, holds everywhere."""
    found = judge()
    assert found.allows(CONTROLLER, PODS)
    assert found.allows(CONTROLLER, in_namespace(PODS, "anywhere"))
    assert found.allows(CONTROLLER, NODES)


def test_named_namespaces_and_no_others() -> None:
    """What has a namespace is granted in each of those; nodes have none, and Events go where the workloads are."""
    found = judge(cluster={"kubernetes": {"namespaces": ["team-a", "team-b", "team-a"]}})
    scale = Ask("get", "argoproj.io", "rollouts/scale", name="chat")
    event = Ask("create", "events.k8s.io", "events")
    for ask in (PODS, scale, event):
        assert [found.allows(CONTROLLER, in_namespace(ask, it)) for it in ("team-a", "team-b")] == [True, True]
        assert [found.allows(CONTROLLER, in_namespace(ask, it)) for it in ("team-c", "headway", "")] == [False] * 3
    assert found.allows(CONTROLLER, NODES)
    names = [(it["kind"], it["metadata"]["name"], it["metadata"].get("namespace")) for it in found.manifests]
    assert len(set(names)) == len(names)


def test_watching_fewer_namespaces_narrows_what_was_applied_before() -> None:
    """The objects that granted all namespaces are the ones that now grant nodes alone: applying takes it away."""
    every, some = judge(), judge(cluster={"kubernetes": {"namespaces": ["team-a"]}})
    shared = {(it["kind"], it["metadata"]["name"]) for it in every.manifests}
    assert shared <= {(it["kind"], it["metadata"]["name"]) for it in some.manifests}


@pytest.mark.parametrize(
    ("change", "gone"),
    [
        ({"events": None}, {("events.k8s.io", "events")}),
        ({"leadership": None}, {("coordination.k8s.io", "leases")}),
        ({"planStore": {"file": "plan.json"}}, {("", "configmaps")}),
    ],
)
def test_what_is_not_used_needs_no_right(change: dict[str, Any], gone: set[tuple[str, str]]) -> None:
    """Without Events, a Lease or a plan in ConfigMaps there is no rule about them, and all others stay."""
    assert _resources(judge()) - _resources(judge(**change)) == gone


def _resources(found: Judge) -> set[tuple[str, str]]:
    return {
        (group, resource)
        for it in found.manifests
        for rule in it.get("rules", [])
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def test_a_view_from_a_file_needs_no_right_to_look() -> None:
    """Then a controller needs those to its plan and its Lease only."""
    found = config(cluster={"file": "cluster.json"}, events=None)
    assert {resource for grant in grants(found) for rule in grant.rules for resource in rule.resources} == {
        "configmaps",
        "leases",
    }


def test_a_file_without_a_cluster_is_a_scalers() -> None:
    """No controller runs on it, so there is neither an account nor a right for one."""
    found = judge(cluster=None, events=None)
    assert [it["metadata"]["name"] for it in found.manifests if it["kind"] == "ServiceAccount"] == [SCALER]
    assert not list(found.rules(CONTROLLER))


def test_files_alone_need_nothing() -> None:
    """Where no API server is asked there is nothing to grant, and no account either."""
    files = config(cluster={"file": "c.json"}, planStore={"file": "p.json"}, leadership=None, events=None)
    assert (manifests(files), manifests_text(files)) == ([], "")


def test_fewer_shards_need_no_other_rights() -> None:
    """The plan in force may be in more shards than are configured now, and must be readable to begin."""
    few, many = ({"configMap": {"shards": shards}} for shards in (1, 64))
    assert manifests(config(planStore=few)) == manifests(config(planStore=many))
    assert judge(planStore=few).allows(SCALER, Ask("get", name="headway-plan-63", **PLAN))


def test_plan_and_lease_are_granted_where_they_are() -> None:
    """Each in its own namespace and by its own name; the accounts are beside the plan unless it is said where."""
    changes: dict[str, Any] = {
        "planStore": {"configMap": {"namespace": "plans", "name": "p"}},
        "leadership": {"lease": {"namespace": "leases", "name": "l"}},
    }
    for at, home in ((None, "plans"), (Installation("pods"), "pods")):
        found = judge(at, **changes)
        accounts = [it for it in found.manifests if it["kind"] == "ServiceAccount"]
        assert {it["metadata"]["namespace"] for it in accounts} == {home}
        assert found.allows(CONTROLLER, Ask("update", "", "configmaps", "plans", "p-0"), of=home)
        assert found.allows(CONTROLLER, Ask("update", "coordination.k8s.io", "leases", "leases", "l"), of=home)
        assert not found.allows(CONTROLLER, Ask("get", "", "configmaps", "leases", "p"), of=home)
        assert not found.allows(CONTROLLER, Ask("get", "coordination.k8s.io", "leases", "plans", "l"), of=home)


def test_two_installations_have_nothing_in_common() -> None:
    """Neither writes over what the other was granted, by another namespace or, in one namespace, by another name."""
    homes = (Installation("headway"), Installation("staging"), Installation("headway", "canary"))
    sets = [
        {(it["kind"], it["metadata"]["name"], it["metadata"].get("namespace")) for it in judge(at).manifests}
        for at in homes
    ]
    assert len(set.union(*sets)) == sum(map(len, sets))


@pytest.mark.parametrize("bad", ["", "Team", "a.b", "-a", "a-", "a/b", "a\n", "x" * 64])
@pytest.mark.parametrize("field", ["namespace", "name"])
def test_a_name_that_is_none_is_refused(field: str, bad: str) -> None:
    """What would not be a name in the cluster, or could hold more than one, is refused with what is allowed."""
    with pytest.raises(ValueError, match=f"^{field} must be at most 63 of a-z, 0-9 and '-', was "):
        Installation(**{"namespace": "headway", field: bad})
