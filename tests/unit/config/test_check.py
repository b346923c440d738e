import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from scaler.config.check import check_files
from scaler.config.findings import CheckDocument, CheckReport, Finding, Severity
from scaler.config.load import ConfigErrors, load_config, policy_of
from scaler.config.process import Role

EXAMPLES = Path(__file__).parents[3] / "examples"
HPA = "spec.advanced.horizontalPodAutoscalerConfig.behavior"
TRIGGER = "spec.triggers[0]"
METADATA = f"{TRIGGER}.metadata"


@pytest.fixture
def good() -> dict[str, Any]:
    """Return the example manifest, to be spoiled by a test."""
    manifest: dict[str, Any] = yaml.safe_load((EXAMPLES / "scaledobject.yaml").read_text())
    return manifest


def check(tmp_path: Path, *documents: dict[str, Any]) -> CheckReport:
    path = tmp_path / "manifests.yaml"
    path.write_text(yaml.safe_dump_all(documents, sort_keys=False))
    return check_files([path])


def spoil(manifest: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    """Set a dotted key of the example; None removes it. `trigger` and `hpa` are short for the way there."""
    *way, last = key.split(".")
    place: Any = manifest["spec"]
    if way[:1] == ["trigger"]:
        place, way = manifest["spec"]["triggers"][0], way[1:]
    elif way[:1] == ["hpa"]:
        place, way = manifest["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"], way[1:]
    elif way[:1] == ["object"]:
        place, way = manifest, way[1:]
    for part in way:
        place = place.setdefault(part, {})
    if value is None:
        del place[last]
    else:
        place[last] = value
    return manifest


def test_the_shipped_examples_are_right() -> None:
    """The example configuration and the example manifest pass without a finding, alone and together."""
    examples = [EXAMPLES / "headway.yaml", EXAMPLES / "scaledobject.yaml"]
    assert check_files(examples).findings == ()
    assert check_files(examples[1:]).findings == ()
    assert check_files(examples).text() == "0 errors, 0 warnings in 2 files"


@pytest.mark.parametrize("role", Role)
def test_the_example_configuration_serves_every_role(role: Role) -> None:
    """Each role can start from the example, and its workloads are those of the file."""
    policy = policy_of(load_config(EXAMPLES / "headway.yaml", role=role))
    assert [(w.namespace, w.name) for w in policy.workloads] == [("demo", "chat"), ("demo", "thumbnails")]


@pytest.mark.parametrize(
    ("key", "value", "where", "message"),
    [
        ("object.metadata.name", "x" * 55, "metadata.name", "must have at most 54 characters"),
        ("object.apiVersion", "keda.sh/v1", "apiVersion", "must be keda.sh/v1alpha1, was 'keda.sh/v1'"),
        ("idleReplicaCount", 1, "spec.idleReplicaCount", "must be 0 or not given, was 1"),
        ("minReplicaCount", -1, "spec.minReplicaCount", "must be a whole number >= 0, was -1"),
        ("minReplicaCount", 41, "spec.minReplicaCount", "must be <= maxReplicaCount (40), was 41"),
        ("maxReplicaCount", "40", "spec.maxReplicaCount", "must be a whole number >= 1, was '40'"),
        ("fallback.failureThreshold", 9, "spec.fallback.failureThreshold", "must be a whole number >= 10, was 9"),
        ("fallback.behavior", None, "spec.fallback.behavior", "must be currentReplicasIfHigher, was 'static'"),
        (
            "fallback.behavior",
            "currentReplicasIfLower",
            "spec.fallback.behavior",
            "must be currentReplicasIfHigher, was 'currentReplicasIfLower'",
        ),
        ("advanced.scalingModifiers", {"formula": "a"}, "spec.advanced.scalingModifiers", "must not be set"),
        ("trigger.metricType", "Value", f"{TRIGGER}.metricType", "must be AverageValue, was 'Value'"),
        ("trigger.useCachedMetrics", True, f"{TRIGGER}.useCachedMetrics", "must be false"),
        ("trigger.metadata.scalerAddress", None, f"{METADATA}.scalerAddress", "must be HOST:PORT"),
        ("trigger.metadata.scalerAddress", "", f"{METADATA}.scalerAddress", "must be HOST:PORT"),
        ("trigger.metadata.scalerAddress", "headway", f"{METADATA}.scalerAddress", "must end in :PORT"),
        ("trigger.metadata.scalerAddressFromEnv", "A", f"{METADATA}.scalerAddressFromEnv", "must be scalerAddress"),
        ("trigger.metadata.enableTLS", "yes", f"{METADATA}.enableTLS", 'must be "true" or "false", was \'yes\''),
        ("trigger.metadata.slotsPerReplica", 64, f"{METADATA}.slotsPerReplica", "must be text in quotes, was 64"),
        ("trigger.metadata.slo", "0", f"{METADATA}.slo", "must be a duration > 0"),
        ("trigger.metadata.engine", "rabbitmq", f"{METADATA}.source", "must be the name of the queue with engine"),
        ("trigger.metadata.minReplicas", "50", f"{METADATA}.minReplicas", "must be <= the ScaledObject's max"),
        ("object.metadata.name", "", "metadata.name", "must be given"),
        ("scaleTargetRef.name", None, "spec.scaleTargetRef.name", "must be given"),
        ("maxReplicaCount", 10**9, "spec.maxReplicaCount", "must be a whole number 1 .. 1000000, was 1000000000"),
        ("pollingInterval", 0, "spec.pollingInterval", "must be a whole number >= 1, was 0"),
        ("pollingInterval", "15", "spec.pollingInterval", "must be a whole number >= 1, was '15'"),
        (
            "advanced.horizontalPodAutoscalerConfig.name",
            "x" * 64,
            "spec.advanced.horizontalPodAutoscalerConfig.name",
            "must have at most 63 characters, had 64",
        ),
    ],
)
def test_each_guard_finds_its_error(
    tmp_path: Path, good: dict[str, Any], key: str, value: Any, where: str, message: str
) -> None:
    """One thing spoiled in the example is one error, at its key."""
    (finding,) = check(tmp_path, spoil(good, key, value)).findings
    assert (finding.severity, finding.key) == (Severity.ERROR, where)
    assert finding.message.startswith(message)


@pytest.mark.parametrize(
    ("key", "value", "where", "message"),
    [
        ("maxReplicaCount", None, "spec.maxReplicaCount", "must be given: KEDA takes 100"),
        ("fallback", None, "spec.fallback", "must be given where minReplicaCount is above 0"),
        ("trigger.type", "external-push", f"{TRIGGER}.type", "must be external where minReplicaCount is above 0"),
        ("trigger.metadata.sloo", "1s", f"{METADATA}.sloo", "is not a known key; did you mean slo?"),
        ("trigger.metadata.metricType", "Value", f"{METADATA}.metricType", "has no effect here"),
        ("trigger.metadata.caCert", "pem", f"{METADATA}.caCert", "has no effect here and is sent as text"),
        ("trigger.metadata.passwordFromEnv", "P", f"{METADATA}.passwordFromEnv", "is sent with its value"),
        ("hpa.scaleUp.tolerance", None, f"{HPA}.scaleUp.tolerance", "must be 0, was not given, which is 0.1"),
        ("hpa.scaleDown.tolerance", 0.1, f"{HPA}.scaleDown.tolerance", "must be 0, was 0.1"),
        (
            "hpa.scaleDown.stabilizationWindowSeconds",
            None,
            f"{HPA}.scaleDown.stabilizationWindowSeconds",
            "must be 0, was not given, which is 300",
        ),
        (
            "hpa.scaleUp.stabilizationWindowSeconds",
            60,
            f"{HPA}.scaleUp.stabilizationWindowSeconds",
            "must be 0, was 60",
        ),
        ("hpa.scaleUp.policies", None, f"{HPA}.scaleUp.policies", "must let 38 pods start at once"),
        ("hpa.scaleUp.selectPolicy", "Disabled", f"{HPA}.scaleUp.selectPolicy", "must not be Disabled"),
        ("pollingInterval", 1, "spec.pollingInterval", "must be >= 5, was 1"),
        (
            "object.metadata.annotations",
            {"headway.dev/mode": "observe"},
            "metadata.annotations.headway.dev/mode",
            "must not stay: KEDA gets an error",
        ),
    ],
)
def test_each_guard_finds_its_warning(
    tmp_path: Path, good: dict[str, Any], key: str, value: Any, where: str, message: str
) -> None:
    """What is worth a look and breaks nothing is a warning."""
    (finding,) = check(tmp_path, spoil(good, key, value)).findings
    assert (finding.severity, finding.key) == (Severity.WARNING, where)
    assert finding.message.startswith(message)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hpa.scaleUp.tolerance", "0"),
        ("hpa.scaleUp.stabilizationWindowSeconds", None),  # the HPA's default up is 0
        ("idleReplicaCount", 0),
        ("fallback.behavior", "currentReplicas"),
        ("trigger.metricType", None),
        ("trigger.metadata.enableTLS", "T"),
        ("trigger.metadata.scalerAddress", "dns:///[::1]:6000"),
        ("pollingInterval", None),
        ("pollingInterval", 300),
        ("object.metadata.namespace", None),
        ("trigger.metadata.engine", "profile:own"),
        ("trigger.metadata.source", "chat"),
    ],
)
def test_what_works_is_not_complained_of(tmp_path: Path, good: dict[str, Any], key: str, value: Any) -> None:
    """Other spellings and settings that work as well give no finding."""
    assert check(tmp_path, spoil(good, key, value)).findings == ()


def test_zero_needs_a_source_that_sees_demand_there(tmp_path: Path, good: dict[str, Any]) -> None:
    """At minReplicaCount 0, given or not, an engine alone is an error; with a queue or a route it is not."""
    del good["spec"]["fallback"]
    spoil(good, "trigger.type", "external-push")
    (given,) = check(tmp_path, spoil(good, "minReplicaCount", 0)).findings
    assert given.message.endswith("(a queue and a gateway's route do), was 0")
    absent, _ = check(tmp_path, spoil(good, "minReplicaCount", None)).findings
    assert (absent.severity, absent.message[-25:]) == (Severity.ERROR, "was not given, which is 0")
    spoil(good, "minReplicaCount", 0)
    assert check(tmp_path, spoil(good, "trigger.metadata.source", "prompts")).findings == ()
    assert check(tmp_path, spoil(good, "trigger.metadata.engine", "rabbitmq")).findings == ()
    (slow,) = check(tmp_path, spoil(good, "trigger.type", "external")).findings
    assert (slow.severity, slow.key) == (Severity.WARNING, f"{TRIGGER}.type")
    assert slow.message.startswith("must be external-push where minReplicaCount is 0")


def test_a_configuration_follows_the_same_rules(tmp_path: Path) -> None:
    """What cannot work is an error with `headway check` and at the start alike, at the key that is to be changed."""
    path = tmp_path / "headway.yaml"
    path.write_text(
        """\
workloads:
  - {namespace: a, name: asleep, minReplicas: 0, metadata: {slotsPerReplica: 8}}
  - {namespace: a, name: awake, minReplicas: 0, metadata: {slotsPerReplica: 8, minReplicas: 1}}
  - {namespace: a, name: no-queue, metadata: {engine: rabbitmq}}
  - {namespace: a, name: queue, minReplicas: 0, metadata: {engine: rabbitmq, source: q}}
  - {namespace: b, name: queue, minReplicas: 0, metadata: {engine: rabbitmq, source: q}}
sources:
  - {name: q, namespaces: [a], queue: {queue: render}}
"""
    )
    expected = [
        ("workloads[0].minReplicas", 2),
        ("workloads[2].metadata.source", 4),
        ("workloads[4].metadata.source", 6),
    ]
    findings = check_files([path]).findings
    assert [(f.key, f.line) for f in findings] == expected
    assert {f.severity for f in findings} == {Severity.ERROR}
    with pytest.raises(ConfigErrors) as caught:
        load_config(path)
    assert [(p.key, p.line) for p in caught.value.problems] == expected


def test_without_a_scale_there_is_a_warning(tmp_path: Path, good: dict[str, Any]) -> None:
    """An engine with neither slots nor capacity can be judged by its KV cache alone; either of them is enough."""
    spoil(good, "trigger.metadata.slotsPerReplica", None)
    assert check(tmp_path, good).findings == ()
    (finding,) = check(tmp_path, spoil(good, "trigger.metadata.capacityPerReplica", None)).findings
    assert (finding.severity, finding.key) == (Severity.WARNING, METADATA)
    assert finding.message.startswith("must give slotsPerReplica or capacityPerReplica")
    (finding,) = check(tmp_path, {"workloads": [{"namespace": "a", "name": "b"}]}).findings
    assert (finding.severity, finding.key) == (Severity.WARNING, "workloads[0].metadata")
    assert "will not scale down while anything runs" in finding.message


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "---\n"])
def test_a_file_with_nothing_in_it_is_a_warning(tmp_path: Path, text: str) -> None:
    """Zero errors would be said of the wrong file."""
    path = tmp_path / "empty.yaml"
    path.write_text(text)
    (finding,) = check_files([path]).findings
    assert finding == Finding(Severity.WARNING, str(path), 0, "", "has nothing in it: nothing was checked")


IN_CLUSTER = "cluster: {kubernetes: {}}\nscaler: {knownAs: [headway:6000]}\n"
LEASE = "leadership: {lease: {}}\n"


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        (LEASE + "planStore: {file: p}", "planStore.file", "should be configMap with leadership.lease"),
        ("planStore: {configMap: {}}", "leadership", "should be given with planStore.configMap"),
        (
            IN_CLUSTER + "decision: {viewStaleAfter: 90s}",
            "decision.viewStaleAfter",
            "should be >= 100s with cluster.kubernetes, was 90s",
        ),
    ],
)
def test_parts_that_go_badly_together_are_a_warning(tmp_path: Path, text: str, key: str, message: str) -> None:
    """What works, but hardly as it was meant, is told, and does not keep a process from starting."""
    path = tmp_path / "h.yaml"
    path.write_text(text)
    [finding] = check_files([path]).findings
    assert (finding.severity, finding.key) == (Severity.WARNING, key)
    assert finding.message.startswith(message)
    load_config(path)


@pytest.mark.parametrize(
    "text",
    [
        LEASE + "planStore: {configMap: {}}",
        "planStore: {file: p}",
        IN_CLUSTER + "decision: {viewStaleAfter: 100s}",
        "decision: {viewStaleAfter: 30s}",
        "sources: [{name: jobs, namespaces: [d], queue: {queue: q}}]\nmetrics: {scrape: {targetsFile: t}}",
    ],
)
def test_parts_that_go_well_together_are_not_complained_of(tmp_path: Path, text: str) -> None:
    """What is meant to be together, or apart, is no finding: a broker's queue is also read by scraping."""
    path = tmp_path / "h.yaml"
    path.write_text(text)
    assert check_files([path]).findings == ()


def test_a_fallback_at_zero_would_wake_the_workload(tmp_path: Path, good: dict[str, Any]) -> None:
    """With minReplicaCount 0 a fallback is an error."""
    spoil(good, "minReplicaCount", 0)
    spoil(good, "trigger.type", "external-push")
    spoil(good, "trigger.metadata.engine", "rabbitmq")
    spoil(good, "trigger.metadata.source", "prompts")
    (finding,) = check(tmp_path, good).findings
    assert (finding.severity, finding.key) == (Severity.ERROR, "spec.fallback")


def test_a_second_trigger_is_an_error(tmp_path: Path, good: dict[str, Any]) -> None:
    """Another kind of trigger, or Headway twice, makes the HPA take the larger of two numbers."""
    triggers = good["spec"]["triggers"]
    triggers.append({"type": "cpu", "metadata": {"value": "80"}})
    (beside,) = check(tmp_path, good).findings
    assert (beside.severity, beside.key) == (Severity.ERROR, "spec.triggers")
    triggers[1] = triggers[0]
    (twice,) = check(tmp_path, good).findings
    assert (twice.severity, twice.key) == (Severity.ERROR, "spec.triggers[1]")


def test_a_scaled_job_is_an_error(tmp_path: Path) -> None:
    """A ScaledJob with an external trigger is refused; with others it is none of Headway's business."""
    job: dict[str, Any] = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledJob"}
    (finding,) = check(tmp_path, {**job, "spec": {"triggers": [{"type": "external"}]}}).findings
    assert finding.message == "must be in a ScaledObject: Headway does not scale a ScaledJob"
    assert check(tmp_path, {**job, "spec": {"triggers": [{"type": "kafka"}]}}).findings == ()


@pytest.mark.parametrize(
    "other",
    [
        {"apiVersion": "v1", "kind": "Service", "spec": {"triggers": [{"type": "external"}]}},
        {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "spec": {"triggers": [{"type": "cpu"}]}},
        {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject"},
        {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "spec": [1]},
        {"apiVersion": "keda.sh/v1alpha1", "kind": "TriggerAuthentication", "spec": {}},
    ],
)
def test_what_is_not_ours_is_passed_over(tmp_path: Path, other: dict[str, Any]) -> None:
    """Other kinds, and ScaledObjects without an external trigger, give no finding."""
    assert check(tmp_path, other).findings == ()


def test_with_a_configuration_only_headway_s_own_triggers_count(tmp_path: Path, good: dict[str, Any]) -> None:
    """`scaler.knownAs` tells Headway's triggers from those of another external scaler."""
    spoil(good, "trigger.metadata.scalerAddress", "other-scaler:9090")
    spoil(good, "idleReplicaCount", 1)
    manifest = tmp_path / "scaledobject.yaml"
    manifest.write_text(yaml.safe_dump(good))
    assert check_files([manifest]).errors == 1
    assert check_files([EXAMPLES / "headway.yaml", manifest]).findings == ()


def test_a_list_is_opened_and_twins_are_noticed(tmp_path: Path, good: dict[str, Any]) -> None:
    """The objects in a `kind: List` are checked each; two of one name are a warning at the second."""
    report = check(tmp_path, {"apiVersion": "v1", "kind": "List", "items": [good, good]})
    (finding,) = report.findings
    assert (finding.severity, finding.key) == (Severity.WARNING, "items[1].metadata.name")
    assert finding.message.startswith("must be unique within its namespace, was chat as in ")


def test_all_files_are_checked_whatever_is_wrong_with_one(tmp_path: Path, good: dict[str, Any]) -> None:
    """A missing file, broken YAML, a bad configuration and a bad manifest are reported in one go, in order."""
    (tmp_path / "broken.yaml").write_text("a: [")
    (tmp_path / "config.yaml").write_text(
        "decision: {hold: never}\nworkloads: [{namespace: a, name: b, metadata: {x: 1, slotsPerReplica: 8}}]"
    )
    (tmp_path / "text.yaml").write_text("just text")
    (tmp_path / "object.yaml").write_text(yaml.safe_dump(spoil(good, "idleReplicaCount", 2)))
    names = ["missing.yaml", "broken.yaml", "config.yaml", "text.yaml", "object.yaml"]
    report = check_files([tmp_path / name for name in names])
    assert [(Path(f.file).name, f.severity.value, f.key) for f in report.findings] == [
        ("missing.yaml", "error", ""),
        ("broken.yaml", "error", ""),
        ("config.yaml", "error", "decision.hold"),
        ("config.yaml", "warning", "workloads[0].metadata.x"),
        ("text.yaml", "error", ""),
        ("object.yaml", "error", "spec.idleReplicaCount"),
    ]
    assert report.errors == 5
    assert report.text().splitlines()[-1] == "5 errors, 1 warning in 5 files"


def test_a_finding_is_on_the_line_of_its_key() -> None:
    """The line of a finding is that of the key, and of the nearest key that is there when it is missing."""
    text = (EXAMPLES / "scaledobject.yaml").read_text()
    line = next(i for i, row in enumerate(text.splitlines(), 1) if "slo:" in row)
    finding = Finding(Severity.ERROR, "f.yaml", line, f"{METADATA}.slo", "must be x")
    assert str(finding) == f"f.yaml:{line}: error: {METADATA}.slo: must be x"


def test_lines_are_right(tmp_path: Path) -> None:
    """Each finding points at the line that a person has to change."""
    text = (EXAMPLES / "scaledobject.yaml").read_text()
    path = tmp_path / "object.yaml"
    path.write_text(text.replace("slo: 1s", "slo: never").replace("failureThreshold: 10", "failureThreshold: 1"))
    rows = path.read_text().splitlines()
    found = {f.key.rpartition(".")[2]: rows[f.line - 1].strip() for f in check_files([path]).findings}
    assert found == {"slo": "slo: never", "failureThreshold": "failureThreshold: 1"}


def test_no_secret_is_shown(tmp_path: Path, good: dict[str, Any]) -> None:
    """The value of a key that is not Headway's own appears in no finding, whatever is wrong with it."""
    good["spec"]["triggers"][0]["metadata"] |= {"passwordFromEnv": 4711, "token": 4711, "tlsClientKey": "4711"}
    report = check(tmp_path, good)
    assert report.errors == 2
    assert "4711" not in report.text()


def test_the_json_form_is_the_published_one(tmp_path: Path, good: dict[str, Any]) -> None:
    """The report as JSON is of the published shape and says what the text says."""
    report = check(tmp_path, spoil(good, "idleReplicaCount", 2))
    document = json.loads(json.dumps(report.document()))
    assert CheckDocument.model_validate(document).model_dump() == document
    assert document["schema"] == 1
    assert document["files"] == [str(tmp_path / "manifests.yaml")]
    assert [entry["key"] for entry in document["findings"]] == ["spec.idleReplicaCount"]
    assert check_files([tmp_path / "none"]).document()["findings"][0]["line"] is None
