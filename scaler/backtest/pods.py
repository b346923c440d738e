"""One pod of the simulated fleet: its life, its engine and the metrics that the engine exposes."""

from collections import deque
from dataclasses import dataclass
from enum import StrEnum

from scaler.backtest.engine import Due, Sequences
from scaler.backtest.histogram import LATENCY_BUCKETS, TTFT_BUCKETS, Histogram, HistogramReading
from scaler.backtest.profiles import EngineProfile


class Phase(StrEnum):
    """The life of a pod. It costs its GPUs from its creation until it is gone."""

    PENDING = "pending"  # bound to a node; pulls, loads and warms up
    READY = "ready"
    DRAINING = "draining"  # deleted: takes nothing new, finishes what it has
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class PodMetrics:
    """What an engine exposes, under vLLM's meanings. Counters start anew when the container restarts."""

    pod: str
    running: int
    waiting: int
    kv_usage: float  # 0..1, without cached blocks that could be evicted
    prompt_tokens: int  # counters
    generation_tokens: int
    success: int
    preemptions: int
    queue_time: HistogramReading  # observed at completion
    ttft: HistogramReading  # observed at the first token
    e2e: HistogramReading  # observed at completion
    busy_s: float  # seconds with work on the GPU since the container started


class EngineMetrics:
    """The counters of one container."""

    __slots__ = (
        "_first_tokens",
        "_generation_tokens",
        "e2e",
        "preemptions",
        "prompt_tokens",
        "queue_time",
        "success",
        "ttft",
    )

    def __init__(self) -> None:
        self.queue_time = Histogram(LATENCY_BUCKETS)
        self.e2e = Histogram(LATENCY_BUCKETS)
        self.ttft = Histogram(TTFT_BUCKETS)
        self.success = 0
        self.preemptions = 0
        self.prompt_tokens = 0
        self._generation_tokens = 0
        self._first_tokens: deque[tuple[float, float, int]] = deque()  # when, TTFT, prompt tokens; in order of when

    def expect_first_token(self, at_s: float, ttft_s: float, prompt_tokens: int) -> None:
        """Count a first token once time has come to `at_s`. Later admissions cannot change when that is."""
        self._first_tokens.append((at_s, ttft_s, prompt_tokens))

    def settle(self, now_s: float) -> None:
        """Count the first tokens that are out by now."""
        pending = self._first_tokens
        while pending and pending[0][0] <= now_s:
            _, ttft_s, prompt_tokens = pending.popleft()
            self.ttft.observe(ttft_s)
            self.prompt_tokens += prompt_tokens

    def drop_first_tokens(self) -> None:
        """Forget the first tokens that will not come, because their requests are gone."""
        self._first_tokens.clear()

    def generation_tokens(self, made: float) -> int:
        """Return the counter for `made` tokens. A preemption rounds down what was made, and a counter never falls."""
        self._generation_tokens = max(self._generation_tokens, int(made))
        return self._generation_tokens


@dataclass(frozen=True, slots=True)
class HeldGauges:
    """What the gauges of an engine keep saying that has stopped stepping (vllm#29928)."""

    running: int
    waiting: int
    kv_usage: float


class Pod:
    """A pod. The plant moves it through its life; nothing here looks at other pods."""

    __slots__ = (
        "created_s", "deadline_s", "engine", "held", "metrics", "name", "ordinal", "phase", "profile", "ready_s",
        "silent", "takes_requests", "version",
    )  # fmt: skip

    def __init__(self, name: str, ordinal: int, profile: EngineProfile, created_s: float, ready_s: float) -> None:
        self.name = name
        self.ordinal = ordinal
        self.profile = profile
        self.created_s = created_s
        self.ready_s = ready_s
        self.deadline_s = float("inf")  # end of the termination grace period
        self.phase = Phase.PENDING
        self.takes_requests = False  # whether the gateway sends requests here; read for each of them
        self.silent = False  # serves, but does not answer a scrape
        self.held: HeldGauges | None = None
        self.version = 0  # of its next event: an older one in the plant's heap is void
        self.start(created_s)

    def start(self, now_s: float) -> None:
        """Start the container: an empty engine and counters at zero."""
        self.engine = Sequences(self.profile, now_s)
        self.metrics = EngineMetrics()
        self.held = None

    def become(self, phase: Phase) -> None:
        """Enter a phase of life."""
        self.phase = phase
        self.takes_requests = phase is Phase.READY and self.held is None

    def hold(self, gauges: HeldGauges) -> None:
        """Stop stepping: the gauges keep these values. They say full, so the gateway keeps away."""
        self.held = gauges
        self.takes_requests = False

    @property
    def answers(self) -> bool:
        """Return whether a scrape gets an answer."""
        return self.phase in {Phase.READY, Phase.DRAINING} and not self.silent

    def next_event(self) -> tuple[float, Due]:
        """Return when something happens in this pod by itself, and what."""
        if self.phase is Phase.PENDING:
            return self.ready_s, Due.READY
        at_s, due = self.engine.next_event()
        return (at_s, due) if at_s <= self.deadline_s else (self.deadline_s, Due.DEADLINE)

    def read(self, now_s: float, waiting: int) -> PodMetrics:
        """Return what the engine exposes now; `waiting` is this pod's share of the queue."""
        engine, metrics = self.engine, self.metrics
        engine.advance(now_s)
        metrics.settle(now_s)
        gauges = self.held or self.gauges(now_s, waiting)
        return PodMetrics(
            pod=self.name,
            running=gauges.running,
            waiting=gauges.waiting,
            kv_usage=gauges.kv_usage,
            prompt_tokens=metrics.prompt_tokens,
            generation_tokens=metrics.generation_tokens(engine.tokens_made),
            success=metrics.success,
            preemptions=metrics.preemptions,
            queue_time=metrics.queue_time.read(),
            ttft=metrics.ttft.read(),
            e2e=metrics.e2e.read(),
            busy_s=engine.busy_s,
        )

    def gauges(self, now_s: float, waiting: int) -> HeldGauges:
        """Return the gauges as a step of the engine would set them now."""
        self.engine.advance(now_s)
        return HeldGauges(self.engine.running, waiting, self.engine.kv_used / self.profile.kv_tokens)


def first_to_go(pod: Pod) -> tuple[bool, float, int]:
    """Order pods as a ReplicaSet deletes them: those that are not ready first, then the youngest.

    Of its criteria these are the ones in which the pods here differ. Kubernetes compares the ages of ready pods on a
    logarithmic scale and chooses at random among equals; here the younger one goes.
    """
    return (pod.phase is Phase.READY, -pod.created_s, -pod.ordinal)
