"""`headway demo`: recorded traffic on the simulated fleet, with Headway's real processes and KEDA's calls around it."""

import asyncio
import math
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import aiohttp
import numpy as np
from rich.console import Console

from scaler.adapters.clock import ScaledClock, SystemClock
from scaler.backtest.plant import Plant
from scaler.compose import Overrides, serve
from scaler.config.address import Address
from scaler.config.load import ConfigErrors, load_config
from scaler.demo import scene
from scaler.demo.fleet import Fleet
from scaler.demo.keda_client import KedaClient, ScaledObject
from scaler.demo.prometheus_server import PrometheusError, prometheus_server
from scaler.demo.watch import UNSAID, PlanWatch, RecordingTarget, Sampler
from scaler.report.live import LiveView
from scaler.report.run_record import DemoResult, RunRecord, RunSample
from scaler.report.verdict import verdict
from scaler.runtime.processes import STOP_SIGNALS, RoleError
from scaler.traces.errors import TraceError

LEAD_IN_S: Final = 5.0  # wall seconds for the processes to start before the traffic does, and at most
LEAD_IN_SIMULATED_S: Final = 240.0  # so many: after the hold time, an idle fleet would be scaled down to its minimum
START_WITHIN_S: Final = 60.0
SAMPLE_S: Final = 60.0  # simulated seconds between samples, and at least
SAMPLE_WALL_S: Final = 0.5  # so many of the wall: a person sees no more

KEPT_UP: Final = 0.5  # of the decisions that were due: with fewer, a run says more of the machine than of Headway


class DemoError(Exception):
    """The demo cannot run as asked; the message says why."""


class DemoStopped(Exception):  # noqa: N818  # no error: it was asked to end
    """A signal ended the demo; nothing of it is left."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number.name)
        self.number = number


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The options of `headway demo`. Addresses are HOST:PORT; port 0 is any free one."""

    trace: Path | None = None
    speed: float = 120.0
    seconds: float = 75.0
    report: Path = Path("headway-report.html")
    prometheus: bool = False
    seed: int = 1
    grpc_address: str = "127.0.0.1:0"
    http_address: str = "127.0.0.1:0"
    admin_address: str = "127.0.0.1:0"
    to_stderr: bool = False

    def check(self) -> None:
        """Raise DemoError for what cannot be run."""
        if not (math.isfinite(self.speed) and 1 <= self.speed <= 1000):
            raise DemoError(f"--speed must be from 1 to 1000, was {self.speed:g}")
        if not (math.isfinite(self.seconds) and self.seconds >= 5):
            raise DemoError(f"--seconds must be >= 5, was {self.seconds:g}")
        if not self.report.parent.is_dir():
            raise DemoError(f"--report must be in a folder that exists, was {self.report}")
        if self.report.is_dir():
            raise DemoError(f"--report must be a file, was the folder {self.report}")
        if not os.access(self.report if self.report.exists() else self.report.parent, os.W_OK):
            raise DemoError(f"--report must be writable, was {self.report}")
        self._check_addresses()

    def _check_addresses(self) -> None:
        for name in ("grpc_address", "http_address", "admin_address"):
            option, text = f"--{name.replace('_', '-')}", getattr(self, name)
            try:
                address = Address.parse(text)
            except ValueError as error:
                raise DemoError(f"{option}: {error}") from error
            if name == "admin_address" and not address.loopback:
                raise DemoError(f"{option} must be a loopback address (127.0.0.1, [::1], localhost), was {text!r}")


@dataclass(slots=True)
class Run:
    """What a run gathers while it goes."""

    samples: list[RunSample]
    target: RecordingTarget
    client: KedaClient
    watch: PlanWatch
    first_decision_s: float | None = None  # wall seconds since the command began


async def run_demo(options: DemoOptions) -> DemoResult:
    """Run the demo and write its report. Must be the loop's main task: it takes over the signals that end a process.

    DemoError when it cannot run as asked. DemoStopped when a signal ended it; its processes and files are gone then.
    """
    options.check()
    stop = asyncio.Event()
    caught = _cancel_on_signals(stop)
    try:
        return await _run(options, stop)
    except asyncio.CancelledError:
        if not caught:
            raise
        raise DemoStopped(caught[0]) from None


def _cancel_on_signals(stop: asyncio.Event) -> list[signal.Signals]:
    """On the first signal cancel this task; return the list in which that signal will be. More of them change nothing.

    `stop` is set at once: Ctrl-C reaches the processes too, and their end must not look like a failure.
    """
    loop, main = asyncio.get_running_loop(), asyncio.current_task()
    caught: list[signal.Signals] = []

    def end(number: signal.Signals) -> None:
        if not caught and main is not None:
            caught.append(number)
            stop.set()
            main.cancel()

    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, end, number)
    return caught


async def _run(options: DemoOptions, stop: asyncio.Event) -> DemoResult:
    began_s = SystemClock().monotonic_s()
    try:
        traffic = scene.traffic_of(options.trace, options.seconds * options.speed, options.seed)
    except (TraceError, ValueError, OSError) as error:
        raise DemoError(str(error)) from error
    console = Console(stderr=options.to_stderr)
    with TemporaryDirectory(prefix="headway-demo-") as name:
        folder = Path(name)
        try:
            record = await _play(options, traffic, folder, console, began_s, stop)
        except (PrometheusError, RoleError, ConfigErrors) as error:
            raise DemoError(str(error)) from error
        except Exception:  # the command's edge: the log goes with the folder
            _show_log(folder / "headway.log")
            raise
    try:
        await asyncio.to_thread(_write_report, record, options.report)
    except OSError as error:
        raise DemoError(f"--report {options.report} cannot be written: {error.strerror}") from error
    console.print(_summary(record, options.report), markup=False, highlight=False)
    return record.result


async def _play(
    options: DemoOptions,
    traffic: scene.Traffic,
    folder: Path,
    console: Console,
    began_s: float,
    stop: asyncio.Event,
) -> RunRecord:
    arrivals = traffic.arrivals
    lead_in_s = min(LEAD_IN_S, LEAD_IN_SIMULATED_S / options.speed)
    clock = ScaledClock(options.speed, SystemClock().now_s() + lead_in_s, arrivals.start_s)
    plant = Plant(traffic.profile, arrivals, options.seed, traffic.first_replicas, name=scene.NAME)
    async with AsyncExitStack() as stack:
        fleet = await stack.enter_async_context(
            Fleet(plant, clock, folder, namespace=scene.NAMESPACE, end_s=arrivals.end_s)
        )
        url = None
        if options.prometheus:
            interval_s = clock.wall_duration(scene.TICK_S)
            url = await stack.enter_async_context(prometheus_server(folder, fleet.targets_path, interval_s))
        asked = scene.Addresses(options.grpc_address, options.http_address, options.admin_address)
        metadata = scene.metadata_of(traffic.profile)
        config = scene.write_configuration(folder, clock, asked, metadata, fleet.targets_path, fleet.cluster_path, url)
        addresses = await stack.enter_async_context(_headway(config, folder, stop))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        target = RecordingTarget(fleet, arrivals.start_s)
        run = Run(
            samples=[],
            target=target,
            client=KedaClient(addresses["scaler_grpc"], _scaled_object(metadata), target, clock),
            watch=PlanWatch(session, addresses["controller_admin"], addresses["controller_http"]),
        )
        title = f"headway demo: {traffic.name}, {options.speed:g} times faster, {plant.profile.name}"
        view = stack.enter_context(LiveView(console, title=title, objective=scene.OBJECTIVE))
        await _follow(run, fleet, view, clock, arrivals.end_s, began_s)
        counters = await run.watch.counters()
    result = _result(options, traffic, plant, run, counters, began_s)
    settings = scene.settings_of(traffic, options.speed, options.seed, prometheus=options.prometheus)
    behind = fell_behind(result)
    return RunRecord(
        title=title,
        trace=traffic.name,
        attribution=traffic.attribution,
        speed=options.speed,
        slo_s=scene.SLO_S,
        objective=scene.OBJECTIVE,
        samples=tuple(run.samples),
        events=target.events(),
        settings=(*settings, ("decisions", behind)) if behind else settings,
        result=result,
        capacity_rps=plant.profile.capacity_rps,
    )


def _scaled_object(metadata: dict[str, str]) -> ScaledObject:
    return ScaledObject(scene.NAMESPACE, scene.NAME, metadata, scene.HPA, scene.KEDA)


@asynccontextmanager
async def _headway(config: Path, folder: Path, stop: asyncio.Event) -> AsyncIterator[dict[str, str]]:
    """Run both roles as processes until `stop` is set or the context ends; yield the addresses on which to reach them.

    RoleError when they do not start.
    """
    announced = asyncio.get_running_loop().create_future()
    overrides = Overrides(config_file=config, log=folder / "headway.log", announce=announced.set_result)
    serving = asyncio.create_task(serve(load_config(config), stop, overrides))
    try:
        done, _ = await asyncio.wait({announced, serving}, timeout=START_WITHIN_S, return_when=asyncio.FIRST_COMPLETED)
        if serving in done:
            await serving  # raises what kept them from starting
        if announced not in done:
            _show_log(folder / "headway.log")
            raise RoleError(f"Headway's processes did not listen within {START_WITHIN_S:g} s")
        said: dict[str, Any] = announced.result()
        yield {name: _reachable(address) for name, address in said["addresses"].items()}
    finally:
        stop.set()
        if not serving.done():
            await serving


def _reachable(listening: str) -> str:
    """Return where to connect to what listens on an address: all interfaces include the loopback one."""
    address = Address.parse(listening)
    return str(Address(address.host or "127.0.0.1", address.port))


async def _follow(run: Run, fleet: Fleet, view: LiveView, clock: ScaledClock, end_s: float, began_s: float) -> None:
    """Let KEDA's client scale the fleet until the traffic ends, and look on."""
    sampler = Sampler(fleet.plant, run.target.start_s)
    pause_s = max(SAMPLE_WALL_S, clock.wall_duration(SAMPLE_S))
    polling = asyncio.create_task(run.client.run())
    try:
        while not polling.done():
            said = await run.watch.look()
            run.target.note(said)
            if said is not UNSAID and run.first_decision_s is None:
                run.first_decision_s = SystemClock().monotonic_s() - began_s
            now = fleet.view()
            if now.arrived:
                run.samples.append(sampler.sample(now, said))
                reason = said.changed.reason if said.changed else said.reason
                view.update(run.samples[-1], said.saturation, said.binding, reason, planned=said is not UNSAID)
            if now.at_s >= end_s:
                break
            await asyncio.sleep(min(pause_s, max(0.0, clock.wall_duration(end_s - now.at_s))))
    finally:
        run.client.stop()
        await polling


def _result(
    options: DemoOptions, traffic: scene.Traffic, plant: Plant, run: Run, counters: dict[str, int], began_s: float
) -> DemoResult:
    scores = plant.scores(scene.SLO_S)
    ready = [sample.ready for sample in run.samples]
    latencies_ms = [call.latency_s * 1000 for call in run.client.calls]
    simulated_s = traffic.arrivals.end_s - traffic.arrivals.start_s
    moves = [(before, after) for _, before, after in run.target.moves]
    most = max((max(move) for move in moves), default=traffic.first_replicas)
    gpus = plant.profile.gpus_per_replica
    return DemoResult(
        trace=traffic.name,
        ticks=counters["headway_ticks_total"],
        grpc_calls=len(run.client.calls),
        grpc_p99_ms=float(np.quantile(latencies_ms, 0.99)) if latencies_ms else None,
        replicas_min=min(ready, default=None),
        replicas_max=max(ready, default=None),
        scale_ups=sum(after > before for before, after in moves),
        scale_downs=sum(after < before for before, after in moves),
        slo_attainment=scores.attainment,
        gpu_hours=scores.gpu_hours,
        requests=scores.requests,
        surges=traffic.surges,
        speed=options.speed,
        simulated_s=simulated_s,
        wall_s=SystemClock().monotonic_s() - began_s,
        grpc_errors=sum(call.code != "OK" for call in run.client.calls),
        ticks_due=int(simulated_s / scene.TICK_S),
        tick_errors=counters["headway_tick_errors_total"],
        first_decision_s=run.first_decision_s,
        queue_time_p50_s=scores.queue_time_p50_s,
        queue_time_p99_s=scores.queue_time_p99_s,
        static_peak_gpu_hours=most * gpus * simulated_s / 3600,
        prometheus=options.prometheus,
    )


def _write_report(record: RunRecord, path: Path) -> None:
    from scaler.report.html import write_report  # noqa: PLC0415  # matplotlib is slow to import: only a finished run does

    write_report(record, path)


def _summary(record: RunRecord, report: Path) -> str:
    served, cost = verdict(record)
    result = record.result
    moves = f"{result.scale_ups} scale-ups and {result.scale_downs} scale-downs"
    surges = "" if result.surges is None else f", {result.surges} surges"
    behind = fell_behind(result)
    told = f"\nNote: {behind}." if behind else ""
    return f"\n{served} {cost}\n{moves}{surges}.{told} The report is in {report}."


def fell_behind(result: DemoResult) -> str | None:
    """Return what to say of a run in which less than half of the decisions that were due were made, else None."""
    if result.ticks >= KEPT_UP * result.ticks_due:
        return None
    return f"this machine managed {result.ticks} of {result.ticks_due} decisions at this speed: try a lower --speed"


def _show_log(log: Path) -> None:
    """Show the end of the processes' log, which goes with the temporary folder."""
    if log.exists():
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        Console(stderr=True).print("\n".join(lines[-20:]), markup=False, highlight=False)
