"""How long prompts and answers are, where a trace does not say: independent lognormal draws around a known mean.

Lengths that are drawn make a backtest of tokens semi-synthetic: the arrivals are recorded, the lengths are not.
"""

import math
from dataclasses import dataclass

import numpy as np

from scaler.traces.model import FloatArray


@dataclass(frozen=True, slots=True)
class TokenLengths:
    """Lognormal lengths in tokens. `sigma` is the standard deviation of the logarithm: 0 gives the mean itself."""

    prompt_mean: float
    prompt_sigma: float
    output_mean: float
    output_sigma: float

    def __post_init__(self) -> None:
        for name in ("prompt_mean", "output_mean"):
            if not getattr(self, name) >= 1:
                raise ValueError(f"{name} must be >= 1 token, was {getattr(self, name)}")
        for name in ("prompt_sigma", "output_sigma"):
            if not 0 <= getattr(self, name) <= 3:
                raise ValueError(f"{name} must be 0 .. 3, was {getattr(self, name)}")

    def prompts(self, rng: np.random.Generator, count: int) -> FloatArray:
        """Draw `count` prompt lengths in tokens, not rounded."""
        return _lognormal(rng, self.prompt_mean, self.prompt_sigma, count)

    def outputs(self, rng: np.random.Generator, count: int) -> FloatArray:
        """Draw `count` output lengths in tokens, not rounded."""
        return _lognormal(rng, self.output_mean, self.output_sigma, count)


def _lognormal(rng: np.random.Generator, mean: float, sigma: float, count: int) -> FloatArray:
    return rng.lognormal(math.log(mean) - sigma * sigma / 2, sigma, count)


# The conversations of the Azure LLM inference trace of 2023 (Patel et al., Splitwise, ISCA 2024; CC-BY-4.0) have means
# of 1155 and 211 tokens, medians of 1020 and 129, 95th percentiles of 4083 and 451. No lognormal has all three; these
# keep the means, which set the load, and lie between what the median and what the tail ask for.
AZURE_CONVERSATION = TokenLengths(prompt_mean=1155, prompt_sigma=0.7, output_mean=211, output_sigma=0.85)
