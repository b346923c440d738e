"""Which endpoints of watched pods are scraped."""

import pytest

from scaler.adapters.watched_targets import WatchedTargets, scrapable
from scaler.core.observation import ReplicaCounts
from scaler.core.values import WorkloadId
from scaler.ports import ClusterSnapshot, PodRecord, WorkloadView
from tests.metrics_fakes import T0, FixedView

CHAT = WorkloadId("demo", "chat")


def pod(name: str, ip: str = "10.1.2.3", ports: tuple[int, ...] = (8000,)) -> PodRecord:
    """Make a pod that runs and is ready."""
    return PodRecord(
        namespace="demo",
        name=name,
        uid=name,
        owner="",
        template="",
        phase="Running",
        ready=True,
        gated=False,
        unschedulable=False,
        terminating=False,
        node="n",
        ip=ip,
        ports=ports,
        created_s=T0,
        scheduled_s=T0,
        ready_s=T0,
    )


async def urls(*pods: PodRecord, live: tuple[str, ...] | None = None, **options: object) -> list[str]:
    """Return what is scraped of these pods, all of them live unless said otherwise."""
    names = tuple(p.name for p in pods) if live is None else live
    view = WorkloadView(ReplicaCounts(len(pods), len(pods)), names, members=pods)
    source = WatchedTargets(FixedView(ClusterSnapshot(T0, {CHAT: view})), **options)  # type: ignore[arg-type]  # few kinds
    return [target.url for target in await source()]


async def test_live_pods_are_scraped_at_the_ports_that_they_list() -> None:
    """A pod that is not live, or has no address yet, is not; ports may be limited, and never go beyond the list."""
    pods = (pod("a", ports=(9000, 8000, 8000)), pod("b", "fd00::1"), pod("c"), pod("d", ""))
    live = ("a", "b", "d")
    assert await urls(*pods, live=live) == [
        "http://10.1.2.3:8000/metrics",
        "http://10.1.2.3:9000/metrics",
        "http://[fd00::1]:8000/metrics",
    ]
    assert await urls(*pods, live=live, ports=(9000, 22)) == ["http://10.1.2.3:9000/metrics"]


async def test_an_engine_may_have_its_metrics_elsewhere() -> None:
    """The path is the platform's to say, workload by workload."""
    paths = {CHAT: "/prometheus/metrics"}
    assert await urls(pod("a"), path_of=lambda key: paths[key]) == ["http://10.1.2.3:8000/prometheus/metrics"]


async def test_a_pod_cannot_have_itself_scraped_at_will() -> None:
    """However many ports it lists, few are tried, and none that is no port."""
    many = pod("a", ports=(0, -1, 70000, *range(1000, 2000)))
    assert await urls(many) == [f"http://10.1.2.3:{port}/metrics" for port in range(1000, 1008)]


async def test_series_get_the_labels_of_the_platform() -> None:
    """Namespace and pod are what the cluster says, whatever the pod exports."""
    view = WorkloadView(ReplicaCounts(1, 1), ("a",), members=(pod("a"),))
    (target,) = await WatchedTargets(FixedView(ClusterSnapshot(T0, {CHAT: view, WorkloadId("demo", "b"): view})))()
    assert dict(target.labels) == {"instance": "10.1.2.3:8000", "namespace": "demo", "pod": "a"}


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.8.8",
        "::1",
        "::ffff:127.0.0.1",
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "fe80::1",
        "fe80::1%eth0",
        "fd00:ec2::254",
        "100.100.100.200",
        "0.0.0.0",  # noqa: S104  # an address that is refused
        "::",
        "224.0.0.1",
        "ff02::1",
        "localhost",
        "10.1.2.3/../",
        "10.1.2.3@evil",
        "",
    ],
)
def test_an_address_that_leads_elsewhere_is_refused(address: str) -> None:
    """Loopback, link-local, metadata, names: none is a pod's."""
    assert scrapable(address) is None
