"""Whose samples these are: sorts a batch by the pod or queue that a series speaks of, and drops the rest.

A tenant can only speak about itself. Labels such as `exported_pod` are the word of whatever was scraped, and a
tenant's pod can export anything. So a series that names an owner is taken only if its target lives in the owner's own
namespace, or in a namespace where Headway scales nothing (where the platform keeps its exporters and brokers).
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from scaler.ports import Sample

UP = "up"  # the source's own word on whether a target answered: 1 or 0
Owner = tuple[str, str]
Owned = Mapping[str, list[Sample]]  # one owner's samples by metric name
_NOTHING: Owned = {}


def by_owner(
    samples: Iterable[Sample], owner_labels: tuple[tuple[str, str], ...], wanted: Collection[Owner]
) -> dict[Owner, dict[str, list[Sample]]]:
    """Return the samples of the wanted owners, by owner and metric name.

    Series of anything else are dropped: a source still returns pods that are gone (llm-d-autoscaling#368).
    """
    found: dict[Owner, dict[str, list[Sample]]] = {}
    for sample in samples:
        owner = owner_of(sample.labels, owner_labels)
        if owner is not None and owner in wanted:
            found.setdefault(owner, {}).setdefault(sample.name, []).append(sample)
    return found


def owner_of(labels: Mapping[str, str], owner_labels: Sequence[tuple[str, str]]) -> Owner | None:
    """Return the owner that labels name, by the first pair of owner labels that is there."""
    for first, second in owner_labels:
        if (a := labels.get(first)) and (b := labels.get(second)):
            return a, b
    return None


def trusted(owned: Owned, namespace: str, tenant_namespaces: Collection[str]) -> Owned:
    """Return the samples that may speak for an owner in `namespace`; only those from there, where there are any."""
    own = _where(owned, lambda target: target == namespace)
    return own or _where(owned, lambda target: target not in tenant_namespaces)


def is_up(owned: Owned) -> bool:
    """Return False where the source says that no target of the owner answered its newest scrape."""
    samples = owned.get(UP)
    return not samples or any(sample.value > 0 for sample in samples)


def has_series(owned: Owned) -> bool:
    """Return whether the owner exports anything that was asked for."""
    return any(name != UP for name in owned)


def nothing() -> Owned:
    """Return the samples of an owner of whom nothing was seen."""
    return _NOTHING


def _where(owned: Owned, accepts: Callable[[str | None], bool]) -> Owned:
    """Return the samples whose target's namespace is accepted. `up` is left out: it speaks of a target only."""
    return {
        name: kept
        for name, samples in owned.items()
        if name != UP and (kept := [s for s in samples if accepts(s.labels.get("namespace"))])
    }
