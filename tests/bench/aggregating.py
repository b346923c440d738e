"""A process of the bench: a metrics server that answers aggregated queries over real HTTP, as Prometheus would.

It knows a fleet of vLLM pods, each on a GPU that dcgm-exporter tells of, and evaluates nothing: from names and
namespaces in a query it writes the rows that the real server would return. Its clock goes on by a tick each time that
it is asked for it.
"""

import asyncio
import random
import re
from collections.abc import Iterator
from typing import Final

from aiohttp import web

from tests.bench.children import say, told
from tests.bench.fleet import workload_ids

START_S: Final = 1_700_000_000.0
TICK_S: Final = 15.0
_AGE_S: Final = 5.0  # of a sample, when it is asked for
_TOGETHER: Final = 10  # pods that are as busy as each other: those of a workload
_MOVES_IN: Final = 7  # ticks: so long is a workload as busy as it is
_CLOCK: Final = "vector(time())"
_GPU: Final = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
_NAMES: Final = re.compile(r'__name__=~?"([^"]*)"')
_NAMESPACES: Final = re.compile(r'namespace=~"([^"]*)"')


def pod_names(workload: str, replicas: int) -> tuple[str, ...]:
    """Return the names of a workload's pods, as a Deployment gives them."""
    return tuple(f"{workload}-7f9c9d6b8{number % 10}-x{number:04}" for number in range(replicas))


def value_of(name: str, pod: int, tick: int, load: int | None = None) -> str | None:
    """Return what a pod's series is at a tick, or None where it has none. Its engine finishes 4 requests a second.

    `load` is the tick whose gauges it shows: they stay as they were then, where it is not this one.
    """
    done, load = 1000 * pod + 60 * tick, tick if load is None else load
    level = (load + pod // _TOGETHER) // _MOVES_IN % 4
    return {
        "vllm:num_requests_running": str(12 + 6 * level + pod % 3),
        "vllm:num_requests_waiting_by_reason": str((pod + load) % 7 // 6),
        "vllm:kv_cache_usage_perc": f"{0.2 + (pod + load) % 50 / 100:.4f}",
        "vllm:request_success_total": str(done),
        "vllm:prompt_tokens_total": str(700 * done),
        "vllm:generation_tokens_total": str(200 * done),
        "vllm:num_preemptions_total": "0",
        "vllm:request_queue_time_seconds_bucket": "0.285",
        _GPU: f"{0.3 + (pod + load) % 60 / 100:.4f}",
    }.get(name)


class Fleet:
    """The pods by namespace, in the order of no order: that of a server's index."""

    def __init__(self, workloads: int, replicas: int) -> None:
        self.tick = 0
        self.load: int | None = None  # the tick whose load stays; None: it moves
        self._pods: dict[str, list[tuple[int, str]]] = {}
        for number, key in enumerate(workload_ids(workloads)):
            mine = self._pods.setdefault(key.namespace, [])
            mine += ((number * replicas + i, pod) for i, pod in enumerate(pod_names(key.name, replicas)))
        rng = random.Random(1)  # noqa: S311  # an order, no secret
        for pods in self._pods.values():
            rng.shuffle(pods)

    @property
    def now_s(self) -> float:
        return START_S + self.tick * TICK_S

    def rows(self, query: str) -> Iterator[str]:
        """Yield the rows of a query as JSON."""
        at_s = f"{self.now_s:.3f}"
        if query == _CLOCK:
            yield f'{{"metric":{{}},"value":[{at_s},"{at_s}"]}}'
            return
        if " > 1" in query or "== 0" in query:  # pods with several ranks, pods that are down: there are none
            return
        namespaces = _NAMESPACES.findall(query)[0].split("|")
        asked = dict.fromkeys(name for found in _NAMES.findall(query) for name in found.split("|"))
        for name in asked:
            if value_of(name, 0, 0) is not None:
                yield from self._of_name(query, name, namespaces)

    def _of_name(self, query: str, name: str, namespaces: list[str]) -> Iterator[str]:
        label = "asked" if "histogram_quantile" in query else "__name__"
        named = "" if "timestamp(" in query else f'"{label}":"{name}",'
        for namespace in namespaces:
            for number, pod in self._pods.get(namespace, ()):
                value = value_of(name, number, self.tick, self.load) if named else f"{self._sampled_s(number):.3f}"
                labels = named + _labels(name, namespace, pod)
                yield f'{{"metric":{{{labels}}},"value":[{self.now_s:.3f},"{value}"]}}'

    def _sampled_s(self, pod: int) -> float:
        return self.now_s - _AGE_S + pod % 100 / 1000


def _labels(name: str, namespace: str, pod: str) -> str:
    """Return who a series is about: an engine itself, or, of a GPU, the pod that the exporter found on it."""
    if name == _GPU:
        return f'"exported_namespace":"{namespace}","exported_pod":"{pod}","namespace":"gpu-operator"'
    return f'"namespace":"{namespace}","pod":"{pod}"'


FLEET: Final = web.AppKey("fleet", Fleet)


async def _query(request: web.Request) -> web.Response:
    fleet = request.app[FLEET]
    query = str((await request.post())["query"])
    if query == _CLOCK:
        fleet.tick += 1
    body = f'{{"status":"success","data":{{"resultType":"vector","result":[{",".join(fleet.rows(query))}]}}}}'
    return web.Response(text=body, content_type="application/json")


async def _steady(request: web.Request) -> web.Response:
    """Let the load stay as it is. Counters go on."""
    fleet = request.app[FLEET]
    fleet.load = fleet.tick
    return web.Response()


async def serve(fleet: Fleet) -> None:
    """Serve until the process is ended."""
    app = web.Application()
    app[FLEET] = fleet
    app.router.add_post("/api/v1/query", _query)
    app.router.add_post("/steady", _steady)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    say({"url": f"http://{host}:{port}"})
    await asyncio.Event().wait()


if __name__ == "__main__":
    task = told()
    asyncio.run(serve(Fleet(int(task["workloads"]), int(task["replicas"]))))
