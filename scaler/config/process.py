"""The configuration file of a process: addresses, stores, sources, the platform's settings and the workloads.

Keys are camelCase as in trigger metadata, durations are texts, paths are relative to the file. This module does no I/O:
`load.py` reads the file. `docs/schemas/config.schema.json` is generated from these models.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from scaler.config.cluster import ClusterSection, HistorySection, LeadershipSection, PlanStoreSection
from scaler.config.decision import DecisionSection
from scaler.config.fields import Namespace, PositiveDuration, ScaledObjectName, camel_key
from scaler.config.models import Mode
from scaler.config.places import Address, FilePath, LoopbackAddress, Url
from scaler.config.problems import Problem
from scaler.config.profiles import MAX_PROFILES, QueryProfile
from scaler.config.sections import Section, both_or_neither, exactly_one, keys_given
from scaler.config.sources import MAX_SOURCES, SourceSection

DEFAULT_MIN_REPLICAS = 1
DEFAULT_MAX_REPLICAS = 100
ADMIN_ADDRESS = "127.0.0.1:8081"


class Role(StrEnum):
    """What a process does; each needs other parts of the file."""

    SERVE = "serve"
    CONTROLLER = "controller"
    SCALER = "scaler"


class ClockSection(Section):
    """A rehearsal's clock: `speed` times faster than the wall's, at `origin` when that shows `wallOrigin`."""

    speed: Annotated[float, Field(gt=0, le=10_000)] = 1.0
    wall_origin: Annotated[float, Field(ge=0)] | None = None  # Unix seconds
    origin: Annotated[float, Field(ge=0)] | None = None  # Unix seconds

    @classmethod
    def rules(cls, given: Mapping[str, Any]) -> Iterator[str | Problem]:
        """Yield that a pace needs an origin: processes that each took their own start would disagree on the time."""
        yield from both_or_neither(given, "wallOrigin", "origin")
        speed = given.get("speed", 1)
        if isinstance(speed, int | float) and speed != 1 and not ("wallOrigin" in given or "origin" in given):
            yield f"must give wallOrigin and origin when speed is not 1, was speed {speed:g}"


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

    @classmethod
    def rules(cls, given: Mapping[str, Any]) -> Iterator[str | Problem]:
        """Yield that a CA and names go together: each alone looks like a check of callers and is none."""
        ca, names = "clientCaFile" in given, "allowedClientNames" in given
        if names and not ca:
            yield "must give clientCaFile with allowedClientNames: without it no client shows a name"
        if ca and not names:
            yield "must give allowedClientNames with clientCaFile: a CA alone admits everybody that it signs for"


class ScalerSection(Section):
    """The process that answers KEDA from the published plan."""

    grpc_address: Address = ":6000"
    http_address: Address = ":8082"
    plan_poll_s: PositiveDuration = 1.0
    plan_ttl_s: PositiveDuration = 300.0
    tls: TlsSection | None = None
    # How ScaledObjects name this scaler (scalerAddress). `headway check` then knows its own triggers from others.
    known_as: tuple[Annotated[str, Field(min_length=1, max_length=300)], ...] = ()


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
    max_series: Annotated[int, Field(ge=1_000, le=10_000_000)] = 50_000  # of one query; more are split by namespace
    concurrency: Annotated[int, Field(ge=1, le=64)] = 3  # queries at once
    ca_file: FilePath | None = None
    cert_file: FilePath | None = None
    key_file: FilePath | None = None
    bearer_token_file: FilePath | None = None
    username: Annotated[str, Field(min_length=1)] | None = None
    password_file: FilePath | None = None
    tenant_header: TenantHeader | None = None

    @classmethod
    def rules(cls, given: Mapping[str, Any]) -> Iterator[str | Problem]:
        """Yield that credentials must be whole, and of one kind."""
        yield from both_or_neither(given, "username", "passwordFile")
        yield from both_or_neither(given, "certFile", "keyFile")
        if "username" in given and "bearerTokenFile" in given:
            yield "must give bearerTokenFile or username, not both"


class ScrapeSection(Section):
    """Direct scraping of `/metrics`: of the targets in a Prometheus file_sd file, or of the pods that are watched."""

    targets_file: FilePath | None = None
    pods: bool = False  # the pods of the workloads, at the ports that they list
    ports: tuple[Annotated[int, Field(ge=1, le=65_535)], ...] = ()  # only these of them; empty: all
    timeout_s: PositiveDuration = 5.0
    max_bytes: Annotated[int, Field(ge=1024)] = 4 * 2**20  # of one target
    concurrency: Annotated[int, Field(ge=1, le=10_000)] = 32

    @classmethod
    def rules(cls, given: Mapping[str, Any]) -> Iterator[str | Problem]:
        """Yield that targets come from one place."""
        yield from exactly_one(given, ("targetsFile", "pods"))
        if "ports" in given and "pods" not in given:
            yield Problem(("ports",), "must be left out without pods: true, a targets file names its own ports")


class ReplaySection(Section):
    """Samples that were recorded before."""

    file: FilePath


class MetricsSection(Section):
    """Where the engines' metrics come from: exactly one of these."""

    prometheus: PrometheusSection | None = None
    scrape: ScrapeSection | None = None
    replay: ReplaySection | None = None

    @classmethod
    def rules(cls, given: Mapping[str, Any]) -> Iterator[str | Problem]:
        """Yield that there must be one source: samples of one workload come from one place."""
        names = [camel_key(name) for name in cls.model_fields]
        yield from exactly_one(given, names)


class GpuMetricsSection(MetricsSection):
    """Where dcgm-exporter's metrics come from: `same: true` for where the engines' do, or a source of their own."""

    same: bool = False

    @classmethod
    def rules(cls, given: Mapping[str, Any]) -> Iterator[str | Problem]:
        """Yield that there must be one source, and that GPUs are not seen by a workload's own pods."""
        yield from super().rules(given)
        if "pods" in keys_given(given.get("scrape")):
            message = "must be left out for gpuMetrics: no pod of a workload exports them, dcgm-exporter's do"
            yield Problem(("scrape", "pods"), message)


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


class WorkloadSection(Section):
    """One workload: its ScaledObject's namespace, name and bounds, and its trigger metadata.

    With `cluster.kubernetes` only the mode is the file's to say: all else is in the ScaledObject.
    """

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
    profiles: Annotated[
        tuple[QueryProfile, ...],
        Field(max_length=MAX_PROFILES, json_schema_extra={"allowed": f"a list of at most {MAX_PROFILES} profiles"}),
    ] = ()
    sources: Annotated[
        tuple[SourceSection, ...],
        Field(max_length=MAX_SOURCES, json_schema_extra={"allowed": f"a list of at most {MAX_SOURCES} sources"}),
    ] = ()
    cluster: ClusterSection | None = None
    leadership: LeadershipSection | None = None
    events: bool = False  # tell of transitions in Events of the ScaledObjects
    history: HistorySection | None = None
    workloads: tuple[WorkloadSection, ...] = ()
