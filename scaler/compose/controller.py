"""The controller role: observes, decides and publishes."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import Any, Final

import structlog

from scaler.adapters.exporter import ControllerCollector, ControllerSnapshot
from scaler.adapters.http import HttpServer, admin_server, metrics_app
from scaler.adapters.view_metrics import ViewCollector
from scaler.compose.history import backfill_of
from scaler.compose.metrics import observer_of
from scaler.compose.outside import Cluster, Outside, outside_of_controller
from scaler.compose.parts import AS_CONFIGURED, Overrides, announce, clock_of, registry_of_process
from scaler.compose.stores import state_store_of
from scaler.config.process import ProcessConfig
from scaler.ports import Clock, Leadership
from scaler.report.plan_json import plan_document
from scaler.runtime.control import Controller, Ports, TickReport
from scaler.runtime.logging import log_tick
from scaler.runtime.loop import Cadence, ControlLoop, Reported
from scaler.runtime.notices import NoticePoster

_log = structlog.get_logger(__name__)

_READY_POLL_S: Final = 0.2


async def run_controller(config: ProcessConfig, stop: asyncio.Event, overrides: Overrides = AS_CONFIGURED) -> None:
    """Run the controller role until `stop` is set."""
    clock = clock_of(config)
    async with AsyncExitStack() as stack:
        outside = outside_of_controller(config, overrides, clock, stack)
        cluster = outside.cluster
        observer = observer_of(config, cluster, clock, stack)
        ports = Ports(
            policies=cluster.policies,
            observer=observer,
            plans=outside.plans,
            states=state_store_of(config),
            leadership=outside.leadership,
            clock=clock,
            refused=cluster.refused,
            out_of_sight=cluster.out_of_sight,
        )
        controller = Controller(ports, heartbeat_s=config.controller.heartbeat_s)
        poster = await _poster(cluster, clock, stack)
        await backfill_of(config, outside, clock, stack)
        cadence = Cadence(config.controller.tick_s, config.controller.heartbeat_s)
        loop = ControlLoop(controller, clock, cadence, _reported(cluster, poster))
        registry = registry_of_process()
        registry.register(
            ControllerCollector(
                lambda: _snapshot(controller, loop, outside.leadership), clock.now_s, lambda: observer.stats
            )
        )
        if cluster.figures is not None:
            registry.register(ViewCollector(cluster.figures))
        http_address = overrides.http_address or config.controller.http_address
        admin_address = overrides.admin_address or config.controller.admin_address
        http = HttpServer(metrics_app(registry, lambda: controller.ready), http_address)
        admin = admin_server(_plan_view(controller, outside, clock), admin_address)
        await stack.enter_async_context(http)
        await stack.enter_async_context(admin)
        announce("controller", overrides, {"http": (http_address, http.port), "admin": (admin_address, admin.port)})
        await _enough_to_decide_on(cluster, stop)
        if not stop.is_set():
            outside.take_part()
        await loop.run(stop)


async def _enough_to_decide_on(cluster: Cluster, stop: asyncio.Event) -> None:
    """Wait until the cluster has been listed: a plan made before would know no workload, and be published."""
    said: tuple[str, ...] = ()
    while not cluster.ready() and not stop.is_set():
        problems = cluster.problems()
        if problems and problems != said:
            _log.warning("waiting_for_cluster", problems=list(problems))
            said = problems
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), _READY_POLL_S)


async def _poster(cluster: Cluster, clock: Clock, stack: AsyncExitStack) -> NoticePoster | None:
    """Begin to post notices, where they go anywhere."""
    if cluster.notices is None:
        return None
    poster = NoticePoster(cluster.notices, clock)
    task = asyncio.create_task(poster.run(), name="notices")

    async def end() -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    stack.push_async_callback(end)
    return poster


def _reported(cluster: Cluster, poster: NoticePoster | None) -> Reported:
    """Return what is done with a tick's report: it is logged, and the leader tells people of what began or ended."""

    def reported(report: TickReport, before: TickReport | None) -> None:
        log_tick(replace(report, problems=(*report.problems, *cluster.problems())), before)
        notices = cluster.noticed(report.plan)  # also of a standby's: it then knows what held when it begins to lead
        if poster is not None:
            (poster.tell if report.leading else poster.keep)(notices)

    return reported


def _leads(report: TickReport | None, leadership: Leadership) -> bool:
    """Whether the last plan was the leader's, and still is: while ticks fail, or one hangs, another may have begun."""
    return report is not None and report.leading and leadership.leading


def _snapshot(controller: Controller, loop: ControlLoop, leadership: Leadership) -> ControllerSnapshot:
    report = controller.last
    return ControllerSnapshot(
        plan=report.plan if report else None,
        version=report.version if report else None,
        leading=_leads(report, leadership),
        ticks=loop.completed,
        tick_errors=loop.errors,
        ticks_skipped=loop.skipped,
        tick_duration_s=report.took_s if report else None,
    )


def _plan_view(controller: Controller, outside: Outside, clock: Clock) -> Any:
    cluster = outside.cluster

    def view(namespace: str | None, name: str | None, limit: int, continue_: str | None) -> Mapping[str, Any]:
        report: TickReport | None = controller.last
        return plan_document(
            report.plan if report else None,
            version=report.version if report else None,
            leader=_leads(report, outside.leadership),
            now_s=clock.now_s(),
            unusable=cluster.explanations(),
            problems=(*(report.problems if report else ()), *cluster.problems()),
            namespace=namespace,
            name=name,
            limit=limit,
            continue_=continue_,
        )

    return view
