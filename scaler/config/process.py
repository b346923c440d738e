"""The configuration file of a process: addresses, stores, sources, the platform's settings and the workloads.

Keys are camelCase as in trigger metadata, durations are texts, paths are relative to the file. This module does no I/O:
`load.py` reads the file. `docs/schemas/config.schema.json` is generated from these models.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from scaler.config.fields import (
    Namespace,
    PositiveDuration,
    ScaledObjectName,
    camel_key,
    duration_schema,
    seconds,
)
from scaler.config.models import DecisionSettings, Frozen, Mode, RateLimit
from scaler.config.places import Address, FilePath, LoopbackAddress, Url

DEFAULT_MIN_REPLICAS = 1
DEFAULT_MAX_REPLICAS = 100
ADMIN_ADDRESS = "127.0.0.1:8081"


class Role(StrEnum):
    """What a process does; each needs other parts of the file."""

    SERVE = "serve"
    CONTROLLER = "controller"
    SCALER = "scaler"


class Section(Frozen):
    """Base of all parts of the file: camelCase keys, and a key that is not known is an error."""

    model_config = ConfigDict(alias_generator=camel_key)


def _durations_in_schema(names: tuple[str, ...]) -> ConfigDict:
    """Return a model configuration whose schema shows these number fields as the durations that a file has there."""

    def show(schema: dict[str, Any]) -> None:
        for name in names:
            old = schema["properties"][camel_key(name)]
            schema["properties"][camel_key(name)] = {
                **{key: old[key] for key in ("default", "title") if key in old},
                **duration_schema("> 0" if "exclusiveMinimum" in old else ">= 0"),
            }

    return ConfigDict(alias_generator=camel_key, json_schema_extra=show)


_RATE_DURATIONS = tuple(name for name in RateLimit.model_fields if name.endswith("_s"))
_DECISION_DURATIONS = tuple(name for name in DecisionSettings.model_fields if name.endswith("_s"))


class RateSection(RateLimit):
    """`RateLimit` as a file spells it."""

    model_config = _durations_in_schema(_RATE_DURATIONS)
    _seconds = field_validator(*_RATE_DURATIONS, mode="before")(seconds)


class DecisionSection(DecisionSettings):
    """`DecisionSettings` as a file spells them: the same fields, so that neither can lag behind the other."""

    model_config = _durations_in_schema(_DECISION_DURATIONS)
    rate: RateSection = RateSection()
    _seconds = field_validator(*_DECISION_DURATIONS, mode="before")(seconds)


class ClockSection(Section):
    """A rehearsal's clock: `speed` times faster than the wall's, at `origin` when that shows `wallOrigin`."""

    speed: Annotated[float, Field(gt=0, le=10_000)] = 1.0
    wall_origin: Annotated[float, Field(ge=0)] | None = None  # Unix seconds
    origin: Annotated[float, Field(ge=0)] | None = None  # Unix seconds

    @model_validator(mode="after")
    def _origins_together(self) -> Self:
        if (self.wall_origin is None) != (self.origin is None):
            raise ValueError("must give wallOrigin and origin together, or neither")
        # Two processes that each took their own start as the origin would disagree on the time.
        if self.speed != 1 and self.origin is None:
            raise ValueError(f"must give wallOrigin and origin when speed is not 1, was speed {self.speed:g}")
        return self


class ControllerSection(Section):
    """The process that observes, decides and publishes."""

    tick_s: PositiveDuration = 15.0
    heartbeat_s: PositiveDuration = 60.0
    http_address: Address = ":8080"
    admin_address: LoopbackAddress = ADMIN_ADDRESS
    checkpoint: FilePath | None = None  # None: start empty each time


class TlsSection(Section):
    """The scaler's certificate, and who may call: clients of `clientCaFile` whose SAN is among the names."""

    cert_file: FilePath
    key_file: FilePath
    client_ca_file: FilePath | None = None
    allowed_client_names: tuple[Annotated[str, Field(min_length=1, max_length=253)], ...] = ()

    @model_validator(mode="after")
    def _names_need_a_ca(self) -> Self:
        if self.allowed_client_names and self.client_ca_file is None:
            raise ValueError("must give clientCaFile with allowedClientNames: without it no client shows a name")
        return self


class ScalerSection(Section):
    """The process that answers KEDA from the published plan."""

    grpc_address: Address = ":6000"
    http_address: Address = ":8082"
    plan_poll_s: PositiveDuration = 1.0
    plan_ttl_s: PositiveDuration = 300.0
    tls: TlsSection | None = None
    # How ScaledObjects name this scaler (scalerAddress). `headway check` then knows its own triggers from others.
    known_as: tuple[Annotated[str, Field(min_length=1, max_length=300)], ...] = ()


class PlanStoreSection(Section):
    """Where the plan travels from controller to scalers."""

    file: FilePath


class TenantHeader(Section):
    """The header that tells a multi-tenant metrics server whose series to read."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,64}$")] = "X-Scope-OrgID"
    value: Annotated[str, Field(pattern=r"^[!-~]{1,256}$")]


class PrometheusSection(Section):
    """Anything that speaks the Prometheus HTTP API. Secrets are in files, which are read again when they change."""

    url: Url
    timeout_s: PositiveDuration = 12.0  # of one fetch, retries included
    connect_timeout_s: PositiveDuration = 3.0
    retries: Annotated[int, Field(ge=0, le=10)] = 2
    max_bytes: Annotated[int, Field(ge=1024)] = 64 * 2**20  # of one answer
    ca_file: FilePath | None = None
    cert_file: FilePath | None = None
    key_file: FilePath | None = None
    bearer_token_file: FilePath | None = None
    username: Annotated[str, Field(min_length=1)] | None = None
    password_file: FilePath | None = None
    tenant_header: TenantHeader | None = None

    @model_validator(mode="after")
    def _credentials_whole(self) -> Self:
        if (self.username is None) != (self.password_file is None):
            raise ValueError("must give username and passwordFile together, or neither")
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("must give certFile and keyFile together, or neither")
        if self.username is not None and self.bearer_token_file is not None:
            raise ValueError("must give bearerTokenFile or username, not both")
        return self


class ScrapeSection(Section):
    """Direct scraping of `/metrics`; the targets are in a Prometheus file_sd file."""

    targets_file: FilePath
    timeout_s: PositiveDuration = 5.0
    max_bytes: Annotated[int, Field(ge=1024)] = 4 * 2**20  # of one target
    concurrency: Annotated[int, Field(ge=1, le=10_000)] = 32


class ReplaySection(Section):
    """Samples that were recorded before."""

    file: FilePath


class MetricsSection(Section):
    """Where the engines' metrics come from: exactly one of these."""

    prometheus: PrometheusSection | None = None
    scrape: ScrapeSection | None = None
    replay: ReplaySection | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        given = [camel_key(name) for name in type(self).model_fields if getattr(self, name)]
        if len(given) != 1:
            names = ", ".join(camel_key(name) for name in type(self).model_fields)
            raise ValueError(f"must give exactly one of {names}, was {' and '.join(given) or 'none'}")
        return self


class GpuMetricsSection(MetricsSection):
    """Where dcgm-exporter's metrics come from: `same: true` for where the engines' do, or a source of their own."""

    same: bool = False


def texts(metadata: Any) -> Any:
    """Write a file's numbers and truth values as the texts that trigger metadata has; leave the rest to be refused."""
    if not isinstance(metadata, Mapping):
        return metadata
    return {key: _text(value) for key, value in metadata.items()}


def _text(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


class BrokerSection(Section):
    """The platform's message broker. No series of a queue tells what its consumers may hold."""

    vhost: Annotated[str, Field(min_length=1, max_length=255)] = "/"
    # Messages that one consumer may hold, where a workload's slotsPerReplica does not say it.
    prefetch: Annotated[int, Field(ge=1, le=65_535)] | None = None


class ClusterSection(Section):
    """Which replicas exist: a file that something else keeps current."""

    file: FilePath


class WorkloadSection(Section):
    """One workload: its ScaledObject's namespace, name and bounds, and its trigger metadata."""

    namespace: Namespace
    name: ScaledObjectName
    min_replicas: Annotated[int, Field(ge=0, le=1_000_000)] = DEFAULT_MIN_REPLICAS
    max_replicas: Annotated[int, Field(ge=1, le=1_000_000)] = DEFAULT_MAX_REPLICAS
    mode: Mode | None = None  # rules over the metadata's; the only place where observe can be set
    metadata: Annotated[Mapping[str, str], BeforeValidator(texts)] = Field(default_factory=dict)

    @field_validator("max_replicas")
    @classmethod
    def _bounds_in_order(cls, upper: int, info: ValidationInfo) -> int:
        lower = info.data.get("min_replicas")
        if lower is not None and lower > upper:
            raise ValueError(f"must be >= minReplicas ({lower}), was {upper}")
        return upper


class ProcessConfig(Section):
    """The whole file. What a role does not need may be left out of the file of that role."""

    clock: ClockSection = ClockSection()
    decision: DecisionSection = DecisionSection()
    controller: ControllerSection = ControllerSection()
    scaler: ScalerSection = ScalerSection()
    plan_store: PlanStoreSection | None = None  # None: a temporary file of `serve`, which starts both roles
    metrics: MetricsSection | None = None
    gpu_metrics: GpuMetricsSection | None = None
    broker: BrokerSection = BrokerSection()
    cluster: ClusterSection | None = None
    workloads: tuple[WorkloadSection, ...] = ()
