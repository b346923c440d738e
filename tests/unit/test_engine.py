"""The shared engine, against times worked out by hand."""

from dataclasses import replace

import pytest

from scaler.backtest.engine import Due, Sequences
from scaler.backtest.profiles import EngineProfile
from tests.plant_builders import ROUND, STEADY

# No prompt to speak of; n sequences advance at 1/n tokens a second each.
SHARED = replace(ROUND, prefill_tokens_per_s=1e12)


def finishes(engine: Sequences) -> dict[int, float]:
    """Run until nothing is due and return when each finished, in that order."""
    done: dict[int, float] = {}
    while True:
        at_s, due = engine.next_event()
        if due is Due.NOTHING:
            return done
        if due is Due.FINISH:
            done[engine.finish(at_s)] = at_s
        elif due is Due.KV_FULL:
            engine.preempt(at_s)
        else:
            engine.advance(at_s)


def test_one_sequence_alone() -> None:
    """A prompt of 10 tokens at 10 tokens/s yields the first token after 1 s, ten more take 1 s each."""
    engine = Sequences(ROUND, 0.0)
    assert engine.admit(5.0, 7, prompt=10, output=11) == 6.0
    assert finishes(engine) == {7: 16.0}
    assert engine.busy_s == 11.0
    assert engine.tokens_made == 11


def test_two_sequences_share() -> None:
    """Two equal sequences take twice as long; when the shorter one leaves, the other goes on at full speed."""
    engine = Sequences(SHARED, 0.0)
    engine.admit(0.0, 1, prompt=1, output=11)
    engine.admit(0.0, 2, prompt=1, output=21)
    # 10 tokens each at half speed: 20 s. Then 10 more for the second, alone: 10 s.
    assert finishes(engine) == pytest.approx({1: 20.0, 2: 30.0})


def test_a_late_sequence_slows_the_first() -> None:
    """A sequence that comes half-way halves the speed of the one that is there."""
    engine = Sequences(SHARED, 0.0)
    engine.admit(0.0, 1, prompt=1, output=11)
    engine.admit(5.0, 2, prompt=1, output=11)
    # The first has 5 tokens left: 10 s at half speed. The second has made 5 by then and makes 5 more alone.
    assert finishes(engine) == pytest.approx({1: 15.0, 2: 20.0})


def test_a_prompt_stops_decoding() -> None:
    """While a prompt is processed no sequence decodes, and prompts are processed one after another."""
    engine = Sequences(replace(ROUND, step_base_s=1.0, step_per_sequence_s=0.0), 0.0)
    assert engine.admit(0.0, 1, prompt=10, output=11) == 1.0
    assert engine.admit(0.5, 2, prompt=20, output=2) == 3.0  # behind the first prompt
    assert engine.admit(3.5, 3, prompt=10, output=1) == 4.5  # stops both
    # Second: 0.5 s of decoding before, 0.5 s after. Third: its only token comes with its prompt.
    assert finishes(engine) == {3: 4.5, 2: 5.0, 1: 14.0}


def test_many_equal_sequences_finish_together() -> None:
    """Equal sequences finish at one time, in order of admission."""
    engine = Sequences(SHARED, 0.0)
    for index in (3, 1, 2):
        engine.admit(0.0, index, prompt=1, output=5)
    assert list(finishes(engine)) == [3, 1, 2]
    assert engine.running == 0
    assert engine.kv_used == 0


def test_kv_grows_with_every_token() -> None:
    """The cache holds prompts and what has been made, and is empty when the sequences have left."""
    engine = Sequences(STEADY, 0.0)
    engine.admit(0.0, 1, prompt=100, output=11)
    engine.admit(0.0, 2, prompt=50, output=21)
    engine.advance(5.0)
    assert engine.kv_used == pytest.approx(100 + 6 + 50 + 6)
    engine.finish(10.0)
    assert engine.kv_used == pytest.approx(50 + 11)
    engine.finish(20.0)
    assert engine.kv_used == 0
    assert engine.tokens_made == 32


def test_an_empty_cache_is_exactly_empty() -> None:
    """Rounding errors do not outlive the sequences, whatever fractions of a token they left at."""
    engine = Sequences(replace(SHARED, step_per_sequence_s=0.0137), 0.0)
    for index in range(200):
        engine.admit(index * 0.0331, index, prompt=17 + index, output=3)
        while engine.next_event()[0] <= (index + 1) * 0.0331:
            engine.finish(engine.next_event()[0])
    finishes(engine)
    assert (engine.kv_used, engine.tokens_made) == (0.0, 600.0)


def test_room_is_for_the_prompt_and_its_first_token() -> None:
    """A prompt fits if it and one token more fit."""
    engine = Sequences(replace(STEADY, kv_tokens=500), 0.0)
    engine.admit(0.0, 1, prompt=100, output=50)
    assert engine.has_room(398)
    assert not engine.has_room(399)
    engine.advance(10.0)
    assert not engine.has_room(398)


def test_a_full_cache_preempts_the_last_one() -> None:
    """When the next token does not fit, the sequence admitted last leaves with what it has made."""
    engine = Sequences(replace(STEADY, kv_tokens=120, max_model_len=120), 0.0)
    engine.admit(0.0, 1, prompt=50, output=31)
    engine.admit(0.0, 2, prompt=50, output=31)
    # 102 at the start, two more a second: full after 9 s, with 10 tokens made by each.
    at_s, due = engine.next_event()
    assert due is Due.KV_FULL
    assert at_s == pytest.approx(9.0)
    assert engine.preempt(at_s) == (2, 10)
    assert engine.tokens_made == pytest.approx(20)
    assert finishes(engine) == pytest.approx({1: 30.0})


def test_a_preempted_sequence_goes_on_where_it_was() -> None:
    """What it had made is processed again like prompt, is not counted again, and the rest is decoded."""
    engine = Sequences(ROUND, 0.0)
    assert engine.admit(0.0, 2, prompt=10, output=31, made=10) == 2.0
    assert engine.tokens_made == 1  # the token that the reprocessing yields; ten were counted before
    assert finishes(engine) == pytest.approx({2: 22.0})
    assert engine.tokens_made == 21


def test_closed_while_a_step_of_prompts_is_ahead() -> None:
    """With more prompt tokens ahead than a step takes, an engine is closed until enough are processed."""
    engine = Sequences(replace(ROUND, prefill_budget_tokens=15), 0.0)
    engine.admit(0.0, 1, prompt=10, output=100)
    assert engine.is_open(0.0)
    engine.admit(0.0, 2, prompt=20, output=100)
    assert not engine.is_open(0.0)
    assert engine.next_event() == (1.5, Due.REOPEN)
    assert not engine.is_open(1.4)
    assert engine.is_open(1.5)


def test_closed_without_a_slot() -> None:
    """An engine with all slots taken is closed until one finishes."""
    engine = Sequences(STEADY, 0.0)
    for index in range(STEADY.slots):
        engine.admit(0.0, index, prompt=1, output=5)
    assert not engine.is_open(1.0)
    engine.finish(4.0)
    assert engine.is_open(4.0)


def test_clearing_keeps_the_counter() -> None:
    """Dropping all sequences empties the cache; tokens that were made stay made."""
    engine = Sequences(STEADY, 0.0)
    engine.admit(0.0, 4, prompt=10, output=50)
    engine.admit(0.0, 2, prompt=10, output=50)
    assert engine.clear(9.0) == [4, 2]
    assert (engine.running, engine.kv_used, engine.next_event()[1]) == (0, 0, Due.NOTHING)
    assert engine.tokens_made == pytest.approx(20)


@pytest.mark.parametrize("sequences", [1, 2, 3, 4])
def test_throughput_is_what_the_profile_says(sequences: int) -> None:
    """With so many sequences always in flight an engine finishes what its profile computes."""
    profile: EngineProfile = replace(ROUND, step_base_s=0.3)
    engine = Sequences(profile, 0.0)
    for index in range(sequences):
        engine.admit(0.0, index, prompt=10, output=11)
    done = 0
    while done < 2000:
        at_s, due = engine.next_event()
        if due is Due.FINISH:
            engine.finish(at_s)
            done += 1
            engine.admit(at_s, sequences + done, prompt=10, output=11)
        else:
            engine.advance(at_s)
    assert done / at_s == pytest.approx(profile.throughput_rps(sequences), rel=0.01)
