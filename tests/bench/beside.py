"""The scaler beside a controller, compared with an empty handler under the same load, at the same time.

Both servers, the client, the controller and its refits share the machine's cores. The client goes back and forth
between the servers, so both see the same machine; the scaler follows the plan all the while.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import Enum
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from scaler.adapters.clock import SystemClock
from tests.bench.arithmetic import Spread, paired_ratios
from tests.bench.children import ANSWER_S, Child, MeasurementError, announced, running
from tests.bench.figures import Figure, Target
from tests.bench.load import Side, Task

SCALER, EMPTY = "scaler", "empty"
Seen = Mapping[str, Any]  # what the client told of a row
KEDA_RPS: Final = 300.0  # what KEDA asks at its defaults about 1,000 ScaledObjects
STREAMS: Final = 16
NICE: Final = 10  # a background job's
PUSH_BOUND_S: Final = 3.0  # the plan store is polled every second; the rest is reading the plan on a busy machine

RATE: Final = Target(at_least=0.8)
LATENCY: Final = Target(at_most=3.0)
MEMORY_MB: Final = Target(at_most=300.0)
ALL: Final = Target(at_least=1.0)
NONE: Final = Target(at_most=0.0)


class Beside(Enum):
    """What runs beside the servers. The value is shown."""

    NOTHING = "alone"
    NICE = "beside a controller"  # whose refits are nice
    GREEDY = "beside a controller with refits at full priority"


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison. `rate_rps` None measures the call rate, else latencies at that rate are measured."""

    name: str
    beside: Beside
    rate_rps: float | None = None
    mix: bool = False
    streams: int = 0
    target: Target | None = None
    headline: bool = False  # measured in all rounds; the others in half of them

    @property
    def title(self) -> str:
        """What is measured, in words."""
        at = "as fast as answers come" if self.rate_rps is None else f"at {self.rate_rps:g} calls/s"
        return f"{self.name} {at}, {self.beside.value}"


ROWS: Final = (
    Row("GetMetrics", Beside.NICE, target=RATE, headline=True),
    Row("GetMetrics", Beside.NICE, KEDA_RPS, target=LATENCY, headline=True),
    Row(f"GetMetrics, {STREAMS} streams open", Beside.NICE, streams=STREAMS, target=RATE, headline=True),
    Row(f"GetMetrics, {STREAMS} streams open", Beside.NICE, KEDA_RPS, streams=STREAMS, target=LATENCY, headline=True),
    Row("KEDA's mix of calls", Beside.NICE, KEDA_RPS, mix=True),
    Row("GetMetrics", Beside.GREEDY),
    Row("GetMetrics", Beside.GREEDY, KEDA_RPS),
    Row("GetMetrics", Beside.NOTHING),
    Row("GetMetrics", Beside.NOTHING, KEDA_RPS),
)


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured."""

    workloads: int
    replicas: int
    tick_s: float
    rounds: int
    seconds: float  # on each side in each round
    slice_s: float


@dataclass(frozen=True, slots=True)
class Compared:
    """What came of a comparison: the figures, and everything behind them."""

    figures: tuple[Figure, ...]
    details: Mapping[str, Any]


def compare(
    extent: Extent, folder: Path, rows: Sequence[Row] = ROWS, *, progress: Callable[[str], None] = lambda _: None
) -> Compared:
    """Run the processes and measure every row; MeasurementError where it cannot be done."""
    measured: list[tuple[Row, Seen]] = []
    with _controller(extent, folder) as controller, _servers(folder) as (scaler, sides):
        for beside, alike in groupby(rows, key=lambda row: row.beside):
            together = tuple(alike)
            tasks = [_task(row, extent, sides) for row in together]
            with _company(beside, controller, folder), running(_load(tasks, folder)) as load:
                for row, task in zip(together, tasks, strict=True):
                    progress(f"  {row.title}")
                    measured.append((row, _heard(load, row, task)))
        peak_mb = scaler.peak_mb()
        controller.end()
        account = controller.hear()
    figures = [figure for row, seen in measured for figure in _figures(row, seen)]
    figures += _pushes(measured, account["pulses_s"])
    figures.append(Figure("scaler", "calls that failed or were answered with nonsense", "calls", _bad(measured), NONE))
    figures.append(Figure("scaler", f"peak memory, {extent.workloads} workloads", "MB", peak_mb, MEMORY_MB))
    details = {"rows": [_row_json(row, seen) for row, seen in measured], "controller": account}
    return Compared(tuple(figures), details)


@contextmanager
def _controller(extent: Extent, folder: Path) -> Iterator[Child]:
    task = {
        "workloads": extent.workloads,
        "replicas": extent.replicas,
        "tick_s": extent.tick_s,
        "plan": str(folder / "plan.json"),
        "pulsing": STREAMS,
    }
    with running(Child.module("controller", task, folder)) as controller:
        controller.hear()
        yield controller


@contextmanager
def _servers(folder: Path) -> Iterator[tuple[Child, tuple[Side, Side]]]:
    config, announcement = folder / "scaler.yaml", folder / "scaler.json"
    section = {"grpcAddress": "127.0.0.1:0", "httpAddress": "127.0.0.1:0", "planTtl": "1d"}  # it outlasts the pauses
    config.write_text(json.dumps({"planStore": {"file": "plan.json"}, "scaler": section}), encoding="utf-8")
    command = ["-m", "scaler", "scaler", "--config", str(config), "--json", str(announcement)]
    with running(Child(SCALER, command, folder)) as scaler, running(Child.module("reference", {}, folder)) as empty:
        address = announced(scaler, announcement, SystemClock())["addresses"]["grpc"]
        sides = (Side(EMPTY, empty.hear()["address"], empty.pid), Side(SCALER, address, scaler.pid))
        yield scaler, sides


@contextmanager
def _company(beside: Beside, controller: Child, folder: Path) -> Iterator[None]:
    """Have beside the servers what rows ask for."""
    if beside is Beside.NOTHING:
        with controller.paused():
            yield
        return
    with running(Child.module("refits", {"nice": NICE if beside is Beside.NICE else 0}, folder)) as refits:
        refits.hear()
        yield


def _task(row: Row, extent: Extent, sides: tuple[Side, Side]) -> Task:
    return Task(
        sides,
        extent.workloads,
        extent.rounds if row.headline else max(1, extent.rounds // 2),
        extent.seconds,
        extent.slice_s,
        rate_rps=row.rate_rps,
        mix=row.mix,
        streams=row.streams,
    )


def _load(tasks: Sequence[Task], folder: Path) -> Child:
    return Child.module("load", {"tasks": [asdict(task) for task in tasks]}, folder)


def _heard(load: Child, row: Row, task: Task) -> Seen:
    """Return what the client saw; MeasurementError if a side answered nothing at all."""
    seen = load.hear(2 * task.rounds * task.seconds + ANSWER_S)
    for side in (EMPTY, SCALER):
        if not all(numbers[side]["calls"] for numbers in seen["rounds"]):
            raise MeasurementError(f"{row.title}: the {side} answered no call: {seen['rounds'][-1][side]['error']}")
    return seen


def _figures(row: Row, seen: Seen) -> list[Figure]:
    name = row.title
    cpu = Figure.of(name, "server CPU per call / empty handler's", "ratio", _ratios(seen, "cpu_us_per_call"))
    if row.rate_rps is None:
        return [
            Figure.of(name, "call rate / empty handler's", "ratio", _ratios(seen, "rate_rps"), row.target),
            Figure.of(name, "call rate", "calls/s", _own(seen, "rate_rps")),
            cpu,
        ]
    return [
        Figure.of(name, "p99 / empty handler's", "ratio", _ratios(seen, "p99_ms"), row.target),
        Figure.of(name, "p99", "ms", _own(seen, "p99_ms")),
        Figure.of(name, "p50 / empty handler's", "ratio", _ratios(seen, "p50_ms")),
        cpu,
    ]


def _own(seen: Seen, key: str) -> Spread:
    return Spread.of([numbers[SCALER][key] for numbers in seen["rounds"]])


def _ratios(seen: Seen, key: str) -> Spread:
    rounds = seen["rounds"]
    try:
        return paired_ratios([it[SCALER][key] for it in rounds], [it[EMPTY][key] for it in rounds])
    except ValueError as error:
        raise MeasurementError(f"{key}: {error}") from error


def _pushes(measured: Sequence[tuple[Row, Seen]], pulses_s: Sequence[float]) -> list[Figure]:
    """Return how well the streams were served: whether each got its `true` after each plan that wanted it, and when."""
    delays_s = [delay for row, seen in measured if row.streams for delay in push_delays_s(seen, pulses_s)]
    if not delays_s:  # too short a run for a plan to have come out in it
        return []
    in_time = sum(delay is not None and delay <= PUSH_BOUND_S for delay in delays_s) / len(delays_s)
    name = f"pushes that arrived within {PUSH_BOUND_S:g} s of the plan"
    figures = [Figure("streams", name, "share", in_time, ALL)]
    if came := [delay for delay in delays_s if delay is not None]:
        figures.append(Figure.of("streams", "from the plan in place to `true` at the client", "s", Spread.of(came)))
    return figures


def push_delays_s(seen: Seen, pulses_s: Sequence[float]) -> list[float | None]:
    """Return, for each stream and pulse, how long after it the stream said `true`; None where it did not.

    A pulse counts if the client was there before it and long enough after it.
    """
    due = [at for at in pulses_s if seen["began_s"] <= at <= seen["ended_s"] - PUSH_BOUND_S]
    return [
        min((true - at for true in trues if at <= true <= seen["ended_s"]), default=None)
        for trues in seen["trues_s"][SCALER]
        for at in due
    ]


def _bad(measured: Sequence[tuple[Row, Seen]]) -> int:
    sides = [numbers[SCALER] for _, seen in measured for numbers in seen["rounds"]]
    lost = sum(int(seen["streams_lost"]) for _, seen in measured)
    return lost + sum(int(side["failures"]) + int(side["wrong"]) for side in sides)


def _row_json(row: Row, seen: Seen) -> dict[str, Any]:
    return {
        "name": row.name,
        "beside": row.beside.value,
        "rate_rps": row.rate_rps,
        "streams": row.streams,
        "rounds": seen["rounds"],
    }
