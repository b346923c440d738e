"""What a demo plays: traffic that its fleet can serve, whatever lengths the trace's requests have."""

from pathlib import Path

import numpy as np
import pytest

from scaler.backtest.plant import Plant
from scaler.demo import scene


def requests(folder: Path, header: str, row: str) -> Path:
    """Write ten minutes with two requests a second, all with the same values."""
    path = folder / "requests.csv"
    path.write_text("\n".join([header, *(f"{i / 2},{row}" for i in range(1200)), ""]))
    return path


def test_long_requests_are_scaled_by_their_work(tmp_path: Path) -> None:
    """Prompts eleven times the profile's need a like part of its requests, and the fleet of the peak serves them."""
    traffic = scene.traffic_of(requests(tmp_path, "arrival_s,prompt_tokens,output_tokens", "13000,350"), 600, 1)
    assert 1.0 < traffic.profile.capacity_rps < 2.0
    assert scene.metadata_of(traffic.profile)["capacityPerReplica"] == str(traffic.profile.capacity_rps)
    per_s = traffic.arrivals.count / 600
    assert per_s / (traffic.profile.capacity_rps * scene.TARGET) == pytest.approx(scene.PEAK_REPLICAS, rel=0.05)
    plant = Plant(traffic.profile, traffic.arrivals, 1, scene.PEAK_REPLICAS, name="chat")
    plant.advance(traffic.arrivals.end_s)
    attainment = plant.scores(scene.SLO_S).attainment
    assert attainment is not None
    assert attainment > 0.9


def test_requests_of_the_profiles_own_lengths_have_its_capacity(tmp_path: Path) -> None:
    """What the trace says and what is drawn come to the same."""
    lengths = scene.PROFILE.lengths
    row = f"{lengths.prompt_mean:g},{lengths.output_mean:g}"
    told = scene.traffic_of(requests(tmp_path, "arrival_s,prompt_tokens,output_tokens", row), 600, 1)
    assert told.profile.capacity_rps == pytest.approx(scene.PROFILE.capacity_rps, rel=0.01)
    path = requests(tmp_path, "arrival_s,note", "x")
    drawn = scene.traffic_of(path, 600, 1)
    assert drawn.profile is scene.PROFILE
    assert drawn.scale == pytest.approx(told.scale, rel=0.01)


def test_prompts_beyond_the_usual_context_are_accepted(tmp_path: Path) -> None:
    """The engine is set up for a context that the model has."""
    traffic = scene.traffic_of(requests(tmp_path, "arrival_s,prompt_tokens,output_tokens", "60000,10"), 600, 1)
    assert np.all(traffic.arrivals.prompt_tokens < traffic.profile.max_model_len)


@pytest.mark.parametrize(
    ("header", "row", "message"),
    [
        ("arrival_s,service_s", "2.5", "has service_s, which the simulated engine cannot play"),
        ("arrival_s,prompt_tokens,output_tokens", "200000,10", "too long for 8b-h100"),
    ],
)
def test_what_the_engine_cannot_serve_is_told(tmp_path: Path, header: str, row: str, message: str) -> None:
    """An error before the run, instead of a run in which everything fails."""
    with pytest.raises(ValueError, match=message):
        scene.traffic_of(requests(tmp_path, header, row), 600, 1)


def test_a_part_shorter_than_a_step_is_told_in_the_commands_own_terms(tmp_path: Path) -> None:
    """Counts per hour, ten minutes to play."""
    path = tmp_path / "hourly.csv"
    path.write_text("timestamp,requests\n0,100\n3600,200\n")
    message = r"--seconds times --speed are 600 s of hourly, less than one step of it \(3600 s\): give more --seconds"
    with pytest.raises(ValueError, match=message):
        scene.traffic_of(path, 600, 1)
