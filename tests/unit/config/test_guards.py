from collections.abc import Callable
from typing import Any

import pytest

from scaler.config.findings import Severity
from scaler.config.keda_version import is_keda_operator, keda_version_note, keda_version_of
from scaler.config.manifests import Manifests
from scaler.config.notes import Note, NoteReason
from scaler.config.platform import Platform
from tests.config_builders import observed_hpa, platform, queue_worker, scaled_object

UNKNOWN = Platform()  # of manifests alone: every external trigger is Headway's, and what is named is granted


def notes(*manifests: dict[str, Any], by: Platform = UNKNOWN) -> list[Note]:
    """Return what a check says about manifests, one after the other."""
    seen = Manifests(by)
    return [note for index, manifest in enumerate(manifests) for note in seen.notes(manifest, f"f.yaml:{index}")]


def reasons(*manifests: dict[str, Any], by: Platform = UNKNOWN) -> set[str]:
    return {str(note.reason) for note in notes(*manifests, by=by)}


def annotated(manifest: dict[str, Any], **annotations: str) -> dict[str, Any]:
    """Return a manifest with annotations of KEDA."""
    keys = {f"autoscaling.keda.sh/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return manifest | {"metadata": manifest["metadata"] | {"annotations": keys}}


def with_spec(manifest: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return manifest | {"spec": manifest["spec"] | spec}


def test_all_faults_of_one_manifest_are_told_at_once() -> None:
    """Whatever is wrong at the same time, each guard speaks, with its own reason."""
    manifest = scaled_object()
    trigger = manifest["spec"]["triggers"][0] | {"metricType": "Value", "useCachedMetrics": True}
    trigger["metadata"] = {"scalerAddress": "headway", "slo": "never", "sloo": "1s"}
    manifest["apiVersion"] = "keda.sh/v1"
    manifest["metadata"] |= {"name": "x" * 55, "annotations": {"autoscaling.keda.sh/paused": "true"}}
    manifest["spec"] |= {
        "scaleTargetRef": {},
        "triggers": [trigger, {"type": "external", "metadata": {"scalerAddress": "h:1"}}, {"type": "cpu"}],
        "minReplicaCount": 0,
        "maxReplicaCount": -1,
        "idleReplicaCount": 1,
        "pollingInterval": 0,
        "fallback": {"replicas": 0, "failureThreshold": 1},
        "advanced": {"scalingModifiers": {"formula": "a"}},
    }
    assert {str(note.reason) for note in notes(manifest) if note.severity is Severity.ERROR} == {
        "ApiVersion",
        "Bounds",
        "CachedMetrics",
        "Fallback",
        "IdleReplicas",
        "Metadata",
        "MetricType",
        "Name",
        "PollingInterval",
        "ScaleTarget",
        "ScalerAddress",
        "ScalingModifiers",
        "SecondTrigger",
        "TwoHeadwayTriggers",
        "ZeroWithoutDemand",
    }
    assert {"HpaBehaviour", "Paused", "Unscaled"} <= reasons(manifest)
    paths = [note.problem.key for note in notes(manifest)]
    assert paths.count("spec.fallback") == 1
    assert {"spec.fallback.behavior", "spec.fallback.failureThreshold"} < set(paths)


def test_a_name_of_its_own_for_the_hpa_leaves_room_for_the_scaled_object_s() -> None:
    """With the default name the ScaledObject's has nine characters less."""
    manifest = scaled_object()
    manifest["metadata"]["name"] = "x" * 63
    assert reasons(manifest) == {"Name"}
    manifest["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["name"] = "chat"
    assert reasons(manifest) == set()
    manifest["metadata"]["name"] += "x"
    assert reasons(manifest) == {"Name"}


@pytest.mark.parametrize(
    ("annotations", "spec", "expected"),
    [
        ({"paused": "true"}, {}, True),
        ({"paused": "yes"}, {}, True),  # KEDA takes what it cannot read for true
        ({"paused": "false"}, {}, False),
        ({"paused_replicas": "3"}, {}, True),
        ({"paused_replicas": "false"}, {}, True),
        ({"paused_scale_in": "true"}, {}, True),
        ({"paused_scale_out": "true"}, {}, True),
        ({"force_activation": "true"}, {}, False),
    ],
)
def test_what_pauses_keda_is_told(annotations: dict[str, str], spec: dict[str, Any], *, expected: bool) -> None:
    """While it is paused Headway's number reaches nothing, and nobody would look for that here."""
    manifest = annotated(with_spec(scaled_object(), **spec), **annotations)
    assert [note.severity for note in notes(manifest)] == ([Severity.WARNING] if expected else [])


def test_forced_activation_matters_where_zero_is_wanted() -> None:
    """A workload that may go to 0 never does."""
    assert reasons(queue_worker()) == set()
    assert reasons(annotated(queue_worker(), force_activation="true")) == {"Paused"}


def test_a_long_polling_interval_matters_at_zero_only() -> None:
    """At zero nothing but the poll asks, if the push fails; above, the HPA does every 15 s."""
    assert reasons(with_spec(queue_worker(), pollingInterval=60)) == {"PollingInterval"}
    assert reasons(with_spec(scaled_object(), pollingInterval=60)) == set()


def test_what_is_not_granted_is_found_where_grants_are_known() -> None:
    """With the platform's file the source and the profile are looked up; a manifest without a namespace is not."""
    manifest = queue_worker()
    assert reasons(manifest, by=platform()) == set()
    manifest["metadata"]["namespace"] = "team-c"
    (note,) = notes(manifest, by=platform())
    assert (note.reason, note.problem.key) == (NoteReason.NOT_GRANTED, "spec.triggers[0].metadata.source")
    assert reasons(manifest) == set()
    del manifest["metadata"]["namespace"]
    assert reasons(manifest, by=platform()) == set()


def same_target(kind: str) -> dict[str, Any]:
    """Return another object that scales the Deployment of the example."""
    if kind == "hpa":
        hpa = with_spec(observed_hpa(), scaleTargetRef={"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat"})
        return hpa | {"metadata": {"name": "other", "namespace": "demo"}}
    other = with_spec(scaled_object(), triggers=[{"type": "cpu"}]) if kind == "foreign" else scaled_object()
    return other | {"metadata": {"name": "other", "namespace": "demo"}}


@pytest.mark.parametrize("kind", ["hpa", "foreign", "headway"])
def test_two_autoscalers_on_one_target_are_an_error(kind: str) -> None:
    """Whatever the other one is, and whichever comes first."""
    for pair in ((scaled_object(), same_target(kind)), (same_target(kind), scaled_object())):
        (note,) = (note for note in notes(*pair) if note.reason is NoteReason.SHARED_TARGET)
        assert note.severity is Severity.ERROR
        assert note.problem.message.startswith("must be nobody else's, was Deployment chat, which ")
        assert note.problem.message.endswith("in f.yaml:0 scales too")


@pytest.mark.parametrize(
    "change",
    [
        lambda other: other["metadata"].update(namespace="elsewhere"),
        lambda other: other["spec"]["scaleTargetRef"].update(kind="StatefulSet"),
        lambda other: other["spec"]["scaleTargetRef"].update(apiVersion="example.com/v1", kind="Deployment"),
        lambda other: other["metadata"].update(ownerReferences=[{"kind": "ScaledObject"}]),
        lambda other: other["metadata"].update(name="keda-hpa-chat"),
    ],
)
def test_other_targets_and_keda_s_own_hpa_are_no_rivals(change: Callable[[dict[str, Any]], None]) -> None:
    """Another namespace, kind or group is another object; the HPA of a ScaledObject is its own."""
    other = same_target("hpa")
    change(other)
    assert reasons(scaled_object(), other) == set()


def test_an_hpa_that_is_taken_over_is_no_rival() -> None:
    """A ScaledObject that names an existing HPA takes it over."""
    manifest = scaled_object()
    manifest["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["name"] = "other"
    assert reasons(manifest, same_target("hpa")) == set()


def test_versions_of_a_group_are_one_target() -> None:
    """`apps/v1` is the default, and another version of the group is the same Deployment."""
    other = same_target("hpa")
    other["spec"]["scaleTargetRef"]["apiVersion"] = "apps/v1beta1"
    assert reasons(scaled_object(), other) == {"SharedTarget"}


def test_what_is_observed_twice_is_a_warning() -> None:
    """One of the two is recommended for; others' rivalries are their own."""
    twice = observed_hpa() | {"metadata": observed_hpa()["metadata"] | {"name": "again"}}
    (note,) = notes(observed_hpa(), twice)
    assert (note.severity, note.reason) == (Severity.WARNING, NoteReason.SHARED_TARGET)
    for manifest in (first := observed_hpa(), twice):
        del manifest["metadata"]["annotations"]
    assert notes(first, twice) == []


def test_an_annotated_hpa_is_checked() -> None:
    """Its annotations are metadata: errors at their keys, unknown ones and a mistaken mode as warnings."""
    assert notes(observed_hpa()) == []
    manifest = observed_hpa()
    keys = {"headway.dev/slo": "0", "headway.dev/sloo": "1s", "headway.dev/floor": "3"}
    manifest["metadata"]["annotations"] |= keys
    assert [(note.severity.value, note.problem.key) for note in notes(manifest)] == [
        ("error", "metadata.annotations.headway.dev/slo"),
        ("warning", "metadata.annotations.headway.dev/sloo"),
    ]
    manifest["metadata"]["annotations"] = {"headway.dev/mode": "observed"}
    (note,) = notes(manifest)
    assert str(note) == "metadata.annotations.headway.dev/mode must be observe, was 'observed': it has no effect"


@pytest.mark.parametrize(
    ("version", "severity"),
    [
        ("2.17.0", None),
        ("v2.18.1", None),
        ("2.20.2-rc1", None),
        ("3.0", None),
        ("2.16.1", Severity.ERROR),
        ("v1.5.0", Severity.ERROR),
        ("2.9.0", Severity.ERROR),
        ("main", Severity.WARNING),
        ("2", Severity.WARNING),
        ("", Severity.WARNING),
        (None, Severity.WARNING),
        ("2.17\n.1", Severity.WARNING),
    ],
)
def test_keda_must_be_recent_enough(version: str | None, severity: Severity | None) -> None:
    """Versions compare by number; one that cannot be told is a warning."""
    note = keda_version_note(version)
    assert (note and note.severity) == severity
    assert note is None or "must be 2.17 or newer" in str(note)


def operator(image: str, **labels: str) -> dict[str, Any]:
    """Return the Deployment of KEDA's operator."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "keda-operator", "namespace": "keda", "labels": labels},
        "spec": {"template": {"spec": {"containers": [{"name": "keda-operator", "image": image}]}}},
    }


@pytest.mark.parametrize(
    ("image", "label", "expected"),
    [
        ("ghcr.io/kedacore/keda:2.17.0", "2.16.0", "2.17.0"),
        ("registry:5000/kedacore/keda:2.16.1@sha256:0a", "2.17.0", "2.16.1"),
        ("registry:5000/kedacore/keda", "2.18.0", "2.18.0"),
        ("ghcr.io/kedacore/keda:main", "2.18.0", "2.18.0"),
        ("ghcr.io/kedacore/keda:main", None, "main"),
        ("ghcr.io/kedacore/keda@sha256:0a", None, None),
    ],
)
def test_the_version_is_that_of_the_image(image: str, label: str | None, expected: str | None) -> None:
    """The tag is what runs; the label is asked where the tag is no version."""
    labels = {} if label is None else {"app.kubernetes.io/version": label}
    assert keda_version_of(operator(image, **labels)) == expected


def test_keda_s_operator_is_checked_among_the_manifests() -> None:
    """A cluster's dump tells of an old KEDA; other Deployments are passed over."""
    (note,) = notes(operator("ghcr.io/kedacore/keda:2.16.1"))
    assert (note.severity, note.reason) == (Severity.ERROR, NoteReason.KEDA_VERSION)
    assert notes(operator("ghcr.io/kedacore/keda:2.17.0")) == []
    other = operator("ghcr.io/kedacore/keda:2.16.1") | {"metadata": {"name": "chat"}}
    assert not is_keda_operator(other)
    assert notes(other) == []
    assert notes(other | {"metadata": {"name": "k", "labels": {"app": "keda-operator"}}}) != []
