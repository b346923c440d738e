"""How many GPUs a pod asks for, as the scheduler counts them: whole ones, MIG slices and shares alike.

A workload's cost is not what its ScaledObject says but at least what its pod template asks for.
"""

from collections.abc import Callable, Collection, Mapping
from sys import intern
from typing import Any, Final

from scaler.adapters.kubernetes.objects import Object, items, part
from scaler.config.models import WorkloadSettings
from scaler.core.values import WorkloadId

MAX_GPUS: Final = 100_000  # of a node or a pod; more is no count
_RESOURCES: Final = ("gpu.intel.com/i915", "gpu.intel.com/xe", "habana.ai/gaudi")
_SUFFIX: Final = "/gpu"  # nvidia.com/gpu, amd.com/gpu
_PREFIXES: Final = ("nvidia.com/mig-", "nvidia.com/gpu.shared")  # nvidia.com/mig-1g.10gb


def gpus_in(resources: Object) -> dict[str, int]:
    """Return the GPUs among resources (limits, allocatable), by resource name. What is no whole number is left out."""
    found: dict[str, int] = {}
    for name, quantity in resources.items():
        is_gpu = name.endswith(_SUFFIX) or name in _RESOURCES or name.startswith(_PREFIXES)
        if is_gpu and isinstance(quantity, str) and quantity.isdecimal() and len(quantity) <= 6:
            found[intern(name)] = min(int(quantity), MAX_GPUS)
    return found


def gpus_of(pod_spec: Object) -> int | None:
    """Return how many GPUs a pod takes; None where its containers name none, for it may have them in another way.

    That is Kubernetes' rule for what a pod takes of a resource: its containers and those init containers that go on
    beside them (restartPolicy Always), or one of the other init containers and what already goes on beside it,
    whichever is more.
    """
    beside: dict[str, int] = {}
    most: dict[str, int] = {}
    for container in items(pod_spec, "initContainers"):
        needs = _gpus_of_container(container)
        for name, number in needs.items():
            most[name] = max(most.get(name, 0), beside.get(name, 0) + number)
        if isinstance(container, dict) and container.get("restartPolicy") == "Always":
            _add(beside, needs)
    for container in items(pod_spec, "containers"):
        _add(beside, _gpus_of_container(container))
    return min(sum(max(most.get(name, 0), beside.get(name, 0)) for name in most | beside), MAX_GPUS) or None


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, number in more.items():
        total[name] = total.get(name, 0) + number


def _gpus_of_container(container: Any) -> dict[str, int]:
    """Return what a container's limits say: of such resources requests are always equal to them."""
    return gpus_in(part(part(container, "resources"), "limits"))


class TemplateGpus:
    """What pod templates are known to ask for, and settings that were raised to it. Not safe for threads by itself."""

    def __init__(self) -> None:
        self._known: dict[WorkloadId, int] = {}
        self._raised: dict[WorkloadId, tuple[WorkloadSettings, WorkloadSettings]] = {}

    def learn(self, gpus: Mapping[WorkloadId, int | None]) -> bool:
        """Take the GPUs of a replica of some workloads, None where they are not known; return whether that is news."""
        news = {key: count for key, count in gpus.items() if self._known.get(key) != count}
        for key, count in news.items():
            if count is None:
                del self._known[key]
            else:
                self._known[key] = count
        return bool(news)

    def keep(self, workloads: Collection[WorkloadId]) -> None:
        """Forget all others."""
        for kept in (self._known, self._raised):
            for key in kept.keys() - set(workloads):
                del kept[key]

    def raised(self, key: WorkloadId, settings: WorkloadSettings) -> WorkloadSettings:
        """Return settings that cost at least what the template asks for; the same object as long as nothing changed."""
        count = self._known.get(key, 0)
        if count <= settings.gpus_per_replica:
            return settings
        held = self._raised.get(key)
        if held is None or held[0] is not settings or held[1].gpus_per_replica != count:
            held = self._raised[key] = (settings, settings.model_copy(update={"gpus_per_replica": float(count)}))
        return held[1]


Raise = Callable[[WorkloadId, WorkloadSettings], WorkloadSettings]
