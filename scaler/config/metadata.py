"""Trigger metadata: what a ScaledObject says about its workload, as text keys and text values.

It is the tenant's own input and arrives over the wire. So it is bounded in size, every bad key is reported at once, and
what KEDA put into it for itself (addresses, certificates, resolved `...FromEnv` values) is neither read nor shown.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)

from scaler.config.fields import PositiveDuration, camel_key
from scaler.config.models import Frozen, Mode, SloMetric, Unit
from scaler.config.problems import ConfigurationError, Problem, did_you_mean, plain, problems_of, shown
from scaler.config.profiles import PREFIX, PROFILE_NAME

DEFAULT_ENGINE = "vllm"
# The presets that this version has; a platform's own are `profile:<name>`.
ENGINES: frozenset[str] = frozenset(
    {"vllm", "sglang", "triton", "trtllm", "nim", "tgi", "llamacpp", "rayserve", "rabbitmq"}
)
QUEUE_ENGINES: frozenset[str] = frozenset({"rabbitmq"})  # their work waits in a broker, where it is seen at zero too
# They export themselves how many requests they work on at once; a profile may have a query for it.
SLOTS_EXPORTED: frozenset[str] = frozenset({"trtllm", "nim"})

KEDA_KEYS: frozenset[str] = frozenset(
    {"scalerAddress", "enableTLS", "unsafeSsl", "caCert", "tlsClientCert", "tlsClientKey", "metricType"}
)
FROM_ENV = "FromEnv"  # KEDA resolves these and keeps the suffix: the value may be a secret

MAX_KEYS = 100
MAX_VALUE_CHARS = 256
MAX_UNKNOWN_REPORTED = 20

# Far beyond any replica, and near enough to 1 that products and quotients of such numbers stay finite.
_Positive = Annotated[
    float, Field(ge=1e-6, le=1e9), WithJsonSchema({"type": "number", "allowed": "a number > 0 (1e-6 .. 1e9)"})
]
_Replicas = Annotated[int, Field(ge=0, le=1_000_000)]
_PROFILE = re.compile(re.escape(PREFIX) + PROFILE_NAME)
_ZONE_FORM = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+){0,3}")
_Target = Annotated[float, Field(ge=0.05, le=1)]


def _not_observe(mode: Mode) -> Mode:
    if mode is Mode.OBSERVE:
        raise ValueError("must be one of reactive, advisory, auto, was 'observe': only the platform may set it")
    return mode


_MODES = [mode.value for mode in Mode if mode is not Mode.OBSERVE]
_TriggerMode = Annotated[Mode, AfterValidator(_not_observe), WithJsonSchema({"type": "string", "enum": _MODES})]


class MetadataErrors(ConfigurationError):  # noqa: N818  # it is several errors, and says so
    """Trigger metadata is not valid; `problems` has one sentence for each bad key."""


class ParsedMetadata(Frozen):
    """What the metadata of one trigger sets. None means that it says nothing. Durations are seconds.

    `unknown` are the names (never the values) of keys that mean nothing here.
    """

    model_config = ConfigDict(alias_generator=camel_key)

    engine: str | None = None
    unit: Unit | None = None
    slo_s: PositiveDuration | None = None
    slo_metric: SloMetric | None = None
    objective: Annotated[float, Field(ge=0.5, le=0.99999)] | None = None
    slots_per_replica: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    active_ratio_target: _Target | None = None
    kv_target: _Target | None = None
    capacity_per_replica: _Positive | None = None  # work units per second
    gpus_per_replica: _Positive | None = None
    lead_time_s: PositiveDuration | None = None
    mode: _TriggerMode | None = None
    min_replicas: _Replicas | None = None
    max_replicas: _Replicas | None = None
    source: Annotated[str, Field(min_length=1)] | None = None
    timezone: str | None = None

    unknown: tuple[str, ...] = Field(default=(), exclude=True)

    @field_validator("engine")
    @classmethod
    def _known_engine(cls, engine: str) -> str:
        # Which profiles a namespace may use is not looked at here: a call from KEDA has no word on it.
        if engine not in ENGINES and not _PROFILE.fullmatch(engine):
            known = f"{', '.join(sorted(ENGINES))} or {PREFIX}NAME"
            raise ValueError(f"must be one of {known}, was {shown(engine)}{did_you_mean(engine, ENGINES)}")
        return engine

    @field_validator("source")
    @classmethod
    def _printable(cls, source: str) -> str:
        if not source.isprintable():
            raise ValueError(f"must be the name of a queue, a route or a model, was {shown(source)}")
        return source

    @field_validator("timezone")
    @classmethod
    def _known_timezone(cls, timezone: str, info: ValidationInfo) -> str:
        # The list of zones is a file on disk, so it is handed in where there is one; else only the form is checked.
        zones = (info.context or {}).get("timezones")
        if timezone not in zones if zones else not _ZONE_FORM.fullmatch(timezone):
            raise ValueError(f"must be an IANA time zone such as Europe/Berlin, was {shown(timezone)}")
        return timezone

    @field_validator("max_replicas")
    @classmethod
    def _bounds_in_order(cls, upper: int, info: ValidationInfo) -> int:
        lower = info.data.get("min_replicas")
        if lower is not None and lower > upper:
            raise ValueError(f"must be >= minReplicas ({lower}), was {upper}")
        return upper


KEYS: frozenset[str] = frozenset(camel_key(name) for name in ParsedMetadata.model_fields) - {"unknown"}


def parse_metadata(metadata: Mapping[str, str], *, timezones: Collection[str] | None = None) -> ParsedMetadata:
    """Read trigger metadata; MetadataErrors lists every key that is not valid, with its allowed range and its value.

    An engine whose work waits in a broker needs a `source`. Whether the platform granted it, and a profile, is looked
    at elsewhere. `timezones` are the IANA names that exist, None to check the form only.
    """
    if len(metadata) > MAX_KEYS:
        raise MetadataErrors([Problem((), f"metadata must have at most {MAX_KEYS} keys, had {len(metadata)}")])
    own = {key: value for key, value in metadata.items() if key in KEYS}
    too_long = [_too_long(key, value) for key, value in own.items() if len(value) > MAX_VALUE_CHARS]
    found = [*too_long, *_lacking(own)]
    if too_long:
        own = {key: value for key, value in own.items() if len(value) <= MAX_VALUE_CHARS}
    try:
        parsed = ParsedMetadata.model_validate(own, context={"timezones": timezones})
    except ValidationError as error:
        raise MetadataErrors([*found, *problems_of(error, ParsedMetadata)]) from None
    if found:
        raise MetadataErrors(found)
    unknown = sorted(key for key in metadata if not _meant_for_somebody(key))
    return parsed.model_copy(update={"unknown": tuple(plain(key) for key in unknown[:MAX_UNKNOWN_REPORTED])})


def metadata_problems(metadata: Mapping[str, str]) -> tuple[str, ...]:
    """Return one sentence for each bad key; empty when the metadata is valid."""
    try:
        parse_metadata(metadata)
    except MetadataErrors as errors:
        return errors.problems
    return ()


def _lacking(own: Mapping[str, str]) -> Iterator[Problem]:
    engine = own.get("engine")
    if engine in QUEUE_ENGINES and "source" not in own:
        yield Problem(("source",), f"must be the name of the queue with engine {engine}, was not given")


def _too_long(key: str, value: str) -> Problem:
    return Problem((key,), f"must have at most {MAX_VALUE_CHARS} characters, had {len(value)}")


def _meant_for_somebody(key: str) -> bool:
    return key in KEYS or key in KEDA_KEYS or key.endswith(FROM_ENV)


# The live floor is then 1.
SLEEPLESS = "must be >= 1 where no source sees demand at zero replicas (a queue and a gateway's route do)"


def sees_demand_at_zero(parsed: ParsedMetadata) -> bool:
    """Return whether demand is seen while no replica runs, if what the metadata names is granted."""
    return parsed.engine in QUEUE_ENGINES or parsed.source is not None


def unscaled(parsed: ParsedMetadata) -> str:
    """Return what is wrong with metadata that says nothing to judge a busy replica by, or nothing."""
    engine = parsed.engine or DEFAULT_ENGINE
    if (
        engine in QUEUE_ENGINES | SLOTS_EXPORTED
        or engine.startswith(PREFIX)
        or parsed.slots_per_replica is not None
        or parsed.capacity_per_replica is not None
    ):
        return ""
    return (
        "must give slotsPerReplica or capacityPerReplica: until then nothing but the KV cache can be judged, "
        "and it will not scale down while anything runs"
    )


def intersect_bounds(metadata: ParsedMetadata, min_replicas: int, max_replicas: int) -> tuple[int, int]:
    """Return min and max that satisfy both the metadata and the ScaledObject; MetadataErrors if none do."""
    lower = max(min_replicas, metadata.min_replicas or 0)
    upper = max_replicas if metadata.max_replicas is None else min(max_replicas, metadata.max_replicas)
    if lower <= upper:
        return lower, upper
    key, value, limit = (
        ("minReplicas", metadata.min_replicas, f"<= the ScaledObject's maxReplicaCount ({max_replicas})")
        if metadata.min_replicas == lower
        else ("maxReplicas", metadata.max_replicas, f">= the ScaledObject's minReplicaCount ({min_replicas})")
    )
    if value is None:  # the ScaledObject contradicts itself
        raise MetadataErrors([Problem((), f"minReplicas must be <= maxReplicas ({max_replicas}), was {min_replicas}")])
    raise MetadataErrors([Problem((key,), f"must be {limit}, was {value}")])
