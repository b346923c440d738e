"""One cluster for all tests of a process; each test has namespaces, a Headway and a Prometheus of its own."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster import cluster, programs
from tests.cluster.cluster import Cluster
from tests.cluster.engines_double import EnginesDouble
from tests.prometheus_process import PROMETHEUS


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what cannot run here, and say why."""
    reason = programs.obstacle() or (None if PROMETHEUS else "no prometheus on PATH (make system-deps installs it)")
    if reason is not None:
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The cluster that most tests share."""
    with cluster.running(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@dataclass(frozen=True)
class Tenant:
    """A namespace with nothing in it, and engines whose load the test sets."""

    cluster: Cluster
    namespace: str
    headway: str  # the name for the namespace of a Headway of this test's own
    engines: EnginesDouble


@pytest.fixture
def tenant(shared: Cluster, request: pytest.FixtureRequest) -> Iterator[Tenant]:
    """A tenant of the shared cluster, named like the test; afterwards KEDA no longer looks for its scalers."""
    made = tenant_of(shared, request.node.name)
    yield made
    shared.objects.delete("Namespace", "v1", None, made.namespace)


def tenant_of(where: Cluster, test: str) -> Tenant:
    """Make a namespace for a test."""
    name = re.sub(r"[^a-z0-9]+", "-", test.removeprefix("test_").lower())[:40].strip("-")
    where.objects.namespace(name)
    return Tenant(where, name, f"headway-{name}", EnginesDouble(where.objects))
