"""All presets alike: each has expositions of its engine, and reads from them what their types say."""

import dataclasses
import re
from pathlib import Path

import pytest

from scaler.adapters.signals.candidates import Candidate, Kind, Preset, Signal
from scaler.adapters.signals.presets import DEVICES, ENGINES, PER_QUEUE
from scaler.config.metadata import ENGINES as CONFIGURABLE
from scaler.config.metadata import SLOTS_EXPORTED
from scaler.core.observation import QueueReading, ReplicaReading
from tests.preset_rig import fixtures_of

PRESETS = (*ENGINES.values(), *DEVICES)
# Names of older versions and other settings than those whose expositions are here.
OF_OTHER_VERSIONS = {
    "vllm": re.compile(r"ray_vllm_.*"),
    "nim": re.compile(
        r"vllm:(gpu_cache_usage_perc|num_requests_waiting_by_reason|admission_rejections_total)"
        r"|num_preemptions_total|request_queue_time_seconds_bucket|request_finish_total"
    ),
    "rayserve": re.compile(r"ray_serve_deployment_request_counter"),
    "rabbitmq": re.compile(r"rabbitmq_queue_(exchange_messages_published|messages_acked)_total"),
}
# Gauges that hold counts: the exporter types them so.
COUNTS_TYPED_AS_GAUGES = {"nv_trt_llm_general_metrics"}
OF_HISTOGRAM = re.compile(r"_(bucket|sum|count)$")
by_name = pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)


def types_in(path: Path) -> dict[str, str]:
    """Return the type of each family in an exposition."""
    return dict(re.findall(r"^# TYPE (\S+) (\S+)$", path.read_text(), re.MULTILINE))


def names_in(path: Path) -> set[str]:
    """Return the names of all samples in an exposition."""
    return set(re.findall(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)[{ ]", path.read_text(), re.MULTILINE))


def candidates_of(preset: Preset) -> list[tuple[Signal, Candidate]]:
    return [(signal, c) for signal in (*preset.signals, *preset.motion) for c in signal.candidates]


@by_name
def test_a_preset_has_an_exposition_that_says_where_it_comes_from(preset: Preset) -> None:
    """`<preset>.txt` exists, and each of its expositions begins with whether it was recorded or written."""
    paths = fixtures_of(preset)
    assert preset.name in {path.stem for path in paths}
    for path in paths:
        head = " ".join(line for line in path.read_text().splitlines()[:6] if line.startswith("# "))
        assert re.search(r"recorded from|recorded by|not (# )?recorded|written (out|by hand)", head), path.name
        assert re.search(r"\d", head), f"{path.name} must name a version"


@by_name
def test_every_name_of_the_named_version_is_in_its_exposition(preset: Preset) -> None:
    """A misspelt name would be missed by nobody else: no series is what an idle cluster looks like too."""
    seen = set().union(*(names_in(path) for path in fixtures_of(preset)))
    other = OF_OTHER_VERSIONS.get(preset.name)
    missing = {name for name in preset.names() if name not in seen and not (other and other.fullmatch(name))}
    assert missing == set()


@by_name
def test_a_signal_is_read_as_its_type_says(preset: Preset) -> None:
    """Gauges as gauges, counters as rates; a histogram is never taken for a counter, whatever its name ends in."""
    types = {name: kind for path in fixtures_of(preset) for name, kind in types_in(path).items()}
    for signal, candidate in candidates_of(preset):
        for name in candidate.names():
            kind, base = types.get(name), OF_HISTOGRAM.sub("", name)
            match signal.kind_of(candidate):
                case Kind.GAUGE:
                    assert kind in {"gauge", None}, name
                case Kind.HISTOGRAM:
                    assert name.endswith("_bucket"), name
                    assert types.get(base) in {"histogram", None}, name
                case Kind.COUNTER | Kind.RATIO if name not in COUNTS_TYPED_AS_GAUGES:
                    of_histogram = base != name and types.get(base) == "histogram"
                    assert of_histogram or kind in {"counter", None}, name


@by_name
def test_a_preset_s_signals_are_readings_of_the_decision(preset: Preset) -> None:
    """Each signal is a field of a reading, once; what tells of motion is none."""
    fields = [signal.field for signal in preset.signals]
    assert len(set(fields)) == len(fields)
    readings = {
        field.name for field in dataclasses.fields(QueueReading if preset.name in PER_QUEUE else ReplicaReading)
    }
    assert set(fields) <= readings
    assert not {signal.field for signal in preset.motion} & readings


@by_name
def test_a_histogram_is_told_apart_by_its_bounds_and_asked_seldom(preset: Preset) -> None:
    """Without `le` among its parts a histogram has no quantile; with it, it has many series."""
    for signal in preset.signals:
        if any(signal.kind_of(c) is Kind.HISTOGRAM for c in signal.candidates):
            assert "le" in signal.parts
            assert signal.rare


@by_name
def test_a_ratio_names_what_it_is_divided_by(preset: Preset) -> None:
    """And nothing else does."""
    for signal, candidate in candidates_of(preset):
        assert (candidate.per is not None) == (signal.kind_of(candidate) is Kind.RATIO)


def test_the_engines_that_may_be_configured_are_those_that_there_are() -> None:
    """A name that `engine` takes and no preset reads would make its workloads silent for ever."""
    assert set(ENGINES) == set(CONFIGURABLE)


def test_engines_that_are_said_to_export_their_slots_do() -> None:
    """For them `slotsPerReplica` is not asked of the user."""
    telling = {name for name, preset in ENGINES.items() if "slots" in {signal.field for signal in preset.signals}}
    assert set(SLOTS_EXPORTED) <= telling


@pytest.mark.parametrize("engine", sorted(ENGINES.keys() - PER_QUEUE))
def test_an_engine_tells_what_runs_and_what_waits(engine: str) -> None:
    """Without both, no replica of it could ever be believed."""
    assert {"running", "waiting"} <= {signal.field for signal in ENGINES[engine].signals}
