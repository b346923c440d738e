"""A rollout moves work between replicas; it brings none."""

import pytest

from tests.rollout_rig import Rollout


@pytest.mark.parametrize("overlap_s", [0, 2, 20])
@pytest.mark.parametrize("lasting_s", [5, 30, 60])
def test_a_rollout_does_not_move_the_target(lasting_s: int, overlap_s: int) -> None:
    """Twenty replicas, five at a time, under a constant load that needs all of them: twenty throughout.

    Requests that last as long as the rate window take that long to fill new replicas: their growth is no demand.
    """
    fleet = Rollout(replicas=20, load=19.2, lasting_s=lasting_s)
    said = list(fleet.recommendations(600))
    assert said[-1].target == 20
    for _ in range(4):
        said = [*fleet.swap(5, overlap_s), *fleet.recommendations(60 - overlap_s)]
        assert {item.target for item in said} == {20}, [(item.target, item.reason) for item in said]
    assert {item.target for item in fleet.recommendations(300)} == {20}
