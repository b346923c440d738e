"""A rollout under a constant load, second by second: requests that take their time, and samples a scrape apart.

New replicas become ready, soon afterwards as many old ones leave the view and finish out of sight what they have. New
requests go to the replica that has the fewest.
"""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from scaler.adapters.signals.counters import CounterTracker
from scaler.core.observation import ReplicaCounts, ReplicaReading, WorkloadObservation
from scaler.core.plan import Recommendation
from scaler.core.values import Known, Missing, Reason
from tests.core_builders import TICK_S, Ticker, replica, workload

SLOTS = 32
SCRAPE_S = 15
_UNHEARD = Missing(Reason.NO_SERIES)


class Rollout:
    """Replicas, of which the first ones are old, under the load for `load` replicas of requests of `lasting_s` each."""

    def __init__(self, replicas: int, load: float, lasting_s: int) -> None:
        self.ready = list(range(replicas))
        self.lasting_s = lasting_s
        self.ticker = Ticker(workload(slots_per_replica=SLOTS, capacity_per_replica=SLOTS / lasting_s))
        self._in_system = int(load * SLOTS * self.ticker.decision.utilisation_target)
        self._running = dict.fromkeys(self.ready, 0)
        self._done = dict.fromkeys(self.ready, 0)
        self._samples: dict[int, tuple[float, int]] = {}  # by replica: when, and how many ran
        self._counters = CounterTracker(window_s=60, grace_s=90)
        self._ends: list[tuple[float, int]] = []
        for number in range(self._in_system):
            self._arrive(number * lasting_s / self._in_system - lasting_s)
        self._arrived_until_s = 0.0
        self._now_s = 0

    def recommendations(self, for_s: int) -> Iterator[Recommendation]:
        """Let time pass; give what is recommended at each tick."""
        for _ in range(for_s):
            self._now_s += 1
            self._serve()
            self._scrape()
            if self._now_s % TICK_S == 0:
                yield self.ticker.tick(self._seen())

    def swap(self, number: int, overlap_s: int) -> Iterator[Recommendation]:
        """Let so many new replicas become ready, and then let as many old ones go."""
        first = max(self._running) + 1
        for name in range(first, first + number):
            self._running[name] = self._done[name] = 0
            self.ready.append(name)
        yield from self.recommendations(overlap_s)
        del self.ready[:number]
        self._ends = [(at, name) for at, name in self._ends if name in self.ready]
        heapify(self._ends)

    def _arrive(self, at_s: float) -> None:
        name = min(self.ready, key=lambda it: (self._running[it], it))
        self._running[name] += 1
        heappush(self._ends, (at_s + self.lasting_s, name))

    def _serve(self) -> None:
        every_s = self.lasting_s / self._in_system
        while self._arrived_until_s + every_s <= self._now_s:
            self._arrived_until_s += every_s
            self._finish(self._arrived_until_s)
            self._arrive(self._arrived_until_s)
        self._finish(self._now_s)

    def _finish(self, until_s: float) -> None:
        while self._ends and self._ends[0][0] <= until_s:
            _, name = heappop(self._ends)
            self._running[name] -= 1
            self._done[name] += 1

    def _scrape(self) -> None:
        for name in self.ready:
            if (self._now_s + 7 * name) % SCRAPE_S == 0:  # each at a time of its own
                self._samples[name] = (self._now_s, self._running[name])
                self._counters.observe(name, self._now_s, self._done[name])

    def _seen(self) -> WorkloadObservation:
        counts = ReplicaCounts(spec=20, ready=len(self.ready))
        return WorkloadObservation(counts, tuple(map(self._reading, self.ready)), rollout=True)

    def _reading(self, name: int) -> ReplicaReading:
        if name not in self._samples:
            return replica(f"chat-{name}", running=_UNHEARD, waiting=_UNHEARD, completions_rps=_UNHEARD)
        at_s, running = self._samples[name]
        age_s = float(self._now_s - at_s)
        return replica(
            f"chat-{name}",
            running=Known(min(running, SLOTS), age_s),
            waiting=Known(max(0, running - SLOTS), age_s),
            completions_rps=self._counters.rate(name, self._now_s),
        )
