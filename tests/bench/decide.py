"""What deciding costs: CPU time of the real `step` over all workloads, tick after tick, once it has a history.

A process of the bench.
"""

import time
from typing import Any, Final

from scaler.adapters.clock import SystemClock
from scaler.core.engine import step
from scaler.core.state import EngineState
from tests.bench.children import say, told
from tests.bench.fleet import Fleet, policy

WARM_UP_TICKS: Final = 2
TICK_S: Final = 15.0


def measure(workloads: int, replicas: int, ticks: int) -> list[float]:
    """Return the CPU seconds of each tick's decision."""
    fleet, settings = Fleet(workloads, replicas), policy(workloads)
    state, now_s = EngineState.empty(), SystemClock().now_s()
    took_s = []
    for _ in range(WARM_UP_TICKS + ticks):
        observation = fleet.advance()
        now_s += TICK_S
        before_s = time.process_time()
        state = step(state, observation, settings, now_s).state
        took_s.append(time.process_time() - before_s)
    return took_s[WARM_UP_TICKS:]


def main() -> None:
    """Measure what the parent asks for."""
    task: dict[str, Any] = told()
    say({"took_s": measure(int(task["workloads"]), int(task["replicas"]), int(task["ticks"]))})


if __name__ == "__main__":
    main()
