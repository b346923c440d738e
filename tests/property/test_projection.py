"""Projection, for all samples: what is absent never becomes a number, and the order of series never matters."""

import math
from dataclasses import fields

from hypothesis import given
from hypothesis import strategies as st

from scaler.adapters.signals.candidates import Preset
from scaler.adapters.signals.dcgm import DCGM
from scaler.adapters.signals.histograms import histogram_quantile
from scaler.adapters.signals.project import Answer, Projector
from scaler.adapters.signals.vllm import VLLM
from scaler.config.models import DecisionSettings
from scaler.core.observation import ReplicaReading
from scaler.core.values import Known, Reading
from scaler.ports import Sample
from tests.metrics_fakes import T0

PODS = tuple(("demo", f"chat-{i}") for i in range(3))
label_values = st.sampled_from(["", "0", "1", "capacity", "stop", "0.5", "+Inf", "x"])


def samples_of(preset: Preset) -> st.SearchStrategy[list[Sample]]:
    """Draw samples under the preset's names, with labels and values of all kinds."""
    labels = st.fixed_dictionaries(
        {"pod": st.sampled_from(["chat-0", "chat-1", "gone-0", ""])},
        optional={
            "namespace": st.sampled_from(["demo", "other", ""]),
            "exported_pod": st.sampled_from(["chat-0", "chat-2"]),
            "exported_namespace": st.sampled_from(["demo", "other"]),
            "engine": label_values,
            "reason": label_values,
            "le": label_values,
            "finished_reason": label_values,
            "UUID": label_values,
        },
    )
    sample = st.builds(
        Sample,
        st.sampled_from([*preset.names(), "up"]),
        labels,
        st.one_of(st.floats(), st.floats(0, 1), st.integers(0, 1000).map(float)),
        st.sampled_from([T0 - 100, T0 - 15, T0, T0 + 1e6, math.nan]),
    )
    return st.lists(sample, max_size=40)


def _readings(replica: ReplicaReading) -> dict[str, Reading]:
    return {name: getattr(replica, name) for name in (f.name for f in fields(ReplicaReading)) if name != "pod"}


@given(samples_of(VLLM), samples_of(VLLM))
def test_every_known_value_comes_from_a_fresh_and_valid_sample(first: list[Sample], second: list[Sample]) -> None:
    """A number is made of fresh, finite samples of that very pod under a candidate name, or it is not made."""
    projector = Projector(DecisionSettings())
    projector.replicas(VLLM, PODS, Answer(tuple(first)), T0 - 15)
    found = projector.replicas(VLLM, PODS, Answer(tuple(second)), T0)
    candidates = {signal.field: {c.name for c in signal.candidates} for signal in VLLM.signals}
    candidates["still_s"] = {c.name for s in VLLM.signals if s.progress for c in s.candidates}
    for (namespace, pod), replica in found.items():
        for field, reading in _readings(replica).items():
            if isinstance(reading, Known):
                assert math.isfinite(reading.value)
                assert reading.value >= 0
                assert reading.age_s <= 90
                assert any(
                    s.name in candidates[field]
                    and (s.labels.get("namespace"), s.labels["pod"]) == (namespace, pod)
                    and math.isfinite(s.value)
                    and s.at_s >= T0 - 90
                    for s in second
                ), (pod, field, reading)


@given(samples_of(VLLM), st.randoms(use_true_random=False))
def test_the_order_of_series_does_not_matter(samples: list[Sample], random: object) -> None:
    """A source may list its series in any order."""
    shuffled = list(samples)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # Hypothesis' own Random
    one = Projector(DecisionSettings()).replicas(VLLM, PODS, Answer(tuple(samples)), T0)
    other = Projector(DecisionSettings()).replicas(VLLM, PODS, Answer(tuple(shuffled)), T0)
    assert one == other


@given(samples_of(DCGM))
def test_gpu_activity_is_absent_or_a_share(samples: list[Sample]) -> None:
    """GPU activity is 0..1 or there is none."""
    found = Projector(DecisionSettings()).gpu_activity(PODS, frozenset({"demo"}), Answer(tuple(samples)), T0)
    assert set(found) == set(PODS)
    for reading in found.values():
        assert not isinstance(reading, Known) or 0 <= reading.value <= 1 + 1e-6


@given(st.dictionaries(st.one_of(st.floats(0, 1e4), st.just(math.inf)), st.floats(0, 1e9), max_size=20))
def test_a_quantile_lies_within_the_buckets(rises: dict[float, float]) -> None:
    """A quantile is finite, not negative, not above the last bound, and grows with its level."""
    values = [histogram_quantile(q, rises) for q in (0.1, 0.5, 0.95, 1.0)]
    if any(value is None for value in values):
        assert max(rises.values(), default=0.0) <= 0
        return
    known = [value for value in values if value is not None]
    finite = [bound for bound in rises if math.isfinite(bound)]
    assert known == sorted(known)
    assert all(0 <= value <= max(finite, default=0.0) for value in known)
