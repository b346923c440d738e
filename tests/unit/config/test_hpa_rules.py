"""The tolerance of an HPA, as a ScaledObject asks for it."""

from typing import Any

import pytest

from scaler.config.hpa_rules import asked_rules, hpa_name
from scaler.config.models import HpaRules


@pytest.mark.parametrize(
    ("given", "share"),
    [(0, 0.0), ("0", 0.0), (0.05, 0.05), ("0.05", 0.05), ("50m", 0.05), ("+.5", 0.5), ("1.", 1.0), (1, 1.0)],
)
def test_a_quantity_is_a_share(given: object, share: float) -> None:
    """Numbers and Kubernetes' quantities."""
    assert asked_rules({"scaleUp": {"tolerance": given}}) == HpaRules(tolerance_up=share)
    assert asked_rules({"scaleDown": {"tolerance": given}}) == HpaRules(tolerance_down=share)


@pytest.mark.parametrize("given", [None, "", "x", "-1", -1, "1e3", "0x1", True, [], {}, "9" * 30, "٣"])
def test_what_cannot_be_read_is_not_given(given: Any) -> None:
    """The cluster's default holds then; nothing raises for what a tenant writes."""
    assert asked_rules({"scaleUp": {"tolerance": given}, "scaleDown": given}, 9) == HpaRules(max_replicas=9)


NO_NAMES: list[Any] = ["", "..", ".a", "a/b", "a?b", "A", "a" * 254, "a\n", 1, []]


@pytest.mark.parametrize(
    ("given", "name"),
    [(None, "keda-hpa-chat"), ("mine", "mine"), ("m.1-x", "m.1-x")] + [(given, "keda-hpa-chat") for given in NO_NAMES],
)
def test_an_hpa_has_the_name_that_is_given_or_kedas(given: Any, name: str) -> None:
    """What cannot be a name is not one: a tenant writes it, and a path is made of it."""
    assert hpa_name({"name": given}, "chat") == name
    assert hpa_name({}, "chat") == "keda-hpa-chat"
