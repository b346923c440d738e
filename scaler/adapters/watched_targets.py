"""Which endpoints to scrape, from the watched pods: their own addresses, at ports that they list.

A pod's manifest is its tenant's word, and whoever scrapes is inside the cluster. So an address is the pod's own as the
cluster knows it, and never one that leads to the scraper itself, to a node's neighbourhood or to a cloud's metadata; a
port is one that the pod lists.
"""

import ipaddress
from collections.abc import Callable, Collection, Iterator
from itertools import islice
from typing import Final

from scaler.adapters.targets_file import Target
from scaler.core.values import WorkloadId
from scaler.ports import ClusterView, PodRecord

_MAX_PORTS: Final = 8  # of one pod
# Clouds' metadata that is not link-local, which is refused anyway: AWS over IPv6, Alibaba, Oracle.
_METADATA: Final = frozenset(map(ipaddress.ip_address, ("fd00:ec2::254", "100.100.100.200", "192.0.0.192")))


class WatchedTargets:
    """The targets of the live, ready pods of a cluster view."""

    def __init__(
        self,
        view: ClusterView,
        ports: Collection[int] = (),
        path_of: Callable[[WorkloadId], str] = lambda _: "/metrics",
    ) -> None:
        """Take the pods of `view`, at those of `ports` that they list (none given: at all). `path_of` starts with /."""
        self._view = view
        self._ports = frozenset(ports)
        self._path_of = path_of

    async def __call__(self) -> tuple[Target, ...]:
        """Return the targets now; SourceError when there is no view."""
        snapshot = await self._view.snapshot()
        targets: list[Target] = []
        for key, seen in snapshot.workloads.items():
            live, path = frozenset(seen.pods), self._path_of(key)
            for pod in seen.members:
                if pod.name in live:
                    targets += self._of_pod(pod, path)
        return tuple(dict.fromkeys(targets))  # two workloads may name one pod

    def _of_pod(self, pod: PodRecord, path: str) -> Iterator[Target]:
        host = scrapable(pod.ip)
        if host is None:
            return
        wanted = (port for port in sorted(set(pod.ports)) if port in self._ports or not self._ports)
        for port in islice((port for port in wanted if 0 < port < 65536), _MAX_PORTS):
            address = f"{host}:{port}"
            labels = (("instance", address), ("namespace", pod.namespace), ("pod", pod.name))
            yield Target(f"http://{address}{path}", labels)


def scrapable(address: str) -> str | None:
    """Return an address as it stands in a URL, or None where it is none that a pod may be scraped at."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return None
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.scope_id is not None:
            return None
        ip = ip.ipv4_mapped or ip
    refused = ip.is_loopback or ip.is_link_local or ip.is_multicast or ip.is_unspecified or ip in _METADATA
    if refused or (ip.is_reserved and not ip.is_private):
        return None
    return f"[{ip}]" if ip.version == 6 else str(ip)
