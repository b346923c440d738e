"""How many GPUs a pod takes, and what that does to settings."""

from typing import Any

import pytest

from scaler.adapters.kubernetes.gpus import MAX_GPUS, TemplateGpus, gpus_in, gpus_of
from scaler.config.models import WorkloadSettings
from scaler.core.values import WorkloadId

GPU = "nvidia.com/gpu"
KEY = WorkloadId("tenant", "engine")


def container(*, always: bool = False, **limits: Any) -> dict[str, Any]:
    """Return a container; `gpu` and `mig` stand for the resources' names."""
    names = {"gpu": GPU, "mig": "nvidia.com/mig-1g.10gb"}
    return {
        "resources": {"limits": {"cpu": "8", **{names[key]: value for key, value in limits.items()}}},
        **({"restartPolicy": "Always"} if always else {}),
    }


@pytest.mark.parametrize(
    ("containers", "init_containers", "gpus"),
    [
        ([container(gpu="2")], [], 2),
        ([container(gpu="2"), container(), container(gpu="1", mig="3")], [], 6),
        ([container(gpu="2")], [container(gpu="1")], 2),  # the init container ends before
        ([container(gpu="2")], [container(gpu="4")], 4),
        ([container(gpu="2")], [container(gpu="1", always=True)], 3),  # it goes on beside
        ([container(gpu="2")], [container(gpu="1", always=True), container(gpu="3")], 4),
        ([container(gpu="2")], [container(gpu="3"), container(gpu="1", always=True)], 3),
        ([container(mig="1")], [container(gpu="1")], 2),  # each resource by itself
        ([container()], [], None),  # perhaps by a resource claim
        ([container(gpu="0")], [], None),
        ([], [], None),
    ],
)
def test_a_pod_takes_what_the_scheduler_counts(containers: list[Any], init_containers: list[Any], gpus: Any) -> None:
    """Containers and what goes on beside them add up; of the other init containers the largest counts."""
    assert gpus_of({"containers": containers, "initContainers": init_containers}) == gpus


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"containers": "many"},
        {"containers": [None, 1, {"resources": []}, {"resources": {"limits": "all"}}]},
        {
            "containers": [
                {"resources": {"limits": {GPU: quantity}}} for quantity in ("-1", "1.5", "²", True, None, [1])
            ]
        },
        {"containers": [{"resources": {"limits": {GPU: "9" * 5000}}}]},
    ],
)
def test_nonsense_is_no_gpu(spec: dict[str, Any]) -> None:
    """Whatever a tenant's manifest holds, nothing raises and nothing is counted that is no number."""
    assert gpus_of(spec) is None


def test_absurdly_many_are_bounded() -> None:
    """A pod of any number of containers takes at most what can be."""
    assert gpus_of({"containers": [container(gpu="999999")] * 50}) == MAX_GPUS


def test_the_kinds_of_gpus() -> None:
    """Whole GPUs of any vendor, MIG slices and shares are GPUs; memory and cores of GPUs are not."""
    names = (GPU, "amd.com/gpu", "nvidia.com/mig-3g.40gb", "nvidia.com/gpu.shared", "habana.ai/gaudi")
    others = ("cpu", "memory", "nvidia.com/gpumem", "nvidia.com/gpucores", "example.com/gpu-memory")
    assert gpus_in(dict.fromkeys((*names, *others), "1")) == dict.fromkeys(names, 1)


def test_a_template_raises_what_a_replica_costs() -> None:
    """It is never less than the template's, and more where the manifest says so."""
    gpus = TemplateGpus()
    cheap, dear = settings(), settings(gpus_per_replica=16.0)
    assert gpus.raised(KEY, cheap) is cheap
    assert gpus.learn({KEY: 8})
    assert gpus.raised(KEY, cheap).gpus_per_replica == 8.0
    assert gpus.raised(KEY, cheap) is gpus.raised(KEY, cheap)
    assert gpus.raised(KEY, dear) is dear
    assert not gpus.learn({KEY: 8})
    assert gpus.learn({KEY: None})
    assert gpus.raised(KEY, cheap) is cheap


def test_what_is_gone_is_forgotten() -> None:
    """A workload's template does not pass to a later one of its name."""
    gpus = TemplateGpus()
    gpus.learn({KEY: 8})
    gpus.raised(KEY, settings())
    gpus.keep(())
    assert gpus.raised(KEY, settings()).gpus_per_replica == 1.0


def settings(**more: Any) -> WorkloadSettings:
    return WorkloadSettings(namespace="tenant", name="engine", **more)
