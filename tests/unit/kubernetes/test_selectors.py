"""Label selectors in their two forms, and the index that finds them."""

from collections.abc import Mapping
from typing import Any

import pytest

from scaler.adapters.kubernetes.selectors import Requirement, Selector, SelectorIndex, of_label_selector, of_text

LABELS = {"app": "engine", "tier": "gpu", "empty": ""}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("app=engine", True),
        ("app==engine,tier=gpu", True),
        ("app = engine , tier in (cpu, gpu)", True),
        ("app=other", False),
        ("app!=engine", False),
        ("app!=other", True),
        ("gone!=x", True),
        ("tier notin (gpu)", False),
        ("gone notin (gpu)", True),
        ("tier", True),
        ("gone", False),
        ("!gone", True),
        ("!tier", False),
        ("empty=", True),
        ("app.kubernetes.io/name=x", False),
    ],
)
def test_a_scales_selector_means_what_it_means_to_kubernetes(text: str, *, matches: bool) -> None:
    """Each form of requirement holds for the labels that it holds for in Kubernetes."""
    selector = of_text(text)
    assert selector is not None
    assert selector.matches(LABELS) is matches


@pytest.mark.parametrize(
    "text", ["", "  ", "app=engine,", ",", "=x", "a=b c=d", "a in b", "a in (b", "a=b,,c=d", "x" * 20_000]
)
def test_a_text_that_is_no_selector_is_none(text: str) -> None:
    """Nothing is guessed: a selector read wrongly would count strangers."""
    assert of_text(text) is None


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ({"matchLabels": {"app": "engine"}}, True),
        (
            {
                "matchLabels": {"app": "engine"},
                "matchExpressions": [{"key": "tier", "operator": "In", "values": ["gpu"]}],
            },
            True,
        ),
        ({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["gpu"]}]}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}, False),
    ],
)
def test_a_label_selector_is_read(selector: Mapping[str, Any], *, matches: bool) -> None:
    """`matchLabels` and `matchExpressions` hold together."""
    read = of_label_selector(selector)
    assert read is not None
    assert read.matches(LABELS) is matches


@pytest.mark.parametrize(
    "selector",
    [
        None,
        {},
        {"matchLabels": {}},
        {"matchLabels": {"app": 1}},
        {"matchExpressions": [{"key": "tier", "operator": "Gt", "values": ["1"]}]},
        {"matchExpressions": [{"key": "tier", "operator": "In"}]},
        {"matchExpressions": ["tier"]},
    ],
)
def test_a_label_selector_that_selects_all_or_is_malformed_is_none(selector: Any) -> None:
    """An empty selector selects every pod of the namespace: nobody's replicas."""
    assert of_label_selector(selector) is None


def test_a_selector_without_requirements_cannot_be() -> None:
    """The rule holds for selectors that are made in code too."""
    with pytest.raises(ValueError, match="at least 1"):
        Selector(())


def wanted(**labels: str) -> Selector:
    return Selector(tuple(Requirement(key, "In", frozenset({value})) for key, value in labels.items()))


def test_the_index_finds_and_forgets() -> None:
    """A selector is found by the labels it matches, is replaced under its key, and is gone when removed."""
    index: SelectorIndex[str] = SelectorIndex()
    index.put("a", wanted(app="a"))
    index.put("any", Selector((Requirement("tier", "Exists"),)))
    assert set(index.matching({"app": "a", "tier": "x"})) == {"a", "any"}
    index.put("a", wanted(app="b"))
    assert set(index.matching({"app": "a"})) == set()
    assert set(index.matching({"app": "b"})) == {"a"}
    index.remove("a")
    index.remove("a")
    assert set(index.matching({"app": "b"})) == set()
    assert len(index) == 1


def test_matching_is_no_product(monkeypatch: pytest.MonkeyPatch) -> None:
    """Among 5,000 selectors that share a label, the few that can match are tried."""
    index: SelectorIndex[int] = SelectorIndex()
    for number in range(5000):
        index.put(number, wanted(part_of="shop", app=f"app-{number}"))
    tried: list[Mapping[str, str]] = []

    def counted(self: Selector, labels: Mapping[str, str]) -> bool:
        tried.append(labels)
        return all(it.holds(labels) for it in self.requirements)

    monkeypatch.setattr(Selector, "matches", counted)
    assert list(index.matching({"part_of": "shop", "app": "app-17"})) == [17]
    assert len(tried) <= 3
