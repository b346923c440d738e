"""GPU activity from HAMi's node monitor: percent under a name that says ratio, and whose container it is."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from scaler.adapters.signals.counters import CounterTracker
from scaler.adapters.signals.hami import HAMI
from scaler.adapters.signals.owners import by_owner, nothing, trusted
from scaler.adapters.signals.parts import PartsMemory
from scaler.adapters.signals.presets import DEVICES
from scaler.adapters.signals.reader import SignalReader
from scaler.core.values import Known, Missing, Reading, Reason
from scaler.ports import Sample
from tests.metrics_fakes import T0, exposition

PODS = (("demo", "chat-0"), ("demo", "chat-1"))
MONITOR = {"namespace": "kube-system", "pod": "hami-device-plugin-x1", "instance": "10.0.0.9:9394"}


def activity(samples: Iterable[Sample]) -> list[Reading]:
    """Read the GPU activity of the two pods."""
    owned = by_owner(samples, HAMI.owners, PODS)
    reader = SignalReader(CounterTracker(60.0, 90.0), PartsMemory(), T0, 90.0)
    (signal,) = HAMI.signals
    return [reader.read(signal, pod, trusted(owned.get(pod, nothing()), pod[0], {"demo"}))[0] for pod in PODS]


@pytest.mark.parametrize("fixture", ["hami", "hami-legacy"])
def test_a_ratio_in_percent(fixture: str) -> None:
    """90 and 70 are a mean of 0.8, under the new names and the old ones; a container that is idle is known to be."""
    assert activity(exposition(fixture, T0, **MONITOR)) == [Known(0.8), Known(0.0)]


def test_labels_that_a_scrape_honours() -> None:
    """With honorLabels=true the workload's namespace and pod stand where the monitor's own would."""
    honoured = [
        replace(s, labels={k.removeprefix("exported_"): v for k, v in s.labels.items() if k not in MONITOR})
        for s in exposition("hami", T0, **MONITOR)
    ]
    assert activity(honoured) == [Known(0.8), Known(0.0)]


def test_above_a_hundred_percent_is_an_error() -> None:
    """It is not taken for busy, nor for a ratio after all."""
    wrong = [replace(s, value=s.value * 10) for s in exposition("hami", T0, **MONITOR)]
    assert activity(wrong)[0] == Missing(Reason.INVALID_VALUE)


def test_a_device_s_own_series_is_no_pod_s() -> None:
    """`hami_host_gpu_utilization_ratio` has no workload's labels: the monitor's pod owns no GPU."""
    host = [s for s in exposition("hami", T0, **MONITOR) if s.name.startswith("hami_host")]
    assert host
    assert activity(host) == [Missing(Reason.NO_SERIES)] * 2


def test_a_pod_that_is_gone_is_not_looked_at() -> None:
    """Series of completed pods stay for a while (volcano-vgpu-device-plugin#130); they are nobody's."""
    gone = [
        replace(s, labels={**s.labels, "exported_pod": "chat-9"}, value=100.0)
        for s in exposition("hami", T0, **MONITOR)
    ]
    assert activity([*gone, *exposition("hami", T0, **MONITOR)]) == [Known(0.8), Known(0.0)]


def test_a_tenant_cannot_speak_for_another_s_gpu() -> None:
    """A pod of a tenant's namespace that exports HAMi's names for another pod is not believed."""
    forged = exposition("hami", T0, namespace="demo-2", pod="attacker-0", instance="10.0.0.66:80")
    owned = by_owner(forged, HAMI.owners, PODS)
    assert trusted(owned[PODS[0]], "demo", {"demo", "demo-2"}) == {}


def test_dcgm_comes_first_where_both_are() -> None:
    """It measures the device itself, MIG included."""
    assert [preset.name for preset in DEVICES] == ["dcgm", "hami"]
