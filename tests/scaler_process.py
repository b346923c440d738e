"""A scaler as a process of its own, for tests that stop or kill one: `python -m tests.scaler_process PLAN ADDRESS`.

Prints the port that it serves on once it serves.
"""

import asyncio
import signal
import sys
from pathlib import Path

from prometheus_client import CollectorRegistry

from scaler.adapters.clock import SystemClock
from scaler.adapters.keda.follow import PlanFollower
from scaler.adapters.keda.holder import PlanHolder
from scaler.adapters.keda.server import ScalerServer, ServerSettings
from scaler.adapters.plan_store import FilePlanStore


async def serve(plan: Path, address: str) -> None:
    """Serve the plan in a file until SIGTERM."""
    terminated = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminated.set)
    holder = PlanHolder(SystemClock())
    follower = PlanFollower(FilePlanStore(plan), holder, poll_s=0.02)
    following = asyncio.create_task(follower.run())
    async with ScalerServer(holder, ServerSettings(address), CollectorRegistry(), validate=lambda _: ()) as server:
        print(server.port, flush=True)  # noqa: T201 - the test reads it
        await terminated.wait()
    following.cancel()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), sys.argv[2]))
