"""The only place where adapters meet the core: builds each role from its configuration and runs it until stopped."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import requests
import structlog
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from scaler.adapters.clock import ScaledClock, SystemClock
from scaler.adapters.cluster_file import FileClusterView
from scaler.adapters.exporter import ControllerCollector, ControllerSnapshot
from scaler.adapters.http import HttpServer, admin_server, metrics_app
from scaler.adapters.keda.follow import PlanFollower
from scaler.adapters.keda.holder import PlanHolder
from scaler.adapters.keda.server import ScalerServer, ServerSettings
from scaler.adapters.keda.tls import TlsFiles
from scaler.adapters.observer import CollectingObserver
from scaler.adapters.plan_store import FilePlanStore
from scaler.adapters.prometheus import PrometheusSettings, PrometheusSource
from scaler.adapters.replay import ReplaySource
from scaler.adapters.scrape import ScrapeSettings, ScrapeSource
from scaler.adapters.signals.rabbitmq import QueueSettings
from scaler.adapters.state_store import FileStateStore, MemoryStateStore
from scaler.config.address import Address
from scaler.config.metadata import metadata_problems
from scaler.config.models import DecisionSettings
from scaler.config.process import (
    GpuMetricsSection,
    MetricsSection,
    ProcessConfig,
    PrometheusSection,
    ScalerSection,
    TlsSection,
)
from scaler.config.validate import policy_of
from scaler.core.values import WorkloadId
from scaler.ports import Clock, MetricsSource, PlanStore, StateStore
from scaler.report.plan_json import plan_document
from scaler.runtime.control import Controller, Ports, TickReport
from scaler.runtime.interpreter import answer_promptly
from scaler.runtime.leadership import SoleLeadership
from scaler.runtime.logging import log_tick
from scaler.runtime.loop import Cadence, ControlLoop
from scaler.runtime.policy import FixedPolicy
from scaler.runtime.processes import Role, keep_running

_log = structlog.get_logger(__name__)

_ANNOUNCE_POLL_S: Final = 0.05
_LOOKBACK: Final = 4 / 3  # of the time after which a sample is stale: one that is late is seen as stale, not as missing


@dataclass(frozen=True, slots=True)
class Overrides:
    """What the command line says over the configuration file; None: as configured."""

    config_file: Path | None = None
    plan_store: Path | None = None
    grpc_address: str | None = None
    http_address: str | None = None
    admin_address: str | None = None
    log: Path | None = None  # of the processes that serve starts; None: our stderr
    announce: Callable[[dict[str, Any]], None] = lambda _: None  # told the bound addresses, once everything listens


class PlanError(Exception):
    """A plan could not be fetched or read."""


def clock_of(config: ProcessConfig) -> Clock:
    """Return the system's clock, or the rehearsal's."""
    section = config.clock
    if section.wall_origin is None or section.origin is None:
        return SystemClock()
    return ScaledClock(section.speed, section.wall_origin, section.origin)


def source_of(section: MetricsSection, clock: Clock, decision: DecisionSettings) -> MetricsSource:
    """Return the metrics source that a section describes."""
    if section.prometheus is not None:
        return PrometheusSource(_prometheus_settings(section.prometheus, decision), clock)
    if section.scrape is not None:
        scrape = section.scrape
        return ScrapeSource(
            ScrapeSettings(scrape.targets_file, scrape.timeout_s, scrape.max_bytes, scrape.concurrency), clock
        )
    if section.replay is not None:
        return ReplaySource(section.replay.file)
    raise ValueError("metrics must name a source")


async def run_controller(config: ProcessConfig, stop: asyncio.Event, overrides: Overrides = Overrides()) -> None:
    """Run the controller role until `stop` is set."""
    clock, policy = clock_of(config), policy_of(config)
    _make_room_for_plan(config, overrides)
    async with AsyncExitStack() as stack:
        observer = await _observer(config, clock, stack)
        ports = Ports(
            policies=FixedPolicy(policy),
            observer=observer,
            plans=_plan_store(config, overrides),
            states=_state_store(config),
            leadership=SoleLeadership(),
            clock=clock,
        )
        controller = Controller(ports, heartbeat_s=config.controller.heartbeat_s)
        cadence = Cadence(config.controller.tick_s, config.controller.heartbeat_s)
        loop = ControlLoop(controller, clock, cadence, log_tick)
        registry = _registry()
        registry.register(ControllerCollector(lambda: _snapshot(controller, loop), clock.now_s, lambda: observer.stats))
        http_address = overrides.http_address or config.controller.http_address
        admin_address = overrides.admin_address or config.controller.admin_address
        http = HttpServer(metrics_app(registry, lambda: controller.ready), http_address)
        admin = admin_server(_plan_view(controller, clock), admin_address)
        await stack.enter_async_context(http)
        await stack.enter_async_context(admin)
        _announce("controller", overrides, {"http": (http_address, http.port), "admin": (admin_address, admin.port)})
        await loop.run(stop)


async def run_scaler(config: ProcessConfig, stop: asyncio.Event, overrides: Overrides = Overrides()) -> None:
    """Run the scaler role until `stop` is set. Streams end normally before the port closes."""
    clock, section = clock_of(config), config.scaler
    holder = PlanHolder(clock, ttl_s=section.plan_ttl_s, evidence_ttl_s=config.decision.evidence_ttl_s)
    follower = PlanFollower(_plan_store(config, overrides), holder, poll_s=section.plan_poll_s)
    registry = _registry()
    settings = _server_settings(section, overrides)
    http_address = overrides.http_address or section.http_address
    server = ScalerServer(holder, settings, registry, validate=lambda sent: metadata_problems(dict(sent)))
    http = HttpServer(metrics_app(registry, holder.ready), http_address)
    async with AsyncExitStack() as stack:
        await follower.poll()  # so that the first call finds the plan
        answer_promptly()
        await stack.enter_async_context(_running(follower))
        await stack.enter_async_context(http)
        await stack.enter_async_context(server)
        _announce("scaler", overrides, {"grpc": (settings.address, server.port), "http": (http_address, http.port)})
        await stop.wait()


async def serve(config: ProcessConfig, stop: asyncio.Event, overrides: Overrides = Overrides()) -> None:
    """Run both roles, each as a process of its own, until `stop` is set; one that ends by itself is started again.

    RoleError when one cannot start at all. OSError when the addresses cannot be announced.
    """
    if overrides.config_file is None:
        raise ValueError("serve needs the configuration file, for its processes to read")
    with TemporaryDirectory(prefix="headway-") as name:
        folder = Path(name)
        configured = overrides.plan_store or (config.plan_store.file if config.plan_store else None)
        common = ("--config", str(overrides.config_file), "--plan-store", str(configured or folder / "plan.json"))
        files = {role: folder / f"{role}.json" for role in ("controller", "scaler")}
        controller = _arguments(http_address=overrides.http_address, admin_address=overrides.admin_address)
        scaler = _arguments(grpc_address=overrides.grpc_address)
        given = {"controller": controller, "scaler": scaler}
        roles = [
            Role(role, (role, *common, "--json", str(file), *given[role]), announced=file)
            for role, file in files.items()
        ]
        try:
            async with asyncio.TaskGroup() as group:
                announcing = group.create_task(_announce_all(files, overrides))
                await keep_running(roles, stop, log=overrides.log)
                announcing.cancel()
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None


def plan_of(source: Path | str, workload: WorkloadId) -> Any:
    """Return the /plan document that a file holds, or that the admin address of a controller gives for one workload.

    PlanError when there is none to be had.
    """
    if isinstance(source, Path):
        try:
            return json.loads(source.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise PlanError(f"no plan in {source}: {error}") from error
    try:
        return _ask_controller(Address.parse(source), workload)
    except requests.ConnectionError as error:
        raise PlanError(f"no controller answers on {source}: {_plain(error)}") from error
    except (OSError, ValueError) as error:  # requests' errors are OSErrors, a body that is no JSON a ValueError
        raise PlanError(f"no plan from {source}: {error}") from error


def _ask_controller(address: Address, workload: WorkloadId) -> Any:
    query = {"namespace": workload.namespace, "name": workload.name}
    reachable = Address(address.host or "127.0.0.1", address.port)
    with requests.Session() as session:
        session.trust_env = False  # a proxy does not reach this machine's loopback
        answer = session.get(f"http://{reachable}/plan", params=query, timeout=10, allow_redirects=False)
        answer.raise_for_status()
        return answer.json()


def _plain(error: BaseException) -> str:
    """Return what the system said of a failed connection, out of the errors that libraries have wrapped it in."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno is not None and cause.strerror:
            return cause.strerror.lower()
        reason = next((arg for arg in cause.args if isinstance(arg, BaseException)), None)
        cause = getattr(cause, "reason", None) or reason or cause.__cause__ or cause.__context__
    return "no connection"


def _arguments(**addresses: str | None) -> tuple[str, ...]:
    given = ((f"--{name.replace('_', '-')}", value) for name, value in addresses.items() if value is not None)
    return tuple(word for pair in given for word in pair)


async def _announce_all(files: Mapping[str, Path], overrides: Overrides) -> None:
    """Announce the addresses of all roles as one, once each has said its own."""
    while not all(file.exists() for file in files.values()):  # noqa: ASYNC110  # other processes make them
        await asyncio.sleep(_ANNOUNCE_POLL_S)
    said = {role: json.loads(file.read_text(encoding="utf-8"))["addresses"] for role, file in files.items()}
    addresses = {f"{role}_{name}": value for role, ports in said.items() for name, value in ports.items()}
    overrides.announce({"schema": 1, "role": "serve", "addresses": addresses})


async def _observer(config: ProcessConfig, clock: Clock, stack: AsyncExitStack) -> CollectingObserver:
    if config.metrics is None or config.cluster is None:
        raise ValueError("a controller needs metrics and cluster")
    decision = policy_of(config).decision
    source = source_of(config.metrics, clock, decision)
    stack.push_async_callback(source.close)
    gpu_source = _gpu_source(config.gpu_metrics, source, clock, decision)
    if gpu_source is not None and gpu_source is not source:
        stack.push_async_callback(gpu_source.close)
    view = FileClusterView(config.cluster.file)
    queues = QueueSettings(config.broker.vhost, config.broker.prefetch)
    return CollectingObserver(source, view, clock, decision, gpu_source=gpu_source, queues=queues)


def _gpu_source(
    section: GpuMetricsSection | None, source: MetricsSource, clock: Clock, decision: DecisionSettings
) -> MetricsSource | None:
    if section is None:
        return None
    return source if section.same else source_of(section, clock, decision)


def _prometheus_settings(section: PrometheusSection, decision: DecisionSettings) -> PrometheusSettings:
    header = section.tenant_header
    return PrometheusSettings(
        url=section.url,
        connect_timeout_s=section.connect_timeout_s,
        read_timeout_s=section.timeout_s,
        total_timeout_s=section.timeout_s,
        max_body_bytes=section.max_bytes,
        lookback_s=_LOOKBACK * decision.stale_after_s,
        retries=section.retries,
        ca_file=section.ca_file,
        cert_file=section.cert_file,
        key_file=section.key_file,
        bearer_token_file=section.bearer_token_file,
        username=section.username,
        password_file=section.password_file,
        tenant=None if header is None else header.value,
        tenant_header="X-Scope-OrgID" if header is None else header.name,
    )


def _make_room_for_plan(config: ProcessConfig, overrides: Overrides) -> None:
    """Make the plan's folder, once: when it vanishes later, the plan in it has too. ValueError where it cannot be."""
    path = _plan_path(config, overrides)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"planStore.file must have a folder that can be made, was {path}: {error.strerror}") from error
    if path.is_dir():
        raise ValueError(f"planStore.file must be a file, was the folder {path}")


def _plan_store(config: ProcessConfig, overrides: Overrides) -> PlanStore:
    return FilePlanStore(_plan_path(config, overrides))


def _plan_path(config: ProcessConfig, overrides: Overrides) -> Path:
    path = overrides.plan_store or (config.plan_store.file if config.plan_store else None)
    if path is None:
        raise ValueError("planStore must name a file")
    return path


def _state_store(config: ProcessConfig) -> StateStore:
    path = config.controller.checkpoint
    return MemoryStateStore() if path is None else FileStateStore(path)


def _server_settings(section: ScalerSection, overrides: Overrides) -> ServerSettings:
    return ServerSettings(address=overrides.grpc_address or section.grpc_address, tls=_tls_files(section.tls))


def _tls_files(section: TlsSection | None) -> TlsFiles | None:
    if section is None:
        return None
    return TlsFiles(
        section.cert_file, section.key_file, section.client_ca_file, frozenset(section.allowed_client_names)
    )


def _snapshot(controller: Controller, loop: ControlLoop) -> ControllerSnapshot:
    report = controller.last
    return ControllerSnapshot(
        plan=report.plan if report else None,
        version=report.version if report else None,
        leading=bool(report and report.leading),
        ticks=loop.completed,
        tick_errors=loop.errors,
        ticks_skipped=loop.skipped,
        tick_duration_s=report.took_s if report else None,
    )


def _plan_view(controller: Controller, clock: Clock) -> Any:
    def view(namespace: str | None, name: str | None, limit: int, continue_: str | None) -> Mapping[str, Any]:
        report: TickReport | None = controller.last
        return plan_document(
            report.plan if report else None,
            version=report.version if report else None,
            leader=bool(report and report.leading),
            now_s=clock.now_s(),
            namespace=namespace,
            name=name,
            limit=limit,
            continue_=continue_,
        )

    return view


def _registry() -> CollectorRegistry:
    """Return a registry of this process's own: memory, CPU, file descriptors, Python."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


def _announce(role: str, overrides: Overrides, servers: Mapping[str, tuple[str, int]]) -> None:
    """Say where the role listens, with the ports that were really bound."""
    addresses = {name: str(Address(Address.parse(asked).host, port)) for name, (asked, port) in servers.items()}
    _log.info("listening", role=role, **addresses)
    overrides.announce({"schema": 1, "role": role, "addresses": addresses})


@asynccontextmanager
async def _running(follower: PlanFollower) -> AsyncIterator[None]:
    task = asyncio.create_task(follower.run(), name="plan-follower")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
