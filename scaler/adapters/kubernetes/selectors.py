"""Label selectors, and an index that finds the selectors of a set of labels without trying them all.

Matching 100,000 pods against 10,000 selectors must not be a product. So a selector is filed, within its namespace,
under one of the label values that it demands; a pod's labels lead to the few that can match.
"""

import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Literal, TypeVar

from scaler.adapters.kubernetes.objects import items, part, text

Pair = tuple[str, str]
Operator = Literal["In", "NotIn", "Exists", "DoesNotExist"]
K = TypeVar("K", bound=Hashable)

MAX_SELECTOR_CHARS: Final = 16_384
_SET: Final = re.compile(r"(?P<key>[^\s!=,()]+)\s+(?P<how>in|notin)\s*\((?P<values>[^()]*)\)")
_EQUAL: Final = re.compile(r"(?P<key>[^\s!=,()]+)\s*(?P<how>==|=|!=)\s*(?P<value>[^\s!=,()]*)")
_EXISTS: Final = re.compile(r"(?P<not>!?)\s*(?P<key>[^\s!=,()]+)")


@dataclass(frozen=True, slots=True)
class Requirement:
    """What one label must be."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels satisfy it. A label that is not there is not in any set, as in Kubernetes."""
        match self.operator:
            case "In":
                return labels.get(self.key) in self.values
            case "NotIn":
                return labels.get(self.key) not in self.values
            case "Exists":
                return self.key in labels
        return self.key not in labels


@dataclass(frozen=True, slots=True)
class Selector:
    """All of its requirements must hold. It has at least one: what selects everything selects nobody's replicas."""

    requirements: tuple[Requirement, ...]

    def __post_init__(self) -> None:
        if not self.requirements:
            raise ValueError("a selector must have at least 1 requirement, had 0")

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels satisfy it."""
        return all(requirement.holds(labels) for requirement in self.requirements)

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """The label values that everything it matches has."""
        return tuple(
            (it.key, min(it.values)) for it in self.requirements if it.operator == "In" and len(it.values) == 1
        )


def of_label_selector(selector: Any) -> Selector | None:
    """Read a LabelSelector (`matchLabels`, `matchExpressions`); None if it is malformed or selects everything."""
    found: list[Requirement] = []
    for key, value in part(selector, "matchLabels").items():
        if not isinstance(value, str):
            return None
        found.append(Requirement(key, "In", frozenset({value})))
    for expression in items(selector, "matchExpressions"):
        requirement = _requirement(expression)
        if requirement is None:
            return None
        found.append(requirement)
    return Selector(tuple(found)) if found else None


def _requirement(expression: Any) -> Requirement | None:
    key, operator, values = text(expression, "key"), text(expression, "operator"), items(expression, "values")
    if not key or not all(isinstance(value, str) for value in values):
        return None
    match operator:
        case "In" | "NotIn" if values:
            return Requirement(key, operator, frozenset(values))
        case "Exists" | "DoesNotExist":
            return Requirement(key, operator)
    return None


def of_text(selector: str) -> Selector | None:
    """Read a selector as a scale's status has it: `a=b,c!=d,e in (f,g),!h`; None for one that cannot be read."""
    if len(selector) > MAX_SELECTOR_CHARS:
        return None
    found: list[Requirement] = []
    rest = selector.strip()
    while rest:
        for form in (_SET, _EQUAL, _EXISTS):
            if match := form.match(rest):
                found.append(_of_match(match.groupdict()))
                break
        else:
            return None
        rest = rest[match.end() :].strip()
        if rest and not (rest.startswith(",") and rest[1:].strip()):
            return None
        rest = rest.removeprefix(",").strip()
    return Selector(tuple(found)) if found else None


def _of_match(parts: Mapping[str, str]) -> Requirement:
    key, how = parts["key"], parts.get("how")
    if how in {"in", "notin"}:
        values = frozenset(value.strip() for value in parts["values"].split(","))
        return Requirement(key, "In" if how == "in" else "NotIn", values)
    if how is not None:
        return Requirement(key, "NotIn" if how == "!=" else "In", frozenset({parts["value"]}))
    return Requirement(key, "DoesNotExist" if parts["not"] else "Exists")


@dataclass(slots=True)
class SelectorIndex(Generic[K]):
    """Selectors of one namespace, each under a key of its owner's."""

    _filed: dict[Pair | None, dict[K, Selector]] = field(default_factory=dict)
    _places: dict[K, Pair | None] = field(default_factory=dict)

    def put(self, key: K, selector: Selector) -> None:
        """File a selector, in the place of an earlier one of this key."""
        self.remove(key)
        # The emptiest drawer: a label such as `part-of` that a whole namespace shares would be one long list.
        place = min(selector.pairs, key=lambda pair: len(self._filed.get(pair, ())), default=None)
        self._filed.setdefault(place, {})[key] = selector
        self._places[key] = place

    def remove(self, key: K) -> None:
        """Forget a selector, if there is one."""
        if key not in self._places:
            return
        place = self._places.pop(key)
        drawer = self._filed[place]
        del drawer[key]
        if not drawer:
            del self._filed[place]

    def matching(self, labels: Mapping[str, str]) -> Iterator[K]:
        """Yield the keys whose selectors match."""
        for place in (None, *labels.items()):
            for key, selector in self._filed.get(place, {}).items():
                if selector.matches(labels):
                    yield key

    def __len__(self) -> int:
        return len(self._places)
