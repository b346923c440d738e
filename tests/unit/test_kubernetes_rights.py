"""The rights of the plan store, the Lease and Events: as few as there can be."""

from scaler.adapters.kubernetes.rights import RULES_EVENTS, RULES_STORES, rules_of_controller, rules_of_scaler


def test_a_scaler_reads_the_plan_only() -> None:
    """It has no verb that changes anything, and each is of a named object."""
    rules = rules_of_scaler(shards=3)
    assert {verb for rule in rules for verb in rule.verbs} == {"get", "list", "watch"}
    assert all(rule.names for rule in rules)
    assert rules[1].names == ("headway-plan", "headway-plan-0", "headway-plan-1", "headway-plan-2")


def test_a_controller_deletes_nothing() -> None:
    """It changes named objects; only what it creates cannot be named."""
    rules = rules_of_controller(plan="p", shards=1, lease="l")
    assert {verb for rule in rules for verb in rule.verbs} == {"get", "update", "create"}
    assert all(bool(rule.names) is (rule.verbs != ("create",)) for rule in rules)


def test_no_rule_is_wider_than_it_looks() -> None:
    """There is no wildcard and no Secret in any, and manifests say what the rules say."""
    for rule in RULES_STORES:
        manifest = rule.to_manifest()
        assert "*" not in {*manifest["resources"], *manifest["verbs"], *manifest["apiGroups"]}
        assert "secrets" not in manifest["resources"]
        assert manifest.get("resourceNames", []) == list(rule.names)
    assert RULES_EVENTS[0].to_manifest() == {
        "apiGroups": ["events.k8s.io"],
        "resources": ["events"],
        "verbs": ["create", "patch"],
    }
