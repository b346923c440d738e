"""One inference engine: sequences that share the GPU, a KV cache, and the time that both take.

Processor sharing on a virtual clock. While `n` sequences decode, each makes `1 / step(n)` tokens a second, so one clock
that advances at that rate serves them all: a sequence finishes when the clock reaches its own mark, set at admission.
Every event costs O(log n) and moves no other sequence. Prompts stop the clock: they are processed one after another, at
once, ahead of decoding. The tokens in the KV cache follow from the same marks in O(1), and so do those generated.

Time is an argument throughout and never falls.
"""

from enum import IntEnum
from heapq import heapify, heappop, heappush

from scaler.backtest.profiles import EngineProfile

_INF = float("inf")


class Due(IntEnum):
    """What happens next in an engine, or in the pod around it."""

    NOTHING = 0
    FINISH = 1  # the first sequence reaches its last token
    KV_FULL = 2  # the next token does not fit
    REOPEN = 3  # enough of the prompts ahead is processed to take another request
    READY = 4  # the pod becomes Ready
    DEADLINE = 5  # its termination grace period ends


class Sequences:
    """The sequences in one engine. Requests are known by their index, a number that the caller chooses."""

    __slots__ = (
        "_admissions", "_clock", "_heap", "_kv_offset", "_made", "_made_offset", "_now_s", "_profile", "_rates",
        "_resume_s", "_token_s", "budget_s", "busy_s", "running",
    )  # fmt: skip

    def __init__(self, profile: EngineProfile, now_s: float) -> None:
        self._profile = profile
        self._rates = [0.0, *(profile.tokens_per_s(n) for n in range(1, profile.slots + 1))]
        self._token_s = 1.0 / profile.prefill_tokens_per_s
        self.budget_s = profile.prefill_budget_tokens * self._token_s
        self._heap: list[tuple[float, int, int, int, int]] = []  # mark, admission, index, prompt, output
        self._admissions = 0
        self._now_s = now_s
        self._resume_s = now_s  # until then prompts are processed and the clock stands still
        self._clock = 0.0  # tokens that a sequence admitted at 0 would have made
        # Tokens in the cache and tokens made are offset + running * clock: sums over the sequences of what they had at
        # clock 0, had they been there.
        self._kv_offset = 0.0
        self._made_offset = 0.0
        self._made = 0.0  # tokens made by sequences that are no longer here
        self.running = 0
        self.busy_s = 0.0  # seconds with anything to do

    def advance(self, now_s: float) -> None:
        """Let time pass."""
        if self.running:
            self.busy_s += now_s - self._now_s
            since_s = max(self._now_s, self._resume_s)
            if now_s > since_s:
                self._clock += (now_s - since_s) * self._rates[self.running]
        self._now_s = now_s

    @property
    def kv_used(self) -> float:
        """Return the tokens in the KV cache, without what could be evicted."""
        return self._kv_offset + self.running * self._clock

    @property
    def tokens_made(self) -> float:
        """Return the output tokens made since the start. A token counts from the start of the step that makes it."""
        return self._made + self._made_offset + self.running * self._clock

    def is_open(self, now_s: float) -> bool:
        """Return whether a slot is free and the prompts ahead fit into one step."""
        return self.running < self._profile.slots and self._resume_s - self.budget_s <= now_s

    def has_room(self, tokens: int) -> bool:
        """Return whether a prompt of `tokens`, and the first token after it, fits into the KV cache now."""
        return self.kv_used + tokens + 1 <= self._profile.kv_tokens

    def admit(self, now_s: float, index: int, prompt: int, output: int, made: int = 0) -> float:
        """Take a request and return when its next token is out, Unix seconds.

        `made` output tokens exist already (a preempted request): they are processed again like prompt.
        """
        self.advance(now_s)
        start_s = max(now_s, self._resume_s)
        self._resume_s = start_s + (prompt + made) * self._token_s
        # Processing the prompt yields one token, so one less is left for the clock.
        mark = self._clock + (output - made - 1)
        self._admissions += 1
        heappush(self._heap, (mark, self._admissions, index, prompt, output))
        self.running += 1
        self._kv_offset += prompt + output - mark
        self._made_offset += output - mark
        self._made -= made
        return self._resume_s

    def next_event(self) -> tuple[float, Due]:
        """Return when something happens if nothing is admitted before, and what."""
        now_s, due_s, due = self._now_s, _INF, Due.NOTHING
        if self.running:
            since_s = max(now_s, self._resume_s)
            rate = self._rates[self.running]
            due_s, due = since_s + (self._heap[0][0] - self._clock) / rate, Due.FINISH
            full_s = since_s + (self._profile.kv_tokens - self.kv_used) / (self.running * rate)
            if full_s < due_s:
                due_s, due = full_s, Due.KV_FULL
            reopen_s = self._resume_s - self.budget_s
            if now_s < reopen_s < due_s and self.running < self._profile.slots:
                due_s, due = reopen_s, Due.REOPEN
        # The clock may have passed a mark by a rounding error.
        return (max(now_s, due_s)), due

    def finish(self, now_s: float) -> int:
        """Remove the sequence that is due to finish at `now_s` and return its index."""
        self.advance(now_s)
        mark, _, index, prompt, output = heappop(self._heap)
        # The mark itself: what it was reached at differs by a rounding error that would add up.
        self._clock = max(self._clock, mark)
        self._forget(mark, prompt, output, output)
        return index

    def preempt(self, now_s: float) -> tuple[int, int]:
        """Remove the sequence admitted last and return its index and the output tokens that it has made.

        That is the one that vLLM preempts when the cache is full; it will have to be computed again.
        """
        self.advance(now_s)
        position = max(range(len(self._heap)), key=lambda i: self._heap[i][1])
        mark, _, index, prompt, output = self._heap.pop(position)
        heapify(self._heap)
        made = max(1, min(output - 1, int(output - (mark - self._clock))))
        self._forget(mark, prompt, output, made)
        return index, made

    def clear(self, now_s: float) -> list[int]:
        """Drop all sequences and return their indices in order of admission."""
        self.advance(now_s)
        made = self.tokens_made
        indices = [entry[2] for entry in sorted(self._heap, key=lambda entry: entry[1])]
        self._heap.clear()
        self.running = 0
        self._made = made
        self._rest()
        self._resume_s = now_s
        return indices

    def _forget(self, mark: float, prompt: int, output: int, made: int) -> None:
        self.running -= 1
        self._kv_offset -= prompt + output - mark
        self._made_offset -= output - mark
        self._made += made
        if not self.running:
            self._rest()

    def _rest(self) -> None:
        """Start the clock anew while nothing depends on it: rounding errors do not outlive a pause."""
        self._clock = self._kv_offset = self._made_offset = 0.0
