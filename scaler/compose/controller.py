"""The controller role: observes, decides and publishes."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

from scaler.adapters.exporter import ControllerCollector, ControllerSnapshot
from scaler.adapters.http import HttpServer, admin_server, metrics_app
from scaler.compose.metrics import observer_of
from scaler.compose.parts import AS_CONFIGURED, Overrides, announce, clock_of, registry_of_process
from scaler.compose.stores import make_room_for_plan, plan_store_of, state_store_of
from scaler.config.process import ProcessConfig
from scaler.config.validate import policy_of
from scaler.ports import Clock
from scaler.report.plan_json import plan_document
from scaler.runtime.control import Controller, Ports, TickReport
from scaler.runtime.leadership import SoleLeadership
from scaler.runtime.logging import log_tick
from scaler.runtime.loop import Cadence, ControlLoop
from scaler.runtime.policy import FixedPolicy


async def run_controller(config: ProcessConfig, stop: asyncio.Event, overrides: Overrides = AS_CONFIGURED) -> None:
    """Run the controller role until `stop` is set."""
    clock, policy = clock_of(config), policy_of(config)
    make_room_for_plan(config, overrides)
    async with AsyncExitStack() as stack:
        observer = await observer_of(config, clock, stack)
        ports = Ports(
            policies=FixedPolicy(policy),
            observer=observer,
            plans=plan_store_of(config, overrides),
            states=state_store_of(config),
            leadership=SoleLeadership(),
            clock=clock,
        )
        controller = Controller(ports, heartbeat_s=config.controller.heartbeat_s)
        cadence = Cadence(config.controller.tick_s, config.controller.heartbeat_s)
        loop = ControlLoop(controller, clock, cadence, log_tick)
        registry = registry_of_process()
        registry.register(ControllerCollector(lambda: _snapshot(controller, loop), clock.now_s, lambda: observer.stats))
        http_address = overrides.http_address or config.controller.http_address
        admin_address = overrides.admin_address or config.controller.admin_address
        http = HttpServer(metrics_app(registry, lambda: controller.ready), http_address)
        admin = admin_server(_plan_view(controller, clock), admin_address)
        await stack.enter_async_context(http)
        await stack.enter_async_context(admin)
        announce("controller", overrides, {"http": (http_address, http.port), "admin": (admin_address, admin.port)})
        await loop.run(stop)


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
