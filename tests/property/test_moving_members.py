"""Work that moves with replicas that come and go is no growth of demand, however late samples tell of it."""

from dataclasses import dataclass
from itertools import accumulate
from math import floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.config.models import DecisionSettings
from scaler.core.demand import History, demand_of_pool
from scaler.core.members import Members, members_of
from scaler.core.observation import ReplicaReading
from scaler.core.pool import pool_replicas
from scaler.core.values import Known, Missing, Reason, value_of
from tests.core_builders import T0, TICK_S, replica, workload

DECISION = DecisionSettings()
UNHEARD = Missing(Reason.NO_SERIES)
IN_SYSTEM = 640.0


@dataclass(frozen=True)
class World:
    """One constant load; from each time on it is shared among these replicas, by these weights."""

    stages: tuple[tuple[float, dict[int, int]], ...]
    scrape_s: float

    def fleet(self, at_s: float) -> dict[int, int]:
        """Return the replicas at a time."""
        return next(fleet for since_s, fleet in reversed(self.stages) if since_s <= at_s)

    def look(self, now_s: float) -> list[ReplicaReading]:
        """Return the replicas of now, each with its newest sample; each is scraped at a time of its own."""
        return [self._reading(name, now_s) for name in self.fleet(now_s)]

    def _reading(self, name: int, now_s: float) -> ReplicaReading:
        phase_s = 0.37 * name % 1 * self.scrape_s
        sampled_s = T0 + floor((now_s - T0 - phase_s) / self.scrape_s) * self.scrape_s + phase_s
        then = self.fleet(sampled_s)
        if name not in then:
            return replica(f"chat-{name}", running=UNHEARD, waiting=UNHEARD, completions_rps=UNHEARD)
        running = IN_SYSTEM * then[name] / sum(then.values())
        return replica(f"chat-{name}", running=Known(running, now_s - sampled_s), completions_rps=1)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """A fleet of which members come and go a few times, and are scraped often or seldom.

    Every change is seen by a look, and no name comes back: neither could be told from names.
    """
    fleet, named = {0: 1}, 1
    stages = [(T0 - 1000, fleet)]
    for at_s in accumulate(draw(st.lists(st.floats(TICK_S, 90), min_size=1, max_size=8)), initial=T0):
        stay = [name for name in fleet if draw(st.booleans())]
        come = range(named, named + draw(st.integers(0 if 0 < len(stay) < len(fleet) else 1, 6)))
        fleet, named = {name: draw(st.integers(1, 9)) for name in (*stay, *come)}, come.stop
        stages.append((at_s, fleet))
    return World(tuple(stages), draw(st.sampled_from([5.0, 15.0, 30.0, 60.0])))


@given(worlds())
def test_what_moves_is_no_growth(world: World) -> None:
    """Of a constant load, what completes is all there is for scaling up; for scaling down it is never less."""
    history: History = ()
    members: Members | None = None
    last_s, now_s = world.stages[-1][0] + 180, T0 - 60
    while (now_s := now_s + TICK_S) < last_s:
        seen = world.look(now_s)
        pool = pool_replicas(seen, DECISION)
        ages_s = [reading.running.age_s for reading in seen if isinstance(reading.running, Known)]
        members = members_of(members, seen, now_s - max(ages_s) if ages_s else None, now_s)
        demand = demand_of_pool(pool, history, workload(), DECISION, now_s, comparable_from_s=members.comparable_from_s)
        history = demand.in_system
        assert value_of(demand.up) == pytest.approx(value_of(pool.completions_rps.up))
        if isinstance(demand.down, Known) and isinstance(demand.up, Known):
            assert demand.down.value >= demand.up.value
