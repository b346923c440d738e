"""What each gateway exports about a route, and what its counters leave out.

Envoy, by the statistics of an upstream cluster: every attempt ends in one of `upstream_rq_total` (it got a connection),
`upstream_cx_none_healthy` (no replica), `pending_failure_eject` (the connection failed), `pending_overflow` (a circuit
breaker) and `cancelled` (the client left first). Less the retries these are the requests that arrived, at the time when
they arrived. `upstream_rq_completed` is not used: it lacks what is under way and what a client gave up, and
`upstream_rq_total` alone stands still while there is no replica. Checked against a running Envoy 1.40.

Istio counts a request when it ends, at each proxy on its way: `reporter` is `source` (the caller's sidecar, or an
ingress gateway), `waypoint`, or `destination` (the replica's sidecar). Each of the three counts a request at most once,
so they are never added up; none need see all, so the largest counts. Where a service has no endpoint, only `source` and
`waypoint` report, with a response flag such as UH, and `destination_service_namespace` is `unknown` (istio#49842): the
route is then read from the host in `destination_service`.

EPP (llm-d router, Gateway API Inference Extension) with flow control counts a request when it leaves the queue,
whatever came of it; with the growth of the queue these are the arrivals. Requests wait there while there is no replica.
Newer versions export each series under two names, drop those of a flow that has long been idle (its queue may read -1
for a while, by their own account), and have the pool's saturation from the start: it proves, where a pool has no
request counter, that it had no request.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from scaler.config.gateways import ENVOY, EPP, ISTIO, ROUTE_LABELS


@dataclass(frozen=True, slots=True)
class Flow:
    """A series whose change over the window is a part of what arrived. The first name that a target exports counts."""

    names: tuple[str, ...]
    gauge: bool = False  # its growth counts, which may be negative
    sign: int = 1  # -1: what it counts is in another flow once too often


@dataclass(frozen=True, slots=True)
class Gateway:
    """How the requests of a route are counted.

    `dated` is what every target that speaks of a route exports of it: its newest samples date the reading. `started` is
    what a target exports from its start: where it was seen a window ago and a counter was not, the counter started at
    zero since. `from_start` says that `dated` is there before the first request: no counter then means no request.
    """

    name: str
    flows: tuple[Flow, ...]
    dated: tuple[str, ...]
    started: tuple[str, ...]
    waiting: tuple[str, ...] = ()  # requests that the gateway itself holds back
    where: tuple[str, ...] = ()  # further matchers of all but `started`
    extra: tuple[str, ...] = ()  # further labels that answers are grouped by
    from_start: bool = False
    by_host: bool = False  # the route may be told by a host alone

    @property
    def labels(self) -> tuple[str, str]:
        """The labels whose values are a route's identity."""
        return ROUTE_LABELS[self.name]


def _epp(name: str) -> tuple[str, ...]:
    """Return a series' names, newest first: both the new and the deprecated ones are exported for a time."""
    return tuple(f"{prefix}_flow_control_{name}" for prefix in ("llm_d_epp", "llm_d_router_epp", "inference_extension"))


def _envoy(name: str) -> tuple[str, ...]:
    return (f"envoy_cluster_upstream_{name}",)


_ENVOY = Gateway(
    name=ENVOY,
    flows=(
        Flow(_envoy("rq_total")),
        Flow(_envoy("cx_none_healthy")),
        Flow(_envoy("rq_pending_failure_eject")),
        Flow(_envoy("rq_pending_overflow")),
        Flow(_envoy("rq_cancelled")),
        Flow(_envoy("rq_retry"), sign=-1),
    ),
    dated=(*_envoy("rq_total"), *_envoy("cx_none_healthy")),
    started=("envoy_server_live",),
    waiting=_envoy("rq_pending_active"),
)
_ISTIO = Gateway(
    name=ISTIO,
    flows=(Flow(("istio_requests_total",)),),
    dated=("istio_requests_total",),
    started=("istio_build",),
    where=('reporter=~"source|destination|waypoint"',),
    extra=("reporter", "destination_service"),
    by_host=True,
)
_EPP = Gateway(
    name=EPP,
    flows=(
        Flow(("llm_d_epp_flow_control_requests_total", *_epp("request_queue_duration_seconds_count"))),
        Flow(_epp("queue_size"), gauge=True),
    ),
    dated=_epp("pool_saturation"),
    started=_epp("pool_saturation"),
    waiting=_epp("queue_size"),
    from_start=True,
)
GATEWAYS: Mapping[str, Gateway] = {gateway.name: gateway for gateway in (_ENVOY, _ISTIO, _EPP)}
