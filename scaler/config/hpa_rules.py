"""What a ScaledObject asks of its HPA, as far as it decides what becomes of a target. Pure."""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from scaler.config.models import HpaRules
from scaler.config.scaled_objects import mapping

# Of a Kubernetes quantity what a tolerance can be: 0, 0.05, 50m. One that is anything else the API server refuses.
_QUANTITY: Final = re.compile(r"\+?(\d{1,9}(?:\.\d{0,9})?|\.\d{1,9})(m?)", re.ASCII)

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)


def hpa_name(config: Mapping[str, Any], scaled_object: str) -> str:
    """Return the name of the HPA that KEDA makes: the one that `config` gives, or KEDA's own."""
    given = config.get("name")
    return given if isinstance(given, str) and _NAME.fullmatch(given) else f"keda-hpa-{scaled_object}"


def asked_rules(behavior: Mapping[str, Any], upper: int | None = None) -> HpaRules:
    """Return what an HPA's `behavior` and maximum say; no tolerance where it says nothing that can be read."""
    return HpaRules(
        tolerance_up=_side(behavior, "scaleUp"), tolerance_down=_side(behavior, "scaleDown"), max_replicas=upper
    )


def _side(behavior: Mapping[str, Any], side: str) -> float | None:
    given = mapping(behavior.get(side)).get("tolerance")
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        return None
    found = _QUANTITY.fullmatch(str(given))
    return float(Decimal(found[1]) / (1000 if found[2] else 1)) if found else None
