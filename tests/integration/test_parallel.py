"""Fits over processes, a real local Dask cluster and a real local Ray: to the last bit what one process finds."""

import importlib.util

import numpy as np
import psutil  # type: ignore[import-untyped]  # it ships no types
import pytest

from forecasting.forecaster import Forecaster
from forecasting.models import TIER_1
from forecasting.series import Batch
from scaler.parallel import Backend, BackendError, in_parts, mapper


def _fit(seed: int) -> str:
    rng = np.random.default_rng(seed)
    at = np.arange(4 * 24)
    values = 50 + 20 * np.sin(2 * np.pi * at / 24) + rng.normal(0, 2, (3, at.size))
    return Forecaster(TIER_1, horizons_s=(3600,)).fit(Batch.of(values, 3600)).digest()


@pytest.mark.parametrize("backend", list(Backend))
@pytest.mark.filterwarnings("ignore")  # Dask and Ray warn of much that is theirs
def test_every_backend_says_what_a_plain_loop_says(backend: Backend) -> None:
    """And in the order of the items; what was started is gone afterwards."""
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    with mapper(backend, workers=2) as over:
        found = list(over(_fit, range(4)))
    assert found == [_fit(seed) for seed in range(4)]
    left = {
        child.pid
        for child in psutil.Process().children(recursive=True)
        if "resource_tracker" not in str(child.cmdline())
    }
    assert left <= before


def test_one_worker_is_this_process() -> None:
    """A machine with one core starts no second process."""
    with mapper(workers=1) as over:
        assert list(over(lambda item: item + 1, [1, 2])) == [2, 3]


def test_an_extra_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to install."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(BackendError, match=r"pip install 'headway\[ray\]'"), mapper(Backend.RAY):
        pass


def test_parts_are_whole_and_in_order() -> None:
    """The last one may be shorter."""
    assert in_parts([1, 2, 3], 2) == [[1, 2], [3]]
    with pytest.raises(ValueError, match="size must be >= 1"):
        in_parts([1], 0)
