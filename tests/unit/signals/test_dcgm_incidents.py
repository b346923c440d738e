"""dcgm-exporter on its bad days: labels that come and go, flip, or stay behind."""

from collections.abc import Iterable
from dataclasses import replace

from scaler.adapters.signals.project import Answer, Projector
from scaler.config.models import DecisionSettings
from scaler.core.values import Known, Missing, Reading, Reason
from scaler.ports import Sample
from tests.metrics_fakes import T0, exposition

PODS = (("demo", "chat-0"), ("demo", "chat-1"))
EXPORTER = {"namespace": "gpu-operator", "pod": "dcgm-exporter-x1", "instance": "10.0.0.9:9400"}
HONOURED = {"exported_pod": "pod", "exported_namespace": "namespace", "exported_container": "container"}


def dcgm(at_s: float = T0) -> list[Sample]:
    """Return the exposition of a node's exporter."""
    return exposition("dcgm", at_s, **EXPORTER)


def of_pod(pod: str, samples: Iterable[Sample]) -> list[Sample]:
    return [s for s in samples if s.labels.get("exported_pod") == pod]


def unlabelled(samples: Iterable[Sample]) -> list[Sample]:
    """Return the samples as where the kubelet's socket did not answer: nobody's GPU."""
    return [replace(s, labels={k: v for k, v in s.labels.items() if not k.startswith("exported_")}) for s in samples]


def ticks(*answers: Iterable[Sample]) -> list[list[Reading]]:
    """Read the GPU activity of the two pods, tick by tick."""
    projector, found = Projector(DecisionSettings()), []
    for i, samples in enumerate(answers):
        now_s = T0 + 15 * i
        projector.begin(now_s)
        read = projector.gpu_activity(PODS, {"demo"}, Answer(tuple(samples)), now_s)
        found.append([read[pod] for pod in PODS])
    return found


def test_a_busy_gpu_that_loses_its_pod_is_missing_and_not_idle() -> None:
    """The label is gone while the GPU works (dcgm-exporter#342): there is no series, and no 0."""
    first, second, third = ticks(dcgm(), unlabelled(dcgm(T0 + 15)), dcgm(T0 + 30))
    assert first == third == [Known(0.9), Known(0.4375)]
    assert second == [Missing(Reason.NO_SERIES)] * 2


def test_one_gpu_of_two_without_its_pod_does_not_halve_the_activity() -> None:
    """A discontinuous series (dcgm-exporter#428) is missed, as a rank is; the other GPU is not the whole."""
    now = dcgm(T0 + 15)
    mine = [s for s in of_pod("chat-0", now) if s.labels["gpu"] == "1"]
    half = [s for s in now if s not in mine]
    assert ticks(dcgm(), half)[1] == [Missing(Reason.SOURCE_DOWN), Known(0.4375)]


def test_labels_that_flip_at_every_sample_are_one_pod() -> None:
    """Two scrape jobs, one of which honours labels (dcgm-exporter#340): each sample finds its pod, and counts once."""
    honoured = [
        replace(s, labels={HONOURED.get(k, k): v for k, v in s.labels.items() if k not in HONOURED.values()})
        for s in dcgm(T0 + 15)
    ]
    assert ticks(dcgm(), honoured, dcgm(T0 + 30)) == [[Known(0.9), Known(0.4375)]] * 3
    assert ticks([*dcgm(), *(replace(s, at_s=T0) for s in honoured)])[0] == [Known(0.9), Known(0.4375)]


def test_the_label_of_a_pod_that_ended_gives_its_successor_nothing() -> None:
    """The kubelet names the old pod for up to half an hour (dcgm-exporter#140): the new one's activity is missing."""
    late = [
        replace(s, labels={**s.labels, "exported_pod": "chat-gone"}) if s.labels.get("exported_pod") == "chat-1" else s
        for s in dcgm()
    ]
    assert ticks(late)[0] == [Known(0.9), Missing(Reason.NO_SERIES)]
