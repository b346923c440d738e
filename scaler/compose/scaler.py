"""The scaler role: answers KEDA from the published plan."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from scaler.adapters.http import HttpServer, metrics_app
from scaler.adapters.keda.follow import PlanFollower
from scaler.adapters.keda.holder import PlanHolder
from scaler.adapters.keda.server import ScalerServer, ServerSettings
from scaler.adapters.keda.tls import TlsFiles
from scaler.compose.outside import plan_store_of_scaler
from scaler.compose.parts import AS_CONFIGURED, Overrides, announce, clock_of, registry_of_process
from scaler.config.metadata import metadata_problems
from scaler.config.process import ProcessConfig, ScalerSection, TlsSection
from scaler.runtime.interpreter import answer_promptly


async def run_scaler(config: ProcessConfig, stop: asyncio.Event, overrides: Overrides = AS_CONFIGURED) -> None:
    """Run the scaler role until `stop` is set. Streams end normally before the port closes."""
    clock, section = clock_of(config), config.scaler
    holder = PlanHolder(clock, ttl_s=section.plan_ttl_s, evidence_ttl_s=config.decision.evidence_ttl_s)
    registry = registry_of_process()
    settings = _server_settings(section, overrides)
    http_address = overrides.http_address or section.http_address
    server = ScalerServer(holder, settings, registry, validate=lambda sent: metadata_problems(dict(sent)))
    http = HttpServer(metrics_app(registry, holder.ready), http_address)
    async with AsyncExitStack() as stack:
        plans = plan_store_of_scaler(config, overrides, clock, stack)
        follower = PlanFollower(plans, holder, poll_s=section.plan_poll_s)
        await follower.poll()  # so that the first call finds the plan
        answer_promptly()
        await stack.enter_async_context(_running(follower))
        await stack.enter_async_context(http)
        await stack.enter_async_context(server)
        announce("scaler", overrides, {"grpc": (settings.address, server.port), "http": (http_address, http.port)})
        await stop.wait()


def _server_settings(section: ScalerSection, overrides: Overrides) -> ServerSettings:
    return ServerSettings(address=overrides.grpc_address or section.grpc_address, tls=_tls_files(section.tls))


def _tls_files(section: TlsSection | None) -> TlsFiles | None:
    if section is None:
        return None
    return TlsFiles(
        section.cert_file, section.key_file, section.client_ca_file, frozenset(section.allowed_client_names)
    )


@asynccontextmanager
async def _running(follower: PlanFollower) -> AsyncIterator[None]:
    task = asyncio.create_task(follower.run(), name="plan-follower")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
