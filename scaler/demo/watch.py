"""What is looked at while a demo runs: the plant as samples, Headway's `/plan`, changes of the scale target."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

import aiohttp

from scaler.backtest.plant import Plant
from scaler.backtest.pods import Phase
from scaler.backtest.view import FleetView
from scaler.core.plan import Change
from scaler.demo.scene import NAME, NAMESPACE, SLO_S
from scaler.report.run_record import RunSample, ScaleEvent

_SETTLED_AFTER_S = 600.0  # far longer than a request takes


class Target(Protocol):
    """The scale target that the KEDA client moves."""

    def replicas(self) -> tuple[int, int]:
        """Return spec and status replicas."""
        ...

    def scale(self, replicas: int) -> None:
        """Set spec replicas."""
        ...

    def view(self) -> FleetView:
        """Return the fleet as it is now."""
        ...


@dataclass(frozen=True, slots=True)
class Said:
    """What Headway's `/plan` said of the workload at a time (seconds since the run's start)."""

    told: int | None
    saturation: float | None
    binding: str
    reason: str
    changed: Change | None  # the target's last change, Unix seconds of the run's clock


UNSAID = Said(None, None, "none", "no plan yet", None)
_NOT_SEEN = "changed again before it was looked at"


@dataclass(slots=True)
class RecordingTarget:
    """Passes scaling on, and notes each change; the reasons come from the changes that `/plan` told of."""

    target: Target
    start_s: float
    told: list[Change] = field(default_factory=list)
    moves: list[tuple[float, int, int]] = field(default_factory=list)  # Unix seconds, before, after

    def note(self, said: Said) -> None:
        """Note what the plan says of the last change."""
        if said.changed is not None and said.changed not in self.told[-1:]:
            self.told.append(said.changed)

    def replicas(self) -> tuple[int, int]:
        """Return spec and status replicas."""
        return self.target.replicas()

    def scale(self, replicas: int) -> None:
        """Set spec replicas."""
        view = self.target.view()
        self.target.scale(replicas)
        if replicas != view.spec:
            self.moves.append((view.at_s, view.spec, replicas))

    def events(self) -> tuple[ScaleEvent, ...]:
        """Return the changes of the scale target with the reasons that were told by now."""
        return tuple(ScaleEvent(at_s - self.start_s, a, b, self._reason(at_s, b)) for at_s, a, b in self.moves)

    def _reason(self, at_s: float, replicas: int) -> str:
        reasons = [change.reason for change in self.told if change.after == replicas and change.at_s <= at_s]
        return reasons[-1] if reasons else _NOT_SEEN


class PlanWatch:
    """Looks at a controller's `/plan` and `/metrics`."""

    def __init__(self, session: aiohttp.ClientSession, admin: str, http: str) -> None:
        self._session = session
        self._plan_url = f"http://{admin}/plan"
        self._metrics_url = f"http://{http}/metrics"

    async def look(self) -> Said:
        """Return what the plan says of the demo's workload."""
        query = {"namespace": NAMESPACE, "name": NAME}
        async with self._session.get(self._plan_url, params=query) as answer:
            document: Mapping[str, Any] = await answer.json()
        if not document["workloads"]:
            return UNSAID
        entry = document["workloads"][0]
        saturation = entry["saturation"]
        return Said(
            entry["told"], saturation["value"], saturation["binding"], entry["reason"], _change(entry["changed"])
        )

    async def counters(self) -> dict[str, int]:
        """Return the controller's counters of ticks."""
        async with self._session.get(self._metrics_url) as answer:
            lines = (await answer.text()).splitlines()
        values = dict(line.rsplit(" ", 1) for line in lines if line.startswith("headway_tick"))
        return {name: int(float(value)) for name, value in values.items()}


def _change(document: Mapping[str, Any] | None) -> Change | None:
    if document is None:
        return None
    at_s = datetime.fromisoformat(document["at"]).timestamp()
    return Change(at_s, document["before"], document["after"], document["reason"])


class Sampler:
    """Makes samples of the plant."""

    def __init__(self, plant: Plant, start_s: float) -> None:
        self._plant = plant
        self._start_s = start_s
        self._last_s = start_s
        self._arrived = 0
        self._open_s = start_s  # requests that arrived before have ended, or are lost for good
        self._met = self._ended = 0  # of those

    def sample(self, view: FleetView, said: Said) -> RunSample:
        """Return what happened since the last sample, up to the view's time."""
        elapsed_s = max(view.at_s - self._last_s, 1e-9)
        recent = self._plant.scores(SLO_S, from_s=self._last_s)
        met, ended = self._so_far(view.at_s)
        usage = [metrics.kv_usage for metrics in self._plant.pods().values()]
        sample = RunSample(
            at_s=view.at_s - self._start_s,
            arrivals_rps=(view.arrived - self._arrived) / elapsed_s,
            ready=view.ready,
            pending=sum(pod.phase is Phase.PENDING for pod in view.pods),
            draining=sum(pod.phase is Phase.DRAINING for pod in view.pods),
            spec=view.spec,
            told=said.told,
            waiting=view.waiting,
            running=view.running,
            kv_usage=sum(usage) / len(usage) if usage else None,
            queue_time_p95_s=recent.queue_time_p95_s,
            attainment=met / ended if ended else None,  # of those that have ended: the rest may yet meet it
            saturation=said.saturation,
        )
        self._last_s, self._arrived = view.at_s, view.arrived
        return sample

    def _so_far(self, now_s: float) -> tuple[int, int]:
        """Return how many requests met the SLO and how many ended; scoring all of them each time would take long."""
        still_open = self._plant.scores(SLO_S, from_s=self._open_s)
        met, ended = self._met + still_open.met, self._ended + still_open.finished + still_open.rejected
        if now_s - self._open_s > 2 * _SETTLED_AFTER_S:
            self._open_s = now_s - _SETTLED_AFTER_S
            newer = self._plant.scores(SLO_S, from_s=self._open_s)
            self._met, self._ended = met - newer.met, ended - newer.finished - newer.rejected
        return met, ended
