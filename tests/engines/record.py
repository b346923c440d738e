"""Record what a real Triton exports into the fixtures: `python -m tests.engines.record`.

Durations and the use of the machine differ from run to run. What tests rely on does not: how many were served, refused
and waiting, which the order of the requests fixes.
"""

import asyncio
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from scaler.adapters.clock import SystemClock
from tests.engines import installation
from tests.engines.load import Client, client_of
from tests.engines.triton import DEADLINE_S, Model, Triton, running_triton

FIXTURES = Path(__file__).parents[1] / "fixtures" / "exposition"


@dataclass(frozen=True)
class Recording:
    """A file, the server that it comes from, and what its first lines tell of what happened before."""

    file: str
    model: str  # that requests are sent to
    models: tuple[Model, ...]
    waiting: str  # the sample that says that everything is in place
    told: tuple[str, ...]
    metrics_config: tuple[str, ...] = ()


PLAIN = Recording(
    "triton.txt",
    "render",
    (
        Model("render", queue_policy="max_queue_size: 4 default_timeout_microseconds: 500000 timeout_action: REJECT"),
        Model("embed"),
    ),
    'nv_inference_pending_request_count{model="render",version="1"} 2',
    (
        "Default metrics settings. `render` has one instance, and a queue of 4 requests that wait 0.5 s at most;",
        "`embed` is loaded and idle. Before the recording `render` served 4 requests of 0.1 s, one after the other.",
        "Then 7 of 0.4 s came at once: 2 were served, 3 waited too long (reason REJECTED), and 2 found the queue full:",
        "they were refused with 503, and no counter says so. At the recording one more runs, and 2 wait behind it.",
    ),
)
ENSEMBLE = Recording(
    "triton-ensemble.txt",
    "pipeline",
    (Model("pipeline", ensemble_of="embed"), Model("embed", instances=2)),
    'nv_inference_pending_request_count{model="embed",version="1"} 3',
    (
        "With --metrics-config=summary_latencies=true. `pipeline` is an ensemble whose only step is `embed`, of two",
        "instances. 4 requests of 0.1 s were served, and count as successes of both models; of 5 more 2 run, and 3",
        "wait: in `embed` alone.",
    ),
    ("summary_latencies=true",),
)


async def record(recording: Recording) -> None:
    """Start a server, do what the recording tells, and write the fixture."""
    with tempfile.TemporaryDirectory() as folder:
        async with (
            running_triton(Path(folder), recording.models, recording.metrics_config) as triton,
            client_of(triton.url, recording.model, SystemClock()) as client,
            asyncio.TaskGroup() as group,
        ):
            for _ in range(4):
                await client.infer(100)
            text = await _recorded(recording, triton, client, group)
    head = (
        f"Triton Inference Server {installation.VERSION} (24.10, the binary of nvidia-pytriton 0.7.0): recorded from",
        "GET /metrics of the real server on a CPU; nothing was cut. Without a GPU there are no nv_gpu_* series.",
    )
    (FIXTURES / recording.file).write_text("".join(f"# {line}\n" for line in (*head, *recording.told)) + text)


async def _recorded(recording: Recording, triton: Triton, client: Client, group: asyncio.TaskGroup) -> str:
    if recording is PLAIN:
        await asyncio.gather(*(client.infer(400) for _ in range(7)))
        statuses = Counter(answered.status for answered in client.log.answered)
        assert statuses == {200: 4 + 2, 503: 3 + 2}, statuses  # as told; the counter of refusals says 3
    for _ in range(3 if recording is PLAIN else 5):
        group.create_task(client.infer(2000))
    await asyncio.sleep(0.2)  # until all are where they stay for the rest of the two seconds
    return await _metrics_once(triton, recording.waiting)


async def _metrics_once(triton: Triton, sample: str) -> str:
    """Return the exposition as soon as it holds a sample."""
    async with aiohttp.ClientSession() as session, asyncio.timeout(DEADLINE_S):
        while True:
            async with session.get(f"http://{triton.metrics_address}/metrics") as response:
                text = await response.text()
            if sample in text.splitlines():
                return text
            await asyncio.sleep(0.02)


async def main(recordings: Sequence[Recording] = (PLAIN, ENSEMBLE)) -> None:
    """Record all."""
    for recording in recordings:
        await record(recording)


if __name__ == "__main__":
    asyncio.run(main())
