"""Hypothesis strategies for the core: readings, replicas, observations, settings."""

from dataclasses import fields, replace

from hypothesis import strategies as st

from scaler.core.observation import QueueReading, ReplicaCounts, ReplicaReading, WorkloadObservation
from scaler.core.values import BENIGN, Frozen, Known, Missing, Reading, Reason, Stale

GAPS = sorted(set(Reason) - BENIGN)
READING_FIELDS = tuple(f.name for f in fields(ReplicaReading) if f.name != "pod")
QUEUE_FIELDS = tuple(f.name for f in fields(QueueReading))


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
)


@st.composite
def healthy(draw: st.DrawFn, *, most: int = 12) -> WorkloadObservation:
    """A workload of which everything is known."""
    pods = tuple(replace(r, pod=f"pod-{i}") for i, r in enumerate(draw(st.lists(healthy_replicas, max_size=most))))
    pending, blocked = draw(st.integers(0, 5)), draw(st.sampled_from([0, 0, 0, 2]))
    spec = draw(st.integers(0, 20))
    counts = ReplicaCounts(spec=max(spec, len(pods)), ready=len(pods), pending=pending, blocked=blocked)
    return WorkloadObservation(counts, pods, rollout=draw(st.sampled_from([False, False, True])))


@st.composite
def consumed_queue(draw: st.DrawFn) -> WorkloadObservation:
    """A workload behind a broker of which everything is known."""
    ready = draw(st.integers(0, 12))
    reading = QueueReading(
        waiting=draw(known(0, 500)),
        unacked=draw(known(0, 50)),
        consumers=Known(ready),
        prefetch=Known(draw(st.integers(1, 8))),
        arrivals_rps=draw(known(0, 50)),
        completions_rps=draw(known(0, 50)),
    )
    return WorkloadObservation(ReplicaCounts(spec=ready, ready=ready), queue=reading)


@st.composite
def blinded(draw: st.DrawFn, seen: WorkloadObservation) -> WorkloadObservation:
    """Take one or more signals out of sight, on every replica or on the queue; or the view itself."""
    if draw(st.integers(0, 9)) == 0:
        return replace(seen, counts=draw(st.sampled_from(GAPS).map(Missing)))
    if seen.queue is not None:
        names = draw(st.sets(st.sampled_from(QUEUE_FIELDS), min_size=1))
        return replace(seen, queue=replace(seen.queue, **{name: draw(gaps) for name in sorted(names)}))
    names = draw(st.sets(st.sampled_from(READING_FIELDS), min_size=1))
    gap = {name: draw(gaps) for name in sorted(names)}
    hidden = (replace(r, **gap) for r in seen.replicas)  # type: ignore[arg-type]  # names of readings
    return replace(seen, replicas=tuple(hidden))


@st.composite
def maybe_blinded(draw: st.DrawFn) -> WorkloadObservation:
    """Anything that a tick may see."""
    seen = draw(st.one_of(healthy(), consumed_queue()))
    if not draw(st.booleans()):
        return seen
    partly = tuple(replace(r, running=draw(gaps)) if draw(st.booleans()) else r for r in seen.replicas)
    return draw(blinded(replace(seen, replicas=partly)))
