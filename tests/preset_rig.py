"""Recorded expositions through the real parser and projection: what tests of engine presets share."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from scaler.adapters.signals.candidates import Preset
from scaler.adapters.signals.presets import ENGINES
from scaler.adapters.signals.project import Answer, Projector
from scaler.config.models import DecisionSettings
from scaler.core.observation import ReplicaReading
from scaler.ports import Sample
from tests.metrics_fakes import FIXTURES, T0, exposition

NAMESPACE, POD = "demo", "chat-0"
SCRAPE_S = 15.0


def fixtures_of(preset: Preset) -> list[Path]:
    """Return the recorded expositions of a preset: `<preset>.txt` and its variants."""
    return sorted(p for p in FIXTURES.glob("*.txt") if re.fullmatch(rf"{preset.name}([-_].*)?", p.stem))


def scraped(fixture: str, at_s: float = T0) -> list[Sample]:
    """Return a recorded exposition as scraped from the pod."""
    return exposition(fixture, at_s, namespace=NAMESPACE, pod=POD, instance="10.0.0.1:8000")


def moved(
    samples: Iterable[Sample], rises: Mapping[str, float], where: Callable[[Sample], bool] | None = None
) -> list[Sample]:
    """Return the samples one scrape later: each series of these names rose by so much, or only those `where` says."""
    return [
        replace(
            s, at_s=s.at_s + SCRAPE_S, value=s.value + (rises.get(s.name, 0.0) if where is None or where(s) else 0.0)
        )
        for s in samples
    ]


def read(engine: str, *scrapes: Iterable[Sample], projector: Projector | None = None) -> ReplicaReading:
    """Return the reading of the pod after these scrapes, each of which is of one tick."""
    projector = projector or Projector(DecisionSettings())
    owner = (NAMESPACE, POD)
    for samples in map(tuple, scrapes):
        now_s = max(s.at_s for s in samples)
        projector.begin(now_s)
        reading = projector.replicas(ENGINES[engine], {owner}, Answer(samples), now_s)[owner]
    return reading


def after(
    engine: str, fixture: str, rises: Mapping[str, float], where: Callable[[Sample], bool] | None = None
) -> ReplicaReading:
    """Return the reading of a recorded exposition whose series rose by so much between two scrapes."""
    first = scraped(fixture)
    return read(engine, first, moved(first, rises, where))
