"""Ray Serve's metrics as signals (2.60), from the metrics agent of each Ray node: names begin with `ray_`.

A series tells its deployment, its replica and its process (`WorkerId`), and never its pod. In Kubernetes each Ray node
is a pod with its own metrics agent, so the target's `pod` says where it ran: a replica here is a worker pod, with all
Serve replicas in it.

Requests wait in the router of a handle or proxy, not in a replica. With `proxy_location: EveryNode`, the default, each
worker pod has a proxy and its share of the queue.
"""

from scaler.adapters.signals.candidates import Candidate, Kind, Preset, Signal

_PROCESS = ("application", "deployment", "WorkerId")
_ROUTER = (*_PROCESS, "actor_id", "handle", "handle_source")
_REPLICA = (*_PROCESS, "replica")


def _serve(name: str, where: tuple[tuple[str, str], ...] = (), divisor: float = 1.0) -> Candidate:
    return Candidate(f"ray_serve_{name}", where, divisor)


RAYSERVE = Preset(
    name="rayserve",
    version="2.60.0",
    owners=(("namespace", "pod"),),
    signals=(
        Signal("running", (_serve("replica_processing_queries"),), parts=_REPLICA),
        Signal("waiting", (_serve("deployment_queued_queries"),), parts=_ROUTER),
        Signal(
            "completions_rps",
            # Ray's exporter has spelt counters with and without `_total` over its versions.
            (_serve("deployment_request_counter_total"), _serve("deployment_request_counter")),
            Kind.COUNTER,
            parts=(*_REPLICA, "route"),
        ),
        Signal(
            "rejections_rps",
            (_serve("num_deployment_http_error_requests_total", (("error_code", "503"),)),),
            Kind.COUNTER,
            parts=(*_PROCESS, "method", "route"),
            optional=True,
        ),
        Signal(
            "queue_time_s",
            # Milliseconds, unlike most: from a request's arrival at the router to the replica that takes it.
            (_serve("request_router_fulfillment_time_ms_bucket", divisor=1000.0),),
            Kind.HISTOGRAM,
            parts=(*_ROUTER, "le"),
            optional=True,
            rare=True,
        ),
    ),
    notes="""\
- All deployments of a pod are summed. Where one calls another, a request is counted in each.
- Where Ray's own autoscaler is on, do not scale the pods as well.
- No limit of concurrency is exported: configure `slotsPerReplica` as `max_ongoing_requests` x replicas per pod.
  `replica_utilization_percent` is a mean over a long window and is not read.
- A pod whose proxy has had no request since its start has no queue, and counts as silent, not as idle. So are all
  worker pods with `proxy_location: HeadOnly`: take `EveryNode`.
- Values are renewed about every 10 s, whatever the interval of the scrape.
- For a model behind Ray Serve LLM take the engine `vllm`: its `ray_vllm_` names tell far more.
- The gauges follow the requests themselves and not engine steps, so standing still is not looked at: a request may
  run for minutes in which no counter moves.
- `ray_serve_deployment_request_counter` counts what succeeded.
""",
)
