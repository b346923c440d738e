"""Whatever is exported under an engine's names: no reading is absurd, and the order of series never matters."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.adapters.signals.candidates import Preset
from scaler.adapters.signals.presets import ENGINES, PER_QUEUE
from scaler.adapters.signals.project import Answer, Projector
from scaler.config.models import DecisionSettings
from scaler.core.observation import ReplicaReading
from scaler.core.values import Known
from scaler.ports import Sample
from tests.metrics_fakes import T0

POD = ("demo", "chat-0")
OF_PODS = [preset for name, preset in ENGINES.items() if name not in PER_QUEUE]


def samples_of(preset: Preset) -> st.SearchStrategy[list[Sample]]:
    """Draw samples under the preset's names, with its own labels and with values of all kinds."""
    signals = (*preset.signals, *preset.motion)
    conditions = [label for s in signals for c in s.candidates for label in (*dict(c.where), *c.having)]
    wanted = [value for s in signals for c in s.candidates for _, value in c.where]
    labels = sorted({*conditions, *(part for s in signals for part in s.parts)})
    sample = st.builds(
        lambda name, extra, value, at_s: Sample(name, {"namespace": POD[0], "pod": POD[1], **extra}, value, at_s),
        st.sampled_from(preset.names()),
        st.fixed_dictionaries({}, optional=dict.fromkeys(labels, st.sampled_from(["", "0", "1", "+Inf", *wanted]))),
        st.one_of(st.floats(), st.floats(0, 1), st.integers(0, 10**9).map(float)),
        st.sampled_from([T0 - 100, T0 - 15, T0, T0 + 1e6]),
    )
    return st.lists(sample, max_size=30)


def project(preset: Preset, *scrapes: list[Sample]) -> ReplicaReading:
    projector = Projector(DecisionSettings())
    for i, samples in enumerate(scrapes):
        now_s = T0 - 15 * (len(scrapes) - 1 - i)
        projector.begin(now_s)
        reading = projector.replicas(preset, {POD}, Answer(tuple(samples)), now_s)[POD]
    return reading


@pytest.mark.parametrize("preset", OF_PODS, ids=lambda preset: preset.name)
@settings(max_examples=25)  # for each of eight presets
@given(data=st.data())
def test_no_reading_is_absurd_and_no_order_matters(preset: Preset, data: Any) -> None:
    """A known value is finite, not negative, and young; a share is a share; a shuffled answer reads the same."""
    first, second = data.draw(samples_of(preset)), data.draw(samples_of(preset))
    seen = project(preset, first, second)
    limits = {signal.field: signal.limit for signal in preset.signals}
    for field, limit in limits.items():
        reading = getattr(seen, field)
        if isinstance(reading, Known):
            assert 0 <= reading.value < math.inf
            assert reading.value <= limit * (1 + 1e-9)
            assert reading.age_s <= 90
    assert project(preset, data.draw(st.permutations(first)), data.draw(st.permutations(second))) == seen
