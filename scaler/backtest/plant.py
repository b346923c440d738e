"""The simulated fleet: recorded arrivals, pods with queues, caches and cold starts, and what a cluster shows of them.

Event-driven and deterministic: time is simulated Unix seconds and an argument, there is no wall clock, and the only
draws, the lead times, depend on the seed and on how many pods were created before, never on a policy.

One FIFO queue per workload stands for a gateway that re-balances: the head goes to the least loaded ready pod as soon
as one has a slot and room in its cache. A pod's own metrics must show waiting requests all the same, because engines
without such a gateway queue in the pod and Headway reads them there: the waiting are attributed evenly to the ready
pods. While none is ready they show nowhere, as in a cluster.

Not modelled: clients that give up waiting, cached prefixes, nodes (every pod is bound at its creation).
"""

from collections import deque
from collections.abc import Mapping
from heapq import heappop, heappush

import numpy as np

from scaler.backtest.engine import Due
from scaler.backtest.inputs import LeadTimes, Requests
from scaler.backtest.pods import Phase, Pod, PodMetrics, first_to_go
from scaler.backtest.profiles import EngineProfile, LeadTime
from scaler.backtest.router import LeastLoaded
from scaler.backtest.scores import Ledger, Scores
from scaler.backtest.view import FleetView, PodView
from scaler.traces.arrivals import Arrivals

__all__ = ["FleetView", "Plant", "PodView"]

_INF = float("inf")


class Plant:
    """A fleet of one workload. Calls must not go back in time.

    `lead_time` replaces the profile's. `initial_replicas` are Ready at the start. ValueError if an argument is out of
    range.
    """

    def __init__(
        self,
        profile: EngineProfile,
        arrivals: Arrivals,
        seed: int,
        initial_replicas: int,
        start_s: float | None = None,
        *,
        lead_time: LeadTime | None = None,
        name: str = "chat",
    ) -> None:
        self.profile = profile
        self.name = name
        self._now_s = arrivals.start_s if start_s is None else start_s
        if arrivals.count and arrivals.at_s[0] < self._now_s:
            raise ValueError(f"start_s must be <= the first arrival {arrivals.at_s[0]}, was {self._now_s}")
        self._requests = Requests(arrivals, profile)
        self._next = 0  # the next request to arrive
        self._queue: deque[int] = deque()
        self._made: dict[int, int] = {}  # output tokens of preempted requests
        self._finished = 0
        self._lost = 0
        self._ledger = Ledger(arrivals.count)
        self._pods: dict[int, Pod] = {}  # live ones by ordinal, in order of creation
        self._router = LeastLoaded(self._pods)
        self._created = 0
        self._events: list[tuple[float, int, int, Due]] = []  # time, ordinal, version, what
        self._lives: list[tuple[float, float]] = []  # of pods that are gone: from, to
        self._lead_times = LeadTimes(lead_time or profile.lead_time, seed)
        self._spec = 0
        for _ in range(_whole(initial_replicas)):
            self._create(self._now_s, 0.0)
        self._spec = initial_replicas
        self._run(self._now_s)

    # --- what a policy or a face of the fleet does ---

    @property
    def now_s(self) -> float:
        """Return the time that the fleet stands at, Unix seconds."""
        return self._now_s

    def advance(self, to_s: float) -> None:
        """Let time pass until `to_s`; ValueError if that is in the past."""
        if to_s < self._now_s:
            raise ValueError(f"to_s must be >= {self._now_s}, was {to_s}")
        self._run(to_s)
        self._now_s = to_s

    def scale(self, replicas: int, at_s: float) -> None:
        """Tell the scale target to have `replicas` from `at_s` on."""
        _whole(replicas)
        self.advance(at_s)
        self._spec = replicas
        alive = [pod for pod in self._pods.values() if pod.phase is not Phase.DRAINING]
        for _ in range(replicas - len(alive)):
            self._create(at_s, self._lead_times.next_s())
        for pod in sorted(alive, key=first_to_go)[: max(0, len(alive) - replicas)]:
            self._delete(pod)
        self._run(at_s)

    def view(self, at_s: float) -> FleetView:
        """Return the pods at `at_s`, as the cluster knows them."""
        self.advance(at_s)
        pods = self._pods.values()
        return FleetView(
            at_s=at_s,
            spec=self._spec,
            pods=tuple(PodView(pod.name, pod.phase, pod.created_s, pod.ready_s) for pod in pods),
            arrived=self._next,
            waiting=len(self._queue),
            running=sum(pod.engine.running for pod in pods),
            finished=self._finished,
            lost=self._lost,
        )

    def pods(self) -> Mapping[str, PodMetrics]:
        """Return the metrics of each pod that answers a scrape now."""
        shares = self._shares()
        return {p.name: p.read(self._now_s, shares.get(p.ordinal, 0)) for p in self._pods.values() if p.answers}

    def pod(self, name: str) -> PodMetrics | None:
        """Return the metrics of one pod, None if it does not answer now; KeyError if there is no such pod."""
        pod = self._named(name)
        return pod.read(self._now_s, self._shares().get(pod.ordinal, 0)) if pod.answers else None

    def busy_seconds(self) -> Mapping[str, float]:
        """Return per pod the seconds for which its GPU had work since its container started."""
        for pod in self._pods.values():
            pod.engine.advance(self._now_s)
        return {pod.name: pod.engine.busy_s for pod in self._pods.values()}

    def scores(self, slo_s: float, *, on_ttft: bool = False, from_s: float = -_INF) -> Scores:
        """Score the run so far: the requests that have arrived and the GPU time, both from `from_s` on."""
        arrivals_s = self._requests.arrivals_s[: self._next]
        first = int(np.searchsorted(arrivals_s, from_s))
        return self._ledger.score(
            arrivals_s,
            slo_s=slo_s,
            on_ttft=on_ttft,
            until_s=self._now_s,
            gpu_seconds=self._gpu_seconds(from_s),
            first=first,
        )

    # --- failures ---

    def silence(self, pod: str, at_s: float, *, silent: bool = True) -> None:
        """Let a pod go on serving without answering a scrape, or end that. KeyError if there is no such pod."""
        self.advance(at_s)
        self._named(pod).silent = silent

    def freeze(self, pod: str, at_s: float) -> None:
        """Abort all requests of a pod at once and let its engine stop stepping, as in vllm#29928.

        Its gauges keep their last values and no counter moves, so the gateway keeps away from it. A restart ends that.
        """
        self.advance(at_s)
        frozen = self._named(pod)
        gauges = frozen.gauges(at_s, self._shares().get(frozen.ordinal, 0))
        self._lose(frozen)
        frozen.hold(gauges)
        self._settle(frozen)

    def restart(self, pod: str, at_s: float, ready_after_s: float) -> None:
        """Restart a pod's container: its requests are lost, its counters start at zero, it is Ready again later."""
        self.advance(at_s)
        restarted = self._named(pod)
        self._lose(restarted)
        restarted.start(at_s)
        if restarted.phase is Phase.READY:
            restarted.become(Phase.PENDING)
            restarted.ready_s = at_s + ready_after_s
        self._settle(restarted)
        self._run(at_s)

    # --- events ---

    def _run(self, to_s: float) -> None:
        """Handle arrivals and events up to and including `to_s`. At one time, what frees a slot comes first."""
        events, at = self._events, self._requests.at_s
        count = len(at)
        while True:
            event_s = events[0][0] if events else _INF
            arrival_s = at[self._next] if self._next < count else _INF
            if event_s <= arrival_s:
                if event_s > to_s:
                    return
                _, ordinal, version, due = heappop(events)
                pod = self._pods.get(ordinal)
                if pod is not None and pod.version == version:
                    self._handle(pod, due, event_s)
            else:
                if arrival_s > to_s:
                    return
                self._now_s = arrival_s
                self._arrive()

    def _arrive(self) -> None:
        index = self._next
        self._next += 1
        if self._requests.prompt[index] >= self.profile.max_model_len:
            self._give_up(index)
        else:
            self._queue.append(index)
            if len(self._queue) == 1:
                self._dispatch()

    def _handle(self, pod: Pod, due: Due, now_s: float) -> None:
        self._now_s = now_s
        if due is Due.FINISH:
            self._finish(pod, now_s)
        elif due is Due.KV_FULL:
            index, self._made[index] = pod.engine.preempt(now_s)
            pod.metrics.preemptions += 1
            self._queue.appendleft(index)
        elif due is Due.READY:
            pod.start(now_s)
            pod.become(Phase.READY)
        elif due is Due.DEADLINE:
            self._lose(pod)
        else:
            pod.engine.advance(now_s)
        self._settle(pod)

    def _finish(self, pod: Pod, now_s: float) -> None:
        index = pod.engine.finish(now_s)
        arrived_s = self._requests.at_s[index]
        pod.metrics.queue_time.observe(self._ledger.started_s[index] - arrived_s)
        pod.metrics.e2e.observe(now_s - arrived_s)
        pod.metrics.success += 1
        self._ledger.finished_s[index] = now_s
        self._finished += 1

    def _dispatch(self, changed: Pod | None = None) -> None:
        """Send on the head of the queue as long as a pod takes it; look ahead in `changed` and in those pods."""
        queue, prompts, now_s = self._queue, self._requests.prompt, self._now_s
        while queue:
            index = queue[0]
            made = self._made.get(index, 0)
            pod = self._router.pick(prompts[index] + made, now_s)
            if pod is None:
                break
            queue.popleft()
            self._admit(pod, index, made)
            self._router.offer(pod, now_s)
            # One look ahead does for all that a pod takes in a row.
            if changed is not None and changed is not pod:
                self._look_ahead(changed)
            changed = pod
        if changed is not None:
            self._look_ahead(changed)

    def _admit(self, pod: Pod, index: int, made: int) -> None:
        now_s, prompt = self._now_s, self._requests.prompt[index]
        token_s = pod.engine.admit(now_s, index, prompt, self._requests.output[index], made)
        if made:  # it has started, and had its first token, before it was preempted
            del self._made[index]
            return
        self._ledger.started_s[index] = now_s
        self._ledger.first_token_s[index] = token_s
        pod.metrics.expect_first_token(token_s, token_s - self._requests.at_s[index], prompt)

    def _settle(self, pod: Pod) -> None:
        """Follow up a change in a pod: it may be gone, take a request, and have another next event."""
        if pod.phase is Phase.DRAINING and not pod.engine.running:
            self._remove(pod)
        else:
            self._router.offer(pod, self._now_s)
            self._dispatch(pod)

    def _look_ahead(self, pod: Pod) -> None:
        pod.version += 1
        # The pod's own answer is the engine's while it is Ready, one call further.
        event_s, due = pod.engine.next_event() if pod.phase is Phase.READY else pod.next_event()
        if due is not Due.NOTHING:
            heappush(self._events, (event_s, pod.ordinal, pod.version, due))

    # --- pods ---

    def _create(self, now_s: float, lead_s: float) -> None:
        ordinal = self._created
        self._created += 1
        pod = Pod(f"{self.name}-{ordinal}", ordinal, self.profile, now_s, now_s + lead_s)
        self._pods[ordinal] = pod
        self._settle(pod)

    def _delete(self, pod: Pod) -> None:
        pod.become(Phase.DRAINING)
        pod.deadline_s = self._now_s + self.profile.drain_s
        self._settle(pod)

    def _remove(self, pod: Pod) -> None:
        pod.become(Phase.GONE)
        self._lives.append((pod.created_s, self._now_s))
        del self._pods[pod.ordinal]

    def _lose(self, pod: Pod) -> None:
        """Lose the requests in a pod; their clients see an error."""
        for index in pod.engine.clear(self._now_s):
            self._give_up(index)
        pod.metrics.settle(self._now_s)
        pod.metrics.drop_first_tokens()

    def _give_up(self, index: int) -> None:
        self._ledger.lost[index] = 1
        self._lost += 1

    def _shares(self) -> dict[int, int]:
        """Divide the waiting requests among the pods that the gateway sends to, by ordinal."""
        ready = [pod.ordinal for pod in self._pods.values() if pod.takes_requests]
        each, rest = divmod(len(self._queue), len(ready)) if ready else (0, 0)
        return {ordinal: each + (position < rest) for position, ordinal in enumerate(ready)}

    def _named(self, name: str) -> Pod:
        for pod in self._pods.values():
            if pod.name == name:
                return pod
        raise KeyError(f"pod must be one of {[pod.name for pod in self._pods.values()]}, was {name!r}")

    def _gpu_seconds(self, from_s: float) -> float:
        lives = [*self._lives, *((pod.created_s, self._now_s) for pod in self._pods.values())]
        return self.profile.gpus_per_replica * sum(max(0.0, to - max(start, from_s)) for start, to in lives)


def _whole(replicas: int) -> int:
    if replicas < 0:
        raise ValueError(f"replicas must be >= 0, was {replicas}")
    return replicas
