"""What a demo says of itself at its end."""

import pytest

from scaler.demo.run import fell_behind
from tests.run_records import a_result


@pytest.mark.parametrize(
    ("ticks", "note"),
    [
        (50, None),
        (49, "this machine managed 49 of 100 decisions at this speed: try a lower --speed"),
    ],
)
def test_a_run_that_could_not_keep_up_says_so(ticks: int, note: str | None) -> None:
    """Below half of the decisions that were due."""
    assert fell_behind(a_result(ticks=ticks, ticks_due=100)) == note
