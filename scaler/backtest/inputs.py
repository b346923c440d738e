"""What a plant consumes one by one: requests and lead times, in forms that are quick to read."""

from array import array

import numpy as np

from scaler.backtest.profiles import EngineProfile, LeadTime
from scaler.traces.arrivals import Arrivals


class Requests:
    """The arrivals as arrays of numbers. Outputs are cut to what the model's context leaves."""

    __slots__ = ("arrivals_s", "at_s", "output", "prompt")

    def __init__(self, arrivals: Arrivals, profile: EngineProfile) -> None:
        prompt = arrivals.prompt_tokens
        room = np.maximum(profile.max_model_len - prompt, 1)
        self.arrivals_s = arrivals.at_s
        # Reading one element of an array.array costs a third of reading one of a numpy array.
        self.at_s = array("d", arrivals.at_s.tobytes())
        self.prompt = array("q", prompt.astype(np.int64).tobytes())
        self.output = array("q", np.minimum(arrivals.output_tokens, room).astype(np.int64).tobytes())


class LeadTimes:
    """Lead times in the order of creation: the n-th pod of any policy waits equally long."""

    __slots__ = ("_distribution", "_drawn", "_rng", "_used")

    def __init__(self, distribution: LeadTime, seed: int) -> None:
        self._distribution = distribution
        self._rng = np.random.default_rng(seed)
        self._drawn: list[float] = []
        self._used = 0

    def next_s(self) -> float:
        """Return the lead time of the next pod that is created, in seconds."""
        if self._used == len(self._drawn):
            self._drawn += self._distribution.draw(self._rng, 64)
        self._used += 1
        return self._drawn[self._used - 1]
