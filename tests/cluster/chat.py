"""One workload, and the Headway that scales it: where most tests of the cluster begin."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.conftest import Tenant
from tests.cluster.headway import SETTLED_S, Headway, installed
from tests.cluster.processes import PATIENCE_S, until
from tests.cluster.watching import lasts, samples
from tests.cluster.workloads import deployment, scaled_object


@dataclass(frozen=True)
class Chat:
    """A workload `chat` of a tenant, and the Headway that scales it."""

    tenant: Tenant
    headway: Headway

    def load_for(self, replicas: int) -> None:
        """Set the load that needs so many replicas."""
        self.tenant.engines.load_for(self.tenant.namespace, "chat", replicas)

    def replicas(self) -> int:
        """Return how many replicas the Deployment is told to have."""
        return self.tenant.cluster.deployments(self.tenant.namespace).replicas("chat")

    def target(self) -> int | None:
        """Return what is recommended now."""
        found = self.headway.recommendation(self.tenant.namespace, "chat")
        return None if found is None else found["target"]

    def reason(self) -> str | None:
        """Return the reason of what is recommended now."""
        found = self.headway.recommendation(self.tenant.namespace, "chat")
        return None if found is None else found["reason"]

    def reaches(self, replicas: int) -> None:
        """Wait until so many are recommended, told and ready; on the way only what was recommended was told."""
        seen = samples(lambda: (self.target(), self.replicas()), lambda: self._has(replicas), within_s=PATIENCE_S)
        assert seen[-1] == (replicas, replicas), f"was to reach {replicas}, was {seen[-1]} (recommended, told)"
        told = {told for _, told in seen[1:]}
        assert told <= {target for target, _ in seen} | {seen[0][1]}

    def settles(self) -> None:
        """Wait until every replica has been heard, and nothing has moved, for as long as rates are measured over.

        A start moves targets. While some replicas have been heard and others not, all requests wait in those that have;
        rates are of two samples a second apart; and a step of the load within them is a steeper one.
        """
        heard = ("reactive: level_slots", True)
        lasts(lambda: (self.reason(), self.target() == self.replicas()), heard, for_s=SETTLED_S)

    def _has(self, replicas: int) -> bool:
        where = self.tenant.cluster.deployments(self.tenant.namespace)
        return where.ready("chat") == replicas == self.replicas() == self.target()

    def hpa(self) -> dict[str, Any] | None:
        """Return the HPA that KEDA made."""
        path = f"/apis/autoscaling/v2/namespaces/{self.tenant.namespace}/horizontalpodautoscalers/keda-hpa-chat"
        return self.tenant.cluster.objects.get(path)

    def annotate(self, **annotations: str | None) -> None:
        """Annotate the ScaledObject; None takes an annotation away."""
        self._patch({"metadata": {"annotations": annotations}})

    def change(self, spec: Mapping[str, Any]) -> None:
        """Change a part of the ScaledObject's spec."""
        self._patch({"spec": spec})

    def _patch(self, change: Mapping[str, Any]) -> None:
        self.tenant.cluster.objects.patch("ScaledObject", "keda.sh/v1alpha1", self.tenant.namespace, "chat", change)


@contextmanager
def chatting(
    tenant: Tenant,
    folder: Path,
    *,
    replicas: int = 1,
    ready_after: str = "0s",
    on_nodes: Mapping[str, str] | None = None,
    parts: Mapping[str, Any] | None = None,
    **scaled: Any,
) -> Iterator[Chat]:
    """Run a Headway for one workload that has so many replicas and the load for them.

    `parts` take the places of whole parts of Headway's configuration; what else there is goes to the ScaledObject.
    """
    with installed(
        tenant.cluster, folder, tenant.engines, namespace=tenant.headway, watches=(tenant.namespace,), **(parts or {})
    ) as headway:
        chat = Chat(tenant, headway)
        chat.load_for(replicas)
        headway.controller()
        headway.scaler()
        tenant.cluster.objects.apply(
            deployment(tenant.namespace, "chat", replicas=replicas, ready_after=ready_after, on_nodes=on_nodes),
            scaled_object(tenant.namespace, "chat", headway.address, **scaled),
        )
        until(chat.hpa, "the HPA")
        chat.reaches(replicas)
        yield chat
