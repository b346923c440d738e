"""The rights that `headway rights` prints: each request of Headway's parts is granted, and each right is used."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from scaler.adapters.kubernetes.events import KubernetesNotices
from scaler.adapters.kubernetes.keda import CRD
from scaler.adapters.kubernetes.lease import LeaseLeadership, LeaseSettings
from scaler.adapters.kubernetes.rights import manifests
from scaler.cli import main
from scaler.config.validate import validate_process
from scaler.core.values import WorkloadId
from scaler.ports import Notice
from tests.api_rig import config_map_store, connected
from tests.api_server_double import ApiServerDouble
from tests.cluster_view_rig import cluster, engine, until
from tests.config_builders import EXAMPLES, cluster_config
from tests.kubernetes_objects import deployment, pod, scaled_object
from tests.rbac_judge import Ask, Judge
from tests.scaler_rig import CHAT, START_S, ManualClock, answer, stored

CONTROLLER, SCALER = "headway-controller", "headway-scaler"
CONFIG = str(EXAMPLES / "headway-kubernetes.yaml")
JUDGE = Judge.of(manifests(validate_process(cluster_config(), base=Path("/"))))
Used = set[tuple[str, str]]  # verb and resource


def used(account: str, asked: Sequence[Ask]) -> Used:
    """Assert that an account may ask all of this; return what it used."""
    for ask in asked:
        assert JUDGE.allows(account, ask), ask
    return {(ask.verb, "*/scale" if ask.resource.endswith("/scale") else ask.resource) for ask in asked}


def granted(account: str, *, everywhere: bool) -> Used:
    """Return what an account was granted in the whole cluster, or in single namespaces."""
    return {
        (verb, resource)
        for place, rule in JUDGE.rules(account)
        if (not place) is everywhere
        for verb in rule["verbs"]
        for resource in rule["resources"]
    }


def requests_of(server: ApiServerDouble, selected: str = "") -> list[Ask]:
    """Return what the server was asked but for API discovery, of which everybody has a right."""
    return [
        Ask.of_path(verb, path, selected if verb in {"list", "watch"} else "")
        for verb, path in server.requests
        if path not in server.documents
    ]


async def test_a_view_and_its_events_use_the_rights_in_the_whole_cluster() -> None:
    """Pods, targets, ScaledObjects, HPAs, nodes, a scale of another kind, KEDA's version, an Event and its count."""
    rollout = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "canary"}
    custom = deployment("canary") | {"kind": "Rollout", "apiVersion": "argoproj.io/v1alpha1"}
    asking = scaled_object("a", target=rollout)
    asking["spec"]["advanced"] = {"horizontalPodAutoscalerConfig": {"behavior": {"scaleUp": {"tolerance": 0}}}}
    with cluster(*engine(1), asking, custom, pod("c-0", app="canary")) as it:
        it.sees(["c-0"], WorkloadId("tenant", "a"))
        until(lambda: it.server.count("get", CRD), "the question for KEDA's version")
        until(lambda: it.server.count("get", "keda-hpa-"), "a look at an HPA that KEDA made")
        notices = KubernetesNotices(it.api, "pod-a")
        for after_s in (0.0, 60.0):
            await notices.post([Notice(CHAT, "EvidenceStopped", "none")], START_S + after_s)
        assert used(CONTROLLER, requests_of(it.server)) == granted(CONTROLLER, everywhere=True)


async def test_the_election_and_the_plan_use_the_rights_in_headways_namespace() -> None:
    """A controller that acquires and renews its Lease, and publishes two plans, uses its rights, and no scaler's."""
    with ApiServerDouble() as server, connected(server, ManualClock()) as api, config_map_store(api) as store:
        leadership = LeaseLeadership(api, LeaseSettings("headway"), "ours", stored_epoch=store.stored_epoch)
        for sequence in (1, 2):
            leadership.attempt()
            item = stored({CHAT: answer(sequence)}, version=(1, sequence), at_s=START_S)
            await store.publish(item.plan, item.heartbeat)
            await store.load()
        assert used(CONTROLLER, requests_of(server)) == granted(CONTROLLER, everywhere=False)


async def test_a_scaler_uses_the_rights_that_it_has() -> None:
    """It lists and watches the index by name, and reads shards."""
    with ApiServerDouble() as server, connected(server, ManualClock()) as api:
        with config_map_store(api) as writer:
            item = stored({CHAT: answer(3)}, version=(1, 1), at_s=START_S)
            await writer.publish(item.plan, item.heartbeat)
        server.forget()
        with config_map_store(api, "scaler") as reader:
            _, found = await reader.load_if_changed(object())
            assert found == item
            until(lambda: server.count("watch"), "the watch of the index")
            assert used(SCALER, requests_of(server, "headway-plan")) == granted(SCALER, everywhere=False)


def test_the_command_prints_what_kubectl_applies(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """YAML goes to stdout; with `--json` the same objects are a List, and with `-` only that is on stdout."""
    file = tmp_path / "rights.json"
    assert main(["rights", "--config", CONFIG, "--json", str(file)]) == 0
    printed, listed = list(yaml.safe_load_all(capsys.readouterr().out)), json.loads(file.read_text())
    assert {key: listed[key] for key in listed if key != "items"} == {"schema": 1, "apiVersion": "v1", "kind": "List"}
    assert printed == listed["items"] == list(JUDGE.manifests)
    assert main(["rights", "--config", CONFIG, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == listed


def test_the_command_takes_a_namespace_and_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    """The accounts are called and placed as it was said."""
    main(["rights", "--config", CONFIG, "--namespace", "infra", "--name", "canary"])
    accounts: list[Any] = [it for it in yaml.safe_load_all(capsys.readouterr().out) if it["kind"] == "ServiceAccount"]
    places = [(it["metadata"]["namespace"], it["metadata"]["name"]) for it in accounts]
    assert places == [("infra", "canary-controller"), ("infra", "canary-scaler")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--namespace", "No"], "headway rights: --namespace must be at most 63 of a-z, 0-9 and '-', was 'No'\n"),
        (["--config", "none.yaml"], "headway rights: none.yaml cannot be used\nnone.yaml: must be a readable file"),
    ],
)
def test_bad_input_is_refused(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 2, and what was wrong."""
    assert main(["rights", "--config", CONFIG, *arguments]) == 2
    assert capsys.readouterr().err.startswith(message)


def test_a_configuration_without_an_api_server_needs_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is on stdout, so that nothing can be applied by mistake, and it says so on stderr."""
    file = tmp_path / "headway.yaml"
    file.write_text("planStore: { file: plan.json }\n")
    assert main(["rights", "--config", str(file)]) == 0
    assert capsys.readouterr() == ("", f"{file} needs none: it has Headway ask no API server\n")
