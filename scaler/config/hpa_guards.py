"""What a ScaledObject asks of the HPA that KEDA makes for it. Headway's number is to be passed on as it is. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from scaler.config.notes import Note, NoteReason, warning
from scaler.config.problems import KeyPath, shown
from scaler.config.scaled_objects import ScaledObject, is_int, mapping

HPA_DEFAULT_UP_PODS = 4  # at once, where no policy is given
HPA_DEFAULT_WINDOWS_S = {"scaleUp": 0, "scaleDown": 300}
_CONFIG: KeyPath = ("spec", "advanced", "horizontalPodAutoscalerConfig")
_BEHAVIOR: KeyPath = (*_CONFIG, "behavior")


def hpa_config(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a ScaledObject says of its HPA."""
    return mapping(mapping(spec.get("advanced")).get("horizontalPodAutoscalerConfig"))


def hpa_notes(it: ScaledObject) -> Iterator[Note]:
    """Ask that the HPA passes Headway's number on as it is: Headway has its own rates and stabilisation."""
    behavior = mapping(hpa_config(it.spec).get("behavior"))
    for side in HPA_DEFAULT_WINDOWS_S:
        yield from _side(side, mapping(behavior.get(side)))
    pods = it.upper - max(it.lower, 1)
    if not _one_jump(mapping(behavior.get("scaleUp")), pods):
        yield _note(("scaleUp", "policies"), f"must let {pods} pods start at once, or a surge is climbed in steps")


def _side(side: str, rules: Mapping[str, Any]) -> Iterator[Note]:
    if str(rules.get("tolerance", "")) not in {"0", "0.0"}:
        was = shown(rules.get("tolerance")) if "tolerance" in rules else "not given, which is 0.1"
        yield _note((side, "tolerance"), f"must be 0, was {was}: the HPA ignores small changes")
    if rules.get("selectPolicy") == "Disabled":
        yield _note((side, "selectPolicy"), "must not be Disabled: the HPA then never moves this way")
    default = HPA_DEFAULT_WINDOWS_S[side]
    window = rules.get("stabilizationWindowSeconds", default)
    if window != 0:
        given = shown(window) if "stabilizationWindowSeconds" in rules else f"not given, which is {default}"
        message = f"must be 0, was {given}: Headway stabilises, and the HPA would wait again"
        yield _note((side, "stabilizationWindowSeconds"), message)


def _note(way: KeyPath, message: str) -> Note:
    return warning(NoteReason.HPA_BEHAVIOUR, (*_BEHAVIOR, *way), message)


def _one_jump(scale_up: Mapping[str, Any], pods: int) -> bool:
    """Return whether the policies allow the whole way at once."""
    policies = scale_up.get("policies")
    rules = [mapping(policy) for policy in policies] if isinstance(policies, list) else []
    if not rules:
        return pods <= HPA_DEFAULT_UP_PODS
    fits = [rule.get("type") == "Pods" and is_int(rule.get("value")) and rule["value"] >= pods for rule in rules]
    return all(fits) if scale_up.get("selectPolicy") == "Min" else any(fits)
