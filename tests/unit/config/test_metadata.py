import pytest

from scaler.config.grants import Grants
from scaler.config.metadata import (
    KEDA_KEYS,
    MAX_KEYS,
    MetadataErrors,
    intersect_bounds,
    metadata_problems,
    parse_metadata,
)
from scaler.config.models import Mode, SloMetric, SourceRef, Unit, WorkloadSettings
from scaler.config.settings import workload_settings
from scaler.config.sources import SourceSection

EVERY_KEY = {
    "engine": "vllm",
    "unit": "outputTokens",
    "slo": "500ms",
    "sloMetric": "ttft",
    "objective": "0.999",
    "slotsPerReplica": "64",
    "activeRatioTarget": "0.7",
    "kvTarget": "0.75",
    "capacityPerReplica": "12.5",
    "gpusPerReplica": "0.5",
    "leadTime": "4m",
    "mode": "advisory",
    "minReplicas": "2",
    "maxReplicas": "40",
    "source": "prompts",
    "timezone": "Europe/Berlin",
}

PROMPTS = {
    "name": "prompts",
    "namespaces": ["demo"],
    "route": {
        "gateway": "istio",
        "labels": {"destination_service_namespace": "demo", "destination_service_name": "chat"},
    },
}


def test_reads_every_key_in_its_unit() -> None:
    """Each documented key ends in the workload's settings, durations in seconds."""
    grants = Grants.of([SourceSection.model_validate(PROMPTS)])
    metadata = parse_metadata(EVERY_KEY)
    settings = workload_settings("demo", "chat", metadata, min_replicas=1, max_replicas=100, grants=grants)
    assert settings == WorkloadSettings(
        namespace="demo",
        name="chat",
        engine="vllm",
        unit=Unit.OUTPUT_TOKENS,
        slo_s=0.5,
        slo_metric=SloMetric.TTFT,
        objective=0.999,
        slots_per_replica=64,
        active_ratio_target=0.7,
        kv_target=0.75,
        capacity_per_replica=12.5,
        gpus_per_replica=0.5,
        lead_time_s=240.0,
        mode=Mode.ADVISORY,
        min_replicas=2,
        max_replicas=40,
        source="prompts",
        demand_source=SourceRef(preset="istio", identity=("demo", "chat")),
        timezone="Europe/Berlin",
    )


def test_says_nothing_where_the_metadata_says_nothing() -> None:
    """An empty trigger leaves every setting to its default."""
    settings = workload_settings("demo", "chat", parse_metadata({}), min_replicas=0, max_replicas=7)
    assert settings == WorkloadSettings(namespace="demo", name="chat", min_replicas=0, max_replicas=7)


def test_the_platform_mode_rules() -> None:
    """A mode that the platform sets, observe included, is not overruled by the tenant's."""
    parsed = parse_metadata({"mode": "auto"})
    settings = workload_settings("demo", "chat", parsed, min_replicas=1, max_replicas=2, mode=Mode.OBSERVE)
    assert settings.mode is Mode.OBSERVE


BAD = {
    "engine": (
        "vlm",
        (
            "engine must be one of llamacpp, nim, rabbitmq, rayserve, sglang, tgi, triton, trtllm, vllm or "
            "profile:NAME, was 'vlm'; did you mean vllm?"
        ),
    ),
    "unit": ("tokens", "unit must be one of requests, promptTokens, outputTokens, was 'tokens'"),
    "slo": ("0", "slo must be a duration > 0 such as 500ms, 15s, 4m, 1h30m or 14d, was '0'"),
    "sloMetric": ("", "sloMetric must be one of queueTime, ttft, was ''"),
    "objective": ("1", "objective must be a number 0.5 .. 0.99999, was '1'"),
    "slotsPerReplica": ("1.5", "slotsPerReplica must be a whole number 1 .. 1000000, was '1.5'"),
    "activeRatioTarget": ("85", "activeRatioTarget must be a number 0.05 .. 1, was '85'"),
    "kvTarget": ("nan", "kvTarget must be a number 0.05 .. 1, was 'nan'"),
    "capacityPerReplica": ("inf", "capacityPerReplica must be a number > 0 (1e-6 .. 1e9), was 'inf'"),
    "gpusPerReplica": ("-1", "gpusPerReplica must be a number > 0 (1e-6 .. 1e9), was '-1'"),
    "leadTime": ("4 min", "leadTime must be a duration > 0 such as 500ms, 15s, 4m, 1h30m or 14d, was '4 min'"),
    "mode": ("observe", "mode must be one of reactive, advisory, auto, was 'observe': only the platform may set it"),
    "minReplicas": ("-1", "minReplicas must be a whole number 0 .. 1000000, was '-1'"),
    "maxReplicas": ("many", "maxReplicas must be a whole number 0 .. 1000000, was 'many'"),
    "source": ("a\nb", "source must be the name of a queue, a route or a model, was 'a\\nb'"),
    "timezone": (
        "Europe/Berlin; x",
        "timezone must be an IANA time zone such as Europe/Berlin, was 'Europe/Berlin; x'",
    ),
}


def test_names_every_bad_key_at_once() -> None:
    """One error lists each bad key with its allowed range and its value."""
    problems = metadata_problems({key: value for key, (value, _) in BAD.items()})
    assert sorted(problems) == sorted(message for _, message in BAD.values())


@pytest.mark.parametrize("key", BAD)
def test_names_a_bad_key_alone(key: str) -> None:
    """What is right beside a bad key is not complained of."""
    assert metadata_problems({**EVERY_KEY, key: BAD[key][0]}) == (BAD[key][1],)


def test_keda_s_own_keys_are_neither_read_nor_shown() -> None:
    """Addresses, certificates and resolved environment values pass, whatever they hold, and appear nowhere."""
    secrets = dict.fromkeys(KEDA_KEYS, "s3cr3t") | {"passwordFromEnv": "s3cr3t", "sloFromEnv": "s3cr3t"}
    parsed = parse_metadata({**secrets, "other": "s3cr3t"})
    assert parsed.unknown == ("other",)
    assert "s3cr3t" not in repr(parsed)
    with pytest.raises(MetadataErrors) as caught:
        parse_metadata({**secrets, "slo": "never"})
    assert "s3cr3t" not in str(caught.value)


def test_unknown_keys_are_named_and_not_fatal() -> None:
    """A key that means nothing here is reported by its escaped name; one called like a field of ours is as well."""
    parsed = parse_metadata({"slo": "2s", "sloo": "1s", "a\nb": "x", "slo_s": "9", "unknown": "y"})
    assert parsed.slo_s == 2.0
    assert parsed.unknown == ("'a\\nb'", "slo_s", "sloo", "unknown")


def test_a_flood_is_refused_in_few_words() -> None:
    """Too many keys and too long values are errors that stay short."""
    assert metadata_problems({f"k{i}": "" for i in range(MAX_KEYS + 1)}) == (
        "metadata must have at most 100 keys, had 101",
    )
    assert metadata_problems({"slo": "x" * 1_000_000, "unit": "x" * 200}) == (
        "slo must have at most 256 characters, had 1000000",
        f"unit must be one of requests, promptTokens, outputTokens, was '{'x' * 60}...'",
    )


def test_time_zones_are_looked_up_where_a_list_is_given() -> None:
    """With the list of zones a well-formed name that does not exist is an error."""
    assert parse_metadata({"timezone": "Europe/Berlinn"}).timezone == "Europe/Berlinn"
    with pytest.raises(MetadataErrors, match="timezone must be an IANA time zone"):
        parse_metadata({"timezone": "Europe/Berlinn"}, timezones={"Europe/Berlin"})


@pytest.mark.parametrize(
    ("metadata", "bounds"),
    [
        ({}, (1, 10)),
        ({"minReplicas": "3"}, (3, 10)),
        ({"minReplicas": "0"}, (1, 10)),
        ({"maxReplicas": "5"}, (1, 5)),
        ({"maxReplicas": "50"}, (1, 10)),
        ({"minReplicas": "10", "maxReplicas": "10"}, (10, 10)),
    ],
)
def test_bounds_are_intersected(metadata: dict[str, str], bounds: tuple[int, int]) -> None:
    """The tighter of metadata and ScaledObject holds on each side."""
    assert intersect_bounds(parse_metadata(metadata), 1, 10) == bounds


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"minReplicas": "11"}, "minReplicas must be <= the ScaledObject's maxReplicaCount (10), was 11"),
        ({"maxReplicas": "1"}, "maxReplicas must be >= the ScaledObject's minReplicaCount (2), was 1"),
    ],
)
def test_bounds_that_exclude_each_other_are_an_error(metadata: dict[str, str], message: str) -> None:
    """An empty intersection names the key, its limit and its value."""
    with pytest.raises(MetadataErrors) as caught:
        intersect_bounds(parse_metadata(metadata), 2, 10)
    assert caught.value.problems == (message,)


def test_a_queue_engine_needs_its_queue() -> None:
    """Without `source` nothing of a broker's workload can be seen."""
    assert metadata_problems({"engine": "rabbitmq"}) == (
        "source must be the name of the queue with engine rabbitmq, was not given",
    )
    assert metadata_problems({"engine": "rabbitmq", "source": "render"}) == ()


def test_bounds_out_of_order_are_an_error() -> None:
    """A minimum above the maximum in the metadata alone is an error too."""
    assert metadata_problems({"minReplicas": "5", "maxReplicas": "3"}) == (
        "maxReplicas must be >= minReplicas (5), was 3",
    )
