"""Engine profiles: ranges, units, and lead times that are drawn as stated."""

from dataclasses import replace

import numpy as np
import pytest

from scaler.backtest.profiles import H100_8B, PROFILES, LeadTime
from scaler.traces.lengths import AZURE_CONVERSATION, TokenLengths


def test_capacity_in_every_unit() -> None:
    """Capacity in tokens is capacity in requests times the mean length."""
    assert H100_8B.capacity_prompt_tokens == pytest.approx(H100_8B.capacity_rps * 1155)
    assert H100_8B.capacity_output_tokens == pytest.approx(H100_8B.capacity_rps * 211)
    assert PROFILES["8b-h100"] is H100_8B


def test_throughput_of_the_published_run() -> None:
    """With the lengths and the batch of a published run the profile is within 20 % of its 32.4 requests/s."""
    # A sequence of the run holds about 330 tokens in the cache instead of 1,260, and reads that much less per token.
    published = replace(
        H100_8B, lengths=TokenLengths(230, 0, 203, 0), slots=256, step_per_sequence_s=0.00004 + 0.00006 * 330 / 1260
    )
    assert published.throughput_rps(256) == pytest.approx(32.4, rel=0.2)


def test_lead_times_have_the_stated_median() -> None:
    """Half of the lead times are below the median, and sigma 0 gives exactly the median."""
    drawn = LeadTime(90, 0.2).draw(np.random.default_rng(1), 4000)
    assert np.median(drawn) == pytest.approx(90, rel=0.02)
    assert np.std(np.log(drawn)) == pytest.approx(0.2, rel=0.05)
    assert LeadTime(40).draw(np.random.default_rng(1), 2) == [40, 40]


def test_lengths_have_the_stated_means() -> None:
    """Drawn lengths have the means that are stated, whatever their spread."""
    rng = np.random.default_rng(1)
    assert AZURE_CONVERSATION.prompts(rng, 100_000).mean() == pytest.approx(1155, rel=0.02)
    assert AZURE_CONVERSATION.outputs(rng, 100_000).mean() == pytest.approx(211, rel=0.02)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"slots": 0}, "slots must be > 0, was 0"),
        ({"prefill_tokens_per_s": -1.0}, "prefill_tokens_per_s must be > 0, was -1.0"),
        ({"drain_s": -1.0}, "drain_s must be >= 0, was -1.0"),
        ({"step_base_s": 0.0, "step_per_sequence_s": 0.0}, "step_base_s . step_per_sequence_s must be > 0, was 0"),
        ({"max_model_len": 500_000}, r"max_model_len must be <= kv_tokens \(412000\), was 500000"),
        ({"capacity_rps": float("nan")}, "capacity_rps must be > 0, was nan"),
    ],
)
def test_profiles_have_ranges(changes: dict[str, float], told: str) -> None:
    """A number that cannot be is named with its value."""
    with pytest.raises(ValueError, match=told):
        replace(H100_8B, **changes)  # type: ignore[arg-type]  # test data


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: LeadTime(-1), "median_s must be >= 0, was -1"),
        (lambda: LeadTime(10, 3), "sigma must be 0 .. 2, was 3"),
        (lambda: TokenLengths(0, 0, 1, 0), "prompt_mean must be >= 1 token, was 0"),
        (lambda: TokenLengths(1, 0, 1, 4), "output_sigma must be 0 .. 3, was 4"),
    ],
)
def test_distributions_have_ranges(make: object, told: str) -> None:
    """A distribution that cannot be is named with its value."""
    assert callable(make)
    with pytest.raises(ValueError, match=told):
        make()
