from typing import Any

import pytest

from scaler.config.live import LiveWorkload, ScaleTarget, observed_workload, settings_of
from scaler.config.models import HpaRules, Mode, SourceRef, WorkloadSettings
from scaler.config.notes import NoteReason
from scaler.config.platform import Platform
from tests.config_builders import observed_hpa, platform, queue_worker, scaled_object

PLATFORM = platform()


def asked(manifest: dict[str, Any], by: Platform = PLATFORM, **given: Any) -> LiveWorkload:
    """Return the workload of a ScaledObject that asks Headway."""
    assert observed_workload(manifest, by) is None
    live = settings_of(manifest, by, **given)
    assert live is not None
    return live


def settings(live: LiveWorkload) -> WorkloadSettings:
    assert live.settings is not None, [str(note) for note in live.notes]
    return live.settings


def refusal(live: LiveWorkload) -> tuple[NoteReason, str]:
    """Return why a workload has no settings."""
    assert live.settings is None
    (note,) = (note for note in live.notes if note.refuses)
    return note.reason, str(note)


def test_a_scaled_object_is_a_workload() -> None:
    """Bounds, metadata, target and what the platform fixed: all of it, and no notes on the example."""
    live = asked(scaled_object())
    assert live == LiveWorkload(
        namespace="demo",
        name="chat",
        target=ScaleTarget("apps/v1", "Deployment", "chat"),
        settings=WorkloadSettings(
            namespace="demo",
            name="chat",
            engine="vllm",
            slo_s=1.0,
            objective=0.99,
            slots_per_replica=64,
            capacity_per_replica=8.5,
            lead_time_s=240.0,
            mode=Mode.ADVISORY,
            min_replicas=2,
            max_replicas=40,
            hpa=HpaRules(tolerance_up=0, tolerance_down=0, max_replicas=40),
        ),
        hpa="keda-hpa-chat",
    )


def test_a_queue_worker_goes_to_zero_by_the_queue_that_was_granted() -> None:
    """The same name is another queue in another namespace, and none in a third."""
    manifest = queue_worker()
    assert settings(asked(manifest)).demand_source == SourceRef(
        preset="rabbitmq", identity=("/", "team-a-jobs"), prefetch=4
    )
    assert settings(asked(manifest)).min_replicas == 0
    manifest["metadata"]["namespace"] = "team-b"
    ref = settings(asked(manifest)).demand_source
    assert ref is not None
    assert ref.identity == ("/", "team-b-jobs")
    manifest["metadata"]["namespace"] = "team-c"
    reason, message = refusal(asked(manifest))
    assert reason is NoteReason.NOT_GRANTED
    assert "must be a source that the platform granted to namespace team-c, was 'jobs'" in message


def test_without_a_demand_source_the_live_floor_is_one() -> None:
    """KEDA may say 0: Headway never does where nobody would see that the workload is wanted again."""
    manifest = scaled_object()
    manifest["spec"] |= {"minReplicaCount": 0}
    live = asked(manifest)
    assert settings(live).min_replicas == 1
    assert NoteReason.ZERO_WITHOUT_DEMAND in {note.reason for note in live.notes}
    manifest["spec"]["triggers"][0]["metadata"]["source"] = "chat"
    assert settings(asked(manifest)).min_replicas == 0


def test_the_live_floor_does_not_pass_the_upper_bound() -> None:
    """Whoever allows no replica gets none."""
    manifest = scaled_object()
    manifest["spec"] |= {"minReplicaCount": 0}
    manifest["spec"]["triggers"][0]["metadata"] |= {"maxReplicas": "0"}
    assert (settings(asked(manifest)).min_replicas, settings(asked(manifest)).max_replicas) == (0, 0)


@pytest.mark.parametrize(
    ("metadata", "template", "expected"),
    [
        ({}, None, 1.0),
        ({}, 8.0, 8.0),
        ({}, 0.0, 1.0),
        ({"gpusPerReplica": "4"}, 8.0, 8.0),
        ({"gpusPerReplica": "4"}, 2, 4),
    ],
)
def test_the_metadata_may_only_raise_the_gpu_cost(
    metadata: dict[str, str], template: float | None, expected: float
) -> None:
    """A tenant cannot make its replicas look cheaper than their pod template says."""
    manifest = scaled_object()
    manifest["spec"]["triggers"][0]["metadata"] |= metadata
    assert settings(asked(manifest, gpus_per_replica=template)).gpus_per_replica == expected


def test_only_triggers_of_a_known_address_are_headway_s() -> None:
    """Another external scaler's ScaledObject is none of its business, `dns:///` and case make no difference."""
    manifest = scaled_object()
    metadata = manifest["spec"]["triggers"][0]["metadata"]
    metadata["scalerAddress"] = "other.example:6000"
    assert settings_of(manifest, PLATFORM) is None
    assert observed_workload(manifest, PLATFORM) is None
    metadata["scalerAddress"] = "dns:///Headway-Scaler.headway.svc:6000"
    assert settings(asked(manifest)).name == "chat"


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda m: m["spec"]["triggers"][0].update(metricType="Value"), NoteReason.METRIC_TYPE),
        (lambda m: m["spec"]["triggers"][0]["metadata"].update(slo="never"), NoteReason.METADATA),
        (lambda m: m["spec"]["triggers"][0]["metadata"].update(engine="profile:none"), NoteReason.NOT_GRANTED),
        (lambda m: m["spec"]["triggers"][0]["metadata"].update(minReplicas="50"), NoteReason.BOUNDS),
        (lambda m: m["spec"].update(maxReplicaCount=10**30), NoteReason.BOUNDS),
        (lambda m: m["spec"].update(scaleTargetRef={}), NoteReason.SCALE_TARGET),
        (lambda m: m["metadata"].update(name=""), NoteReason.NAME),
    ],
)
def test_what_cannot_be_decided_for_has_no_settings(spoil: Any, reason: NoteReason) -> None:
    """It is refused with its reason; who keeps the last valid settings is the view's business."""
    manifest = scaled_object()
    spoil(manifest)
    assert refusal(asked(manifest))[0] is reason


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda m: m["spec"].update(advanced={"scalingModifiers": {"formula": "x"}}), NoteReason.SCALING_MODIFIERS),
        (lambda m: m["spec"].update(idleReplicaCount=1), NoteReason.IDLE_REPLICAS),
        (lambda m: m["spec"]["triggers"].append({"type": "cpu"}), NoteReason.SECOND_TRIGGER),
        (lambda m: m["spec"]["triggers"].append(m["spec"]["triggers"][0]), NoteReason.TWO_HEADWAY_TRIGGERS),
        (lambda m: m["spec"]["triggers"][0].update(useCachedMetrics=True), NoteReason.CACHED_METRICS),
        (lambda m: m["metadata"].update(annotations={"autoscaling.keda.sh/paused": "true"}), NoteReason.PAUSED),
    ],
)
def test_what_is_only_told_is_decided_for_all_the_same(spoil: Any, reason: NoteReason) -> None:
    """Where an error would do no good the workload keeps its decision, and a person is told."""
    manifest = scaled_object()
    spoil(manifest)
    live = asked(manifest)
    assert live.settings is not None
    assert reason in {note.reason for note in live.notes}


def test_observe_on_a_scaled_object_that_asks_headway_rules() -> None:
    """Somebody who says observe is not acted on, whatever the file and the metadata say; and is told what follows."""
    manifest = scaled_object()
    manifest["metadata"]["annotations"] = {"headway.dev/mode": "observe"}
    live = asked(manifest)
    assert settings(live).mode is Mode.OBSERVE
    assert [note.reason for note in live.notes] == [NoteReason.OBSERVED]
    manifest["metadata"]["annotations"] = {"headway.dev/mode": "auto"}
    live = asked(manifest)
    assert settings(live).mode is Mode.ADVISORY
    assert str(live.notes[0]).endswith("must be observe, was 'auto': it has no effect")


def test_an_annotated_hpa_is_observed() -> None:
    """Its bounds and target are those of the HPA, its metadata annotations."""
    live = observed_workload(observed_hpa(), PLATFORM, gpus_per_replica=2.0)
    assert live == LiveWorkload(
        namespace="team-a",
        name="embed",
        target=ScaleTarget("apps/v1", "Deployment", "embed"),
        settings=WorkloadSettings(
            namespace="team-a",
            name="embed",
            engine="sglang",
            slots_per_replica=32,
            gpus_per_replica=2.0,
            mode=Mode.OBSERVE,
            min_replicas=1,
            max_replicas=8,
        ),
    )
    assert settings_of(observed_hpa(), PLATFORM) is None


def test_an_hpa_that_keda_made_is_not_observed() -> None:
    """KEDA copies a ScaledObject's annotations to its HPA: the workload is there once."""
    for owned in ({"ownerReferences": [{"kind": "ScaledObject"}]}, {"labels": {"scaledobject.keda.sh/name": "embed"}}):
        manifest = observed_hpa()
        manifest["metadata"] |= owned
        assert observed_workload(manifest, PLATFORM) is None


def test_an_hpa_without_the_annotation_is_not_observed() -> None:
    """Neither none nor another mode will do."""
    manifest = observed_hpa()
    for annotations in ({}, {"headway.dev/mode": "Observe"}, {"headway.dev/mode": True}, None, [1]):
        manifest["metadata"]["annotations"] = annotations
        assert observed_workload(manifest, PLATFORM) is None


def test_a_foreign_scaled_object_can_be_observed() -> None:
    """One of other triggers, with KEDA's bounds where it gives none."""
    manifest = scaled_object()
    manifest["metadata"]["annotations"] = {"headway.dev/mode": "observe", "headway.dev/slotsPerReplica": "8"}
    manifest["spec"] = {"scaleTargetRef": {"kind": "StatefulSet", "name": "big"}, "triggers": [{"type": "cpu"}]}
    live = observed_workload(manifest, PLATFORM)
    assert live is not None
    assert settings_of(manifest, PLATFORM) is None
    assert live.target == ScaleTarget("apps/v1", "StatefulSet", "big")
    assert (settings(live).mode, settings(live).min_replicas, settings(live).max_replicas) == (Mode.OBSERVE, 1, 100)


@pytest.mark.parametrize(
    ("annotations", "spec", "reason", "message"),
    [
        ({"slo": "x"}, {}, NoteReason.METADATA, "metadata.annotations.headway.dev/slo must be a duration > 0"),
        ({"source": "jobs", "engine": "rabbitmq"}, {}, None, ""),
        (
            {"source": "other", "engine": "rabbitmq"},
            {},
            NoteReason.NOT_GRANTED,
            "metadata.annotations.headway.dev/source must be a source that the platform granted to namespace team-a",
        ),
        ({}, {"maxReplicas": None}, NoteReason.BOUNDS, "spec.maxReplicas must be a whole number >= 1, was null"),
        ({}, {"minReplicas": 9}, NoteReason.BOUNDS, "spec.minReplicas must be <= maxReplicas (8), was 9"),
        ({"minReplicas": "9"}, {}, NoteReason.BOUNDS, "metadata.annotations.headway.dev/minReplicas must be <="),
        ({}, {"scaleTargetRef": {}}, NoteReason.SCALE_TARGET, "spec.scaleTargetRef.name must be given"),
    ],
)
def test_what_is_wrong_with_an_observed_hpa_is_at_its_annotation(
    annotations: dict[str, str], spec: dict[str, Any], reason: NoteReason | None, message: str
) -> None:
    """The same rules, told where they can be mended."""
    manifest = observed_hpa()
    manifest["spec"] |= spec
    manifest["metadata"]["annotations"] |= {f"headway.dev/{key}": value for key, value in annotations.items()}
    live = observed_workload(manifest, PLATFORM)
    assert live is not None
    if reason is None:
        assert settings(live).demand_source is not None
    else:
        assert refusal(live)[0] is reason
        assert refusal(live)[1].startswith(message)
