"""Whether several objects scale one thing, across all the manifests of a check. Pure, but it remembers what it saw.

Each of two autoscalers undoes what the other did. KEDA's webhook refuses such a pair, where it is installed and runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scaler.config.hpa_guards import hpa_config
from scaler.config.notes import Note, NoteReason, error, warning
from scaler.config.observed import HPA, made_by_keda, read_observed
from scaler.config.platform import Platform
from scaler.config.problems import plain
from scaler.config.scaled_objects import ScaleTarget, headway_triggers, mapping, scale_target


@dataclass(frozen=True, slots=True)
class Claim:
    """An object that scales something."""

    kind: str
    name: str
    target: ScaleTarget
    asks: bool  # a trigger of it asks Headway
    observed: bool
    hpa: str  # the name of the HPA that it has, or is
    where: str  # file and line


class Rivals:
    """All claims so far, by what is scaled."""

    def __init__(self) -> None:
        """Start without any."""
        self._claims: dict[tuple[str, tuple[str, str, str]], list[Claim]] = {}

    def note(self, manifest: Mapping[str, Any], platform: Platform, where: str) -> Note | None:
        """Take up a manifest; return that it scales what an earlier one scales, where that concerns Headway."""
        claim = _claim(manifest, platform, where)
        if claim is None:
            return None
        namespace = str(mapping(manifest.get("metadata")).get("namespace") or "")
        earlier = self._claims.setdefault((namespace, claim.target.identity), [])
        rival = next((other for other in earlier if _rivals(other, claim)), None)
        earlier.append(claim)
        if rival is None:
            return None
        what = f"which {rival.kind} {plain(rival.name)} in {rival.where} scales too"
        message = f"must be nobody else's, was {plain(str(claim.target))}, {what}"
        say = error if claim.asks or rival.asks else warning
        return say(NoteReason.SHARED_TARGET, ("spec", "scaleTargetRef"), message)


def _claim(manifest: Mapping[str, Any], platform: Platform, where: str) -> Claim | None:
    kind, spec = manifest.get("kind"), mapping(manifest.get("spec"))
    target = scale_target(spec)
    name = str(mapping(manifest.get("metadata")).get("name") or "")
    observed = read_observed(manifest, platform) is not None
    if not target.complete or (kind == HPA and made_by_keda(manifest)):
        return None
    if kind == HPA:
        return Claim(HPA, name, target, asks=False, observed=observed, hpa=name, where=where)
    if kind != "ScaledObject":
        return None
    asks = bool(headway_triggers(spec, platform.addresses, None))
    hpa = str(hpa_config(spec).get("name") or f"keda-hpa-{name}")
    return Claim("ScaledObject", name, target, asks=asks, observed=observed, hpa=hpa, where=where)


def _rivals(one: Claim, other: Claim) -> bool:
    """Return whether two claims on one target are at odds, and Headway has to do with it.

    The same object twice is a twin, which is told apart; an HPA that a ScaledObject takes over is its own.
    """
    if one.kind == other.kind and one.name == other.name:
        return False
    if one.kind != other.kind and one.hpa == other.hpa:
        return False
    return one.asks or other.asks or (one.observed and other.observed)
