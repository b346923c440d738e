"""What each namespace may use: the platform's sources and query profiles, looked up by namespace and name. Pure.

Whatever is not granted is refused, in the same words whether it exists for others or not at all: a tenant learns
nothing of its neighbours.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from scaler.config.gateways import ROUTE_LABELS
from scaler.config.models import SourceRef
from scaler.config.problems import Problem, did_you_mean, plain
from scaler.config.profiles import PREFIX, ProfileKind, QueryProfile
from scaler.config.sources import SourceSection, wrong_labels

RABBITMQ = "rabbitmq"


@dataclass(frozen=True, slots=True)
class Broker:
    """What holds for every queue of the platform's broker that does not say otherwise."""

    vhost: str = "/"
    prefetch: int | None = None


@dataclass(frozen=True, slots=True)
class _ByNamespace:
    """Grants of one name."""

    exact: Mapping[str, SourceRef]
    patterns: tuple[tuple[str, SourceRef], ...]

    def of(self, namespace: str) -> SourceRef | None:
        found = self.exact.get(namespace)
        return found or next((ref for pattern, ref in self.patterns if matches(pattern, namespace)), None)


@dataclass(frozen=True, slots=True)
class Grants:
    """What the platform granted. An empty one grants nothing."""

    sources: Mapping[str, _ByNamespace] = field(default_factory=dict)
    profiles: Mapping[str, QueryProfile] = field(default_factory=dict)

    @classmethod
    def of(
        cls, sources: Iterable[SourceSection], profiles: Iterable[QueryProfile] = (), broker: Broker = Broker()
    ) -> "Grants":
        """Take up what a file grants; it has been checked that no two grants of a name meet in a namespace."""
        known = {profile.name: profile for profile in profiles}
        by_name: dict[str, dict[str, SourceRef]] = {}
        for source in sources:
            ref = _ref(source, known, broker)
            by_name.setdefault(source.name, {}).update(dict.fromkeys(source.namespaces, ref))
        return cls({name: _by_namespace(granted) for name, granted in by_name.items()}, known)

    def source(self, namespace: str, name: str) -> SourceRef | None:
        """Return what `name` means in a namespace; None when it means nothing there."""
        granted = self.sources.get(name)
        return granted.of(namespace) if granted else None

    def profile(self, namespace: str, name: str) -> QueryProfile | None:
        """Return the query profile `name`; None when the namespace may not use it, or there is none."""
        profile = self.profiles.get(name)
        return profile if profile and any(matches(pattern, namespace) for pattern in profile.namespaces) else None


def _by_namespace(granted: Mapping[str, SourceRef]) -> _ByNamespace:
    patterns = tuple((pattern, ref) for pattern, ref in granted.items() if "*" in pattern)
    return _ByNamespace({name: ref for name, ref in granted.items() if "*" not in name}, patterns)


def _ref(source: SourceSection, profiles: Mapping[str, QueryProfile], broker: Broker) -> SourceRef:
    if (queue := source.queue) is not None:
        return SourceRef(
            preset=RABBITMQ,
            identity=(queue.vhost or broker.vhost, queue.queue),
            share=queue.share,
            prefetch=queue.prefetch or broker.prefetch,
        )
    if (route := source.route) is not None:
        return SourceRef(preset=route.gateway, identity=_identity(route.labels, ROUTE_LABELS[route.gateway]))
    if (profile := source.profile) is not None:
        return SourceRef(
            preset=f"{PREFIX}{profile.name}",
            identity=_identity(profile.labels, profiles[profile.name].labels),
            share=profile.share,
            prefetch=profile.prefetch,
        )
    raise ValueError(f"source {source.name!r} must be a queue, a route or a profile")


def _identity(labels: Mapping[str, str], names: tuple[str, str]) -> tuple[str, str]:
    return labels[names[0]], labels[names[1]]


@cache
def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, re.split(r"\*+", pattern))))


def matches(pattern: str, namespace: str) -> bool:
    """Return whether a pattern, in which `*` stands for any text, means a namespace."""
    return pattern == namespace or ("*" in pattern and _pattern(pattern).fullmatch(namespace) is not None)


def meet(one: str, other: str) -> bool:
    """Return whether some namespace is meant by both patterns."""
    if "*" not in one:
        return matches(other, one)
    if "*" not in other:
        return matches(one, other)
    return _meet(one, other)


def _meet(one: str, other: str) -> bool:
    """Walk both patterns at once; `reached` are the places in `other` up to which a common text can lead."""
    reached = _past_stars({0}, other)
    for char in one:
        if char == "*":
            reached = set(range(min(reached), len(other) + 1)) if reached else reached
        else:
            stay = {at for at in reached if other[at : at + 1] == "*"}
            reached = _past_stars(stay | {at + 1 for at in reached if other[at : at + 1] == char}, other)
    return len(other) in reached


def _past_stars(places: set[int], pattern: str) -> set[int]:
    """Add the places that are reached when a star stands for nothing."""
    found = set(places)
    for at in sorted(places):
        while pattern[at : at + 1] == "*":
            at += 1  # noqa: PLW2901  # the walk goes on from here
            found.add(at)
    return found


def grant_problems(document: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what is wrong between the entries of `sources` and `profiles`, whatever is wrong within them."""
    profiles = _items(document.get("profiles"))
    known = {profile["name"]: profile for _, profile in profiles if isinstance(profile.get("name"), str)}
    yield from _twins(profiles)
    sources = _items(document.get("sources"))
    for index, source in sources:
        profile = source.get("profile")
        if isinstance(profile, Mapping) and isinstance(profile.get("name"), str):
            found = _profile_source(profile, known)
            yield from (problem.under("sources", index, "profile") for problem in found)
    yield from _overlaps(sources)


def _items(value: Any) -> Sequence[tuple[int, Mapping[str, Any]]]:
    entries = enumerate(value if isinstance(value, list) else ())
    return [(index, entry) for index, entry in entries if isinstance(entry, Mapping)]


def _twins(profiles: Iterable[tuple[int, Mapping[str, Any]]]) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    for index, profile in profiles:
        name = profile.get("name")
        if isinstance(name, str) and seen.setdefault(name, index) != index:
            yield Problem(
                ("profiles", index, "name"), f"must be unique, was {plain(name)} as in profiles[{seen[name]}]"
            )


def _profile_source(source: Mapping[str, Any], profiles: Mapping[str, Mapping[str, Any]]) -> Iterator[Problem]:
    name = source["name"]
    profile = profiles.get(name)
    if profile is None:
        yield Problem(("name",), f"must be one of the file's profiles, was {plain(name)}{did_you_mean(name, profiles)}")
        return
    if profile.get("kind") not in {ProfileKind.QUEUE, None}:
        yield Problem(("name",), f"must be a profile of kind queue, was {plain(name)} of kind {profile['kind']}")
        return
    labels = profile.get("labels")
    if isinstance(labels, list) and [isinstance(label, str) for label in labels] == [True, True]:
        yield from wrong_labels(source.get("labels"), tuple(labels), f"profile {name}")


def _overlaps(sources: Iterable[tuple[int, Mapping[str, Any]]]) -> Iterator[Problem]:
    """Yield each grant that meets an earlier one of its name in some namespace: neither could be said to hold."""
    granted: dict[str, _Granted] = {}
    for index, source in sources:
        name, namespaces = source.get("name"), source.get("namespaces")
        if not (isinstance(name, str) and isinstance(namespaces, list)):
            continue
        earlier = granted.setdefault(name, _Granted())
        own = [(at, namespace) for at, namespace in enumerate(namespaces) if isinstance(namespace, str)]
        for at, namespace in own:
            if rival := earlier.meeting(namespace):
                other, first = rival
                message = f"must not meet {plain(other)} of sources[{first}], which has the same name, was"
                yield Problem(("sources", index, "namespaces", at), f"{message} {plain(namespace)}")
        for _, namespace in own:
            earlier.add(namespace, index)


class _Granted:
    """The namespaces to which one name has been granted so far. Single ones are many, patterns are few."""

    def __init__(self) -> None:
        self._single: dict[str, int] = {}
        self._patterns: dict[str, int] = {}

    def add(self, namespace: str, index: int) -> None:
        (self._patterns if "*" in namespace else self._single).setdefault(namespace, index)

    def meeting(self, namespace: str) -> tuple[str, int] | None:
        """Return a grant that means a namespace which this one means too."""
        if namespace in self._single:
            return namespace, self._single[namespace]
        rivals = [self._patterns] if "*" not in namespace else [self._patterns, self._single]
        return next((rival for some in rivals for rival in some.items() if meet(rival[0], namespace)), None)
