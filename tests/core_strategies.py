"""Hypothesis strategies for the core: readings, replicas, observations, settings."""

from dataclasses import fields, replace

from hypothesis import strategies as st

from scaler.core.observation import GatewayReading, QueueReading, ReplicaCounts, ReplicaReading, WorkloadObservation
from scaler.core.values import BENIGN, Frozen, Known, Missing, Reading, Reason, Stale

GAPS = sorted(set(Reason) - BENIGN)
READING_FIELDS = tuple(f.name for f in fields(ReplicaReading) if f.name != "pod")
QUEUE_FIELDS = tuple(f.name for f in fields(QueueReading))
GATEWAY_FIELDS = tuple(f.name for f in fields(GatewayReading))


def known(low: float, high: float) -> st.SearchStrategy[Known]:
    """A known value within bounds, of some age."""
    return st.builds(Known, st.floats(low, high), st.floats(0, 90))


gaps: st.SearchStrategy[Reading] = st.one_of(
    st.sampled_from(GAPS).map(Missing), st.floats(91, 9e4).map(Stale), st.floats(60, 9e4).map(Frozen)
)

healthy_replicas: st.SearchStrategy[ReplicaReading] = st.builds(
    ReplicaReading,
    pod=st.just("pod"),
    running=known(0, 64),
    waiting=known(0, 500),
    kv_usage=known(0, 1),
    completions_rps=known(0, 20),
    preemptions_rps=known(0, 3),
    rejections_rps=known(0, 5),
    gpu_activity=st.one_of(known(0, 1), st.just(Missing(Reason.NOT_CONFIGURED))),
    still_s=known(0, 200),
    slots=st.one_of(known(1, 64), st.just(Missing(Reason.NOT_EXPORTED))),
)
gateways: st.SearchStrategy[GatewayReading] = st.builds(
    GatewayReading,
    arrivals_rps=st.just(Known(0.0)) | known(0, 100),
    waiting=st.one_of(st.just(Known(0.0)), known(0, 500), st.just(Missing(Reason.NOT_EXPORTED))),
)


@st.composite
def healthy(draw: st.DrawFn, *, most: int = 12) -> WorkloadObservation:
    """A workload of which everything is known."""
    pods = tuple(replace(r, pod=f"pod-{i}") for i, r in enumerate(draw(st.lists(healthy_replicas, max_size=most))))
    pending, blocked = draw(st.integers(0, 5)), draw(st.sampled_from([0, 0, 0, 2]))
    spec = draw(st.integers(0, 20))
    counts = ReplicaCounts(spec=max(spec, len(pods)), ready=len(pods), pending=pending, blocked=blocked)
    return WorkloadObservation(counts, pods, rollout=draw(st.sampled_from([False, False, True])))


def behind_gateway() -> st.SearchStrategy[WorkloadObservation]:
    """A workload behind a gateway of which everything is known."""
    return st.builds(lambda seen, gateway: replace(seen, gateway=gateway), healthy(), gateways)


def lit() -> st.SearchStrategy[WorkloadObservation]:
    """A workload of any kind of which everything is known."""
    return st.one_of(healthy(), consumed_queue(), behind_gateway())


@st.composite
def consumed_queue(draw: st.DrawFn) -> WorkloadObservation:
    """A workload behind a broker of which everything is known."""
    ready = draw(st.integers(0, 12))
    reading = QueueReading(
        waiting=draw(st.just(Known(0.0)) | known(0, 500)),
        unacked=draw(st.just(Known(0.0)) | known(0, 50)),
        consumers=Known(ready),
        prefetch=Known(draw(st.integers(1, 8))),
        arrivals_rps=draw(known(0, 50)),
        completions_rps=draw(known(0, 50)),
    )
    return WorkloadObservation(ReplicaCounts(spec=ready, ready=ready), queue=reading)


@st.composite
def blinded(draw: st.DrawFn, seen: WorkloadObservation) -> WorkloadObservation:
    """Take one or more signals out of sight, on every replica, on the queue or at the gateway; or the view itself."""
    if draw(st.integers(0, 9)) == 0:
        return replace(seen, counts=draw(st.sampled_from(GAPS).map(Missing)))
    if seen.queue is not None:
        names = draw(st.sets(st.sampled_from(QUEUE_FIELDS), min_size=1))
        return replace(seen, queue=replace(seen.queue, **{name: draw(gaps) for name in sorted(names)}))
    if seen.gateway is not None and draw(st.booleans()):
        names = draw(st.sets(st.sampled_from(GATEWAY_FIELDS), min_size=1))
        return replace(seen, gateway=replace(seen.gateway, **{name: draw(gaps) for name in sorted(names)}))
    names = draw(st.sets(st.sampled_from(READING_FIELDS), min_size=1))
    gap = {name: draw(gaps) for name in sorted(names)}
    hidden = (replace(r, **gap) for r in seen.replicas)  # type: ignore[arg-type]  # names of readings
    return replace(seen, replicas=tuple(hidden))


@st.composite
def maybe_blinded(draw: st.DrawFn) -> WorkloadObservation:
    """Anything that a tick may see."""
    seen = draw(lit())
    if not draw(st.booleans()):
        return seen
    partly = tuple(replace(r, running=draw(gaps)) if draw(st.booleans()) else r for r in seen.replicas)
    return draw(blinded(replace(seen, replicas=partly)))
