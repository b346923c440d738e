"""The profiles that the documentation shows, through a real Prometheus."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from scaler.adapters.signals.profiles import ProfileCollector
from scaler.config.grants import Grants
from scaler.config.models import DecisionSettings, WorkloadSettings
from scaler.config.profiles import QueryProfile
from scaler.config.sources import SourceSection
from scaler.core.observation import QueueReading, ReplicaReading
from scaler.core.values import Known, Missing, Reading, Reason
from tests.gateway_rig import Site, Target, eventually, running_site

DOCUMENT = Path(__file__).parents[2] / "docs" / "gateways.md"
ENGINE = """\
my_requests_running 3
my_requests_waiting 1
my_requests_done_total {done}
my_queue_milliseconds_sum {queued}
my_queue_milliseconds_count {done}
"""
KAFKA = """\
kafka_consumergroup_lag{{consumergroup="transcripts",topic="audio",partition="0"}} 30
kafka_consumergroup_lag{{consumergroup="transcripts",topic="audio",partition="1"}} 12
kafka_consumergroup_lag{{consumergroup="archive",topic="audio",partition="0"}} 0
kafka_consumergroup_current_offset{{consumergroup="transcripts",topic="audio",partition="0"}} {read}
kafka_consumergroup_current_offset{{consumergroup="transcripts",topic="audio",partition="1"}} 0
kafka_topic_partition_current_offset{{topic="audio",partition="0"}} {written}
kafka_topic_partition_current_offset{{topic="audio",partition="1"}} 0
"""


def shown() -> dict[str, list[Any]]:
    """Return what the document's YAML defines, by section."""
    sections: dict[str, list[Any]] = {"profiles": [], "sources": []}
    for block in re.findall(r"(?s)```yaml\n(.*?)```", DOCUMENT.read_text()):
        for name, entries in yaml.safe_load(block).items():
            sections[name] += entries
    return sections


def profiles() -> list[QueryProfile]:
    return [QueryProfile.model_validate(entry) for entry in shown()["profiles"]]


def test_the_document_s_examples_are_valid() -> None:
    """What it shows can be copied into a configuration file."""
    sources = [SourceSection.model_validate(entry) for entry in shown()["sources"]]
    grants = Grants.of(sources, profiles())
    assert [p.name for p in profiles()] == ["home-grown", "kafka"]
    presets = [ref.preset for name in ("chat", "transcripts", "thumbnails") if (ref := grants.source("demo", name))]
    assert presets == ["istio", "profile:kafka", "rabbitmq"]


@pytest.mark.prometheus
@pytest.mark.skipif(shutil.which("prometheus") is None, reason="no prometheus on PATH: profiles were not evaluated")
async def test_the_document_s_queries_give_readings(tmp_path: Path) -> None:
    """A home-grown engine and a Kafka topic, from what is scraped to readings; a pod that is gone is silent."""
    sources = [SourceSection.model_validate(entry) for entry in shown()["sources"]]
    own = WorkloadSettings(namespace="demo", name="own", engine="profile:home-grown")
    transcripts = WorkloadSettings(
        namespace="demo", name="transcripts", demand_source=Grants.of(sources, profiles()).source("demo", "transcripts")
    )
    targets = {
        "/own": Target(ENGINE.format(done=0, queued=0), {"namespace": "demo", "pod": "own-0"}),
        "/kafka": Target(KAFKA.format(read=0, written=0), {"namespace": "kafka", "pod": "exporter-0"}),
    }

    async def look(site: Site) -> tuple[ReplicaReading, QueueReading]:
        collector = ProfileCollector(site.source, DecisionSettings(), profiles())
        answers = await collector.answers([own, transcripts], 0.0)
        assert collector.failures == ()
        queue = answers.queue(transcripts)
        assert queue is not None
        return answers.replicas("profile:home-grown", [("demo", "own-0")])["demo", "own-0"], queue

    async with running_site(tmp_path, targets) as site:
        targets["/own"].text = ENGINE.format(done=60, queued=15_000)
        targets["/kafka"].text = KAFKA.format(read=60, written=120)
        replica, queue = await eventually(
            lambda: look(site),
            lambda seen: all(
                value(r) > 0 for r in (seen[0].queue_time_s, seen[1].arrivals_rps, seen[1].completions_rps)
            ),
        )
        assert (value(replica.running), value(replica.waiting)) == (3.0, 1.0)
        assert value(replica.queue_time_s) == pytest.approx(0.25)
        assert replica.kv_usage == Missing(Reason.NOT_EXPORTED)
        assert value(queue.waiting) == 42.0
        assert value(queue.arrivals_rps) == pytest.approx(2 * value(queue.completions_rps), rel=0.2)
        targets["/own"].text = None
        gone, _ = await eventually(lambda: look(site), lambda seen: isinstance(seen[0].running, Missing))
        assert gone.running == Missing(Reason.NO_SERIES)


def value(reading: Reading) -> float:
    return reading.value if isinstance(reading, Known) else -1.0
