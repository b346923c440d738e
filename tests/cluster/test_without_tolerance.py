"""A cluster that drops the HPA's tolerance, as those before Kubernetes 1.35 do: targets are quantised."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import cluster
from tests.cluster.chat import chatting
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import tenant_of
from tests.cluster.processes import until
from tests.cluster.watching import sampled, stays


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster whose API server and controllers do not know the field."""
    gates = {"HPAConfigurableTolerance": False}
    with cluster.running(tmp_path_factory.mktemp("older"), feature_gates=gates) as started:
        yield started


def test_a_small_step_up_is_rounded_up_to_one_that_the_hpa_takes(older: Cluster, tmp_path: Path) -> None:
    """From 20 replicas a need of 21 becomes 23, the smallest number that a tolerance of 0.1 lets through.

    The load needs 21 by the slots in use, which are exact; rates ask for less, even where scrapes are late.
    """
    with chatting(tenant_of(older, "step_up"), tmp_path, replicas=20) as chat:
        hpa = chat.hpa()
        assert hpa is not None
        assert "tolerance" not in hpa["spec"]["behavior"]["scaleUp"]
        chat.settles()
        with sampled(chat.replicas) as told:
            chat.load_for(21)
            chat.reaches(23)
        assert set(told) <= {20, 23}  # never 21 or 22, which the HPA would ignore, and no further than needed


def test_rounding_never_goes_above_a_cap(older: Cluster, tmp_path: Path) -> None:
    """With a maximum of 22 the same need leaves 20, whatever else it does, and says why."""
    tenant = tenant_of(older, "cap")
    with chatting(tenant, tmp_path, replicas=20, most=22) as chat:
        chat.settles()
        chat.load_for(21)
        until(lambda: "hpa_tolerance" in (chat.reason() or ""), "the reason")
        stays(chat.replicas, 20, for_s=5)
        assert chat.target() == 20
