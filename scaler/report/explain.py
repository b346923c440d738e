"""Why a workload has the target that it has, for a person: the answer first, then what it rests on.

Works on a `/plan` document, wherever that came from. What prints is a rich renderable: colour is the console's affair.
"""

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import ValidationError
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from scaler.config.durations import format_duration
from scaler.core.values import WorkloadId
from scaler.report.plan_document import ForecastAbsent, LastChange, PlanDocument, TrailStep, WorkloadEntry

_UNKNOWN = "unknown"

_NEEDS = {
    "level_slots": "the slots in use ask for it",
    "level_kv_cache": "the KV cache in use asks for it",
    "demand": "the demand asks for it",
    "backlog": "the backlog has to drain within the lead time",
    "work_in_queue": "the queue holds work",
    "work_at_gateway": "the gateway receives requests or holds some back",
    "silent_at_target": "silent replicas count as if at target",
}
_STEPS = {
    "reactive": "the load asks for it",
    "hold": "nothing may fall while something is not known or under way",
    "stabilisation": "the highest wish of the hold window still stands",
    "start": "a fresh start lowers nothing until its windows have filled",
    "bounds": "its bounds allow no other",
    "rate": "the rate of change is limited",
}


def read_plan(document: Any) -> PlanDocument:
    """Read a `/plan` document; ValueError that says where it is not one."""
    try:
        return PlanDocument.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "document"
        raise ValueError(f"not a /plan document of schema 1: {_safe(where)}: {first['msg']}") from None


def find_workload(document: PlanDocument, workload: WorkloadId) -> WorkloadEntry:
    """Return a workload's entry; LookupError that says why it is not in the plan, or names the nearest ones."""
    entries = {f"{entry.namespace}/{entry.name}": entry for entry in document.workloads}
    entry = entries.get(str(workload))
    if entry is None and (why := _unusable(document, str(workload))):
        raise LookupError(f"workload {_safe(str(workload))} is not in the plan: {_safe(why)}")
    if entry is None and document.at is None:
        raise LookupError("there is no plan yet: the controller's log and /plan say what it waits for")
    if entry is None:
        near = difflib.get_close_matches(str(workload), entries, n=3) or sorted(entries)[:3]
        hint = f"; did you mean {_safe(', '.join(near))}?" if near else ""
        raise LookupError(f"workload {_safe(str(workload))} is not in the plan{hint}")
    return entry


def answer(entry: WorkloadEntry) -> str:
    """Return the answer in one sentence: how many, and because of what."""
    name = f"{entry.namespace}/{entry.name}"
    why = f"{_because(entry.reason)} ({entry.reason})"
    if entry.target is None:
        why = ", ".join(entry.missing) or entry.reason
        held = "what is there" if entry.replicas.spec is None else f"{entry.replicas.spec} replicas"
        return f"{name} has no target because nothing is known ({why}): KEDA gets an error, the HPA holds {held}"
    if entry.told is None:
        return f"{name} would have {entry.target} because {why}; in mode {entry.mode} KEDA is told nothing"
    if entry.told != entry.target:
        return f"{name} has {entry.told}, and would have {entry.target} in mode auto, because {why}"
    return f"{name} has {entry.told} because {why}"


def explanation(document: PlanDocument, entry: WorkloadEntry) -> RenderableType:
    """Return everything that is known about one workload's target, for a console to print."""
    return Group(
        Text(_safe(answer(entry)), style="bold"),
        Text(),
        _facts((*_manifest_rows(document, entry), *_fact_rows(entry))),
        Text(),
        _trail(entry.trail),
        Text(),
        Text(_safe(_source(document)), style="dim"),
    )


def _unusable(document: PlanDocument, workload: str) -> str:
    return next((it.reason for it in document.unusable if f"{it.namespace}/{it.name}" == workload), "")


def _manifest_rows(document: PlanDocument, entry: WorkloadEntry) -> Iterable[tuple[str, str]]:
    """Yield what is wrong with the workload itself: it comes first, for nothing below it is as its user meant."""
    if why := _unusable(document, f"{entry.namespace}/{entry.name}"):
        yield "not usable", why


def _because(reason: str) -> str:
    step, _, detail = reason.partition(": ")
    if step == "reactive":
        return _NEEDS.get(detail, _STEPS[step])
    return _STEPS.get(step, f"of the step {step}")


def _fact_rows(entry: WorkloadEntry) -> Iterable[tuple[str, str]]:
    replicas, saturation = entry.replicas, entry.saturation
    yield "changed", _last_change(entry.changed)
    yield "mode", f"{entry.mode}, {_activity(entry)}"
    yield "bounds", f"{entry.lower} .. {entry.upper}, before any clamp {_shown(entry.uncapped)}"
    counts = (
        ("spec", replicas.spec),
        ("ready", replicas.ready),
        ("pending", replicas.pending),
        ("gated", replicas.gated),
    )
    yield "replicas", ", ".join(f"{name} {_shown(count)}" for name, count in counts)
    yield "saturation", f"{_shown(saturation.value, ' (1 = at target)')}, binding: {saturation.binding}"
    for name, value in saturation.terms.items():
        yield f"  {name}", _shown(value)
    demand, capacity = _shown(entry.demand, " per second"), _shown(entry.capacity, " per second and replica")
    yield "demand", f"{demand}, capacity {capacity}"
    yield "lead time", format_duration(entry.lead_time_s)
    yield "evidence", f"{entry.evidence_age_s:.0f} s old"
    yield "missing", ", ".join(entry.missing) or "nothing"
    yield "notes", ", ".join(entry.notes) or "none"
    yield "forecast", _forecast(entry)


def _activity(entry: WorkloadEntry) -> str:
    if entry.active is None:
        return f"activity {_UNKNOWN}"
    return "active" if entry.active else "not active"


def _last_change(change: LastChange | None) -> str:
    if change is None:
        return "not since this controller started"
    return f"at {change.at} from {change.before} to {change.after}: {_because(change.reason)} ({change.reason})"


def _forecast(entry: WorkloadEntry) -> str:
    if isinstance(entry.forecast, ForecastAbsent):
        return f"absent: {entry.forecast.absent}"
    return ", ".join(f"q{quantile} {_shown(value)}" for quantile, value in entry.forecast.quantiles.items())


def _facts(rows: Iterable[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows:
        table.add_row(Text(_safe(name)), Text(_safe(text)))
    return table


def _trail(steps: Sequence[TrailStep]) -> RenderableType:
    if not steps:
        return Text("no steps: there was nothing to decide from")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("step", no_wrap=True)
    table.add_column("before", justify="right")
    table.add_column("after", justify="right")
    table.add_column("reason", overflow="fold")
    for step in steps:
        style = "" if step.before == step.after else "bold"
        table.add_row(Text(_safe(step.step)), str(step.before), str(step.after), Text(_safe(step.reason)), style=style)
    return table


def _source(document: PlanDocument) -> str:
    age = _UNKNOWN if document.age_s is None else f"{document.age_s:.0f} s"
    role = "the leader" if document.leader else "a standby"
    version = f"epoch {_shown(document.epoch)}, sequence {_shown(document.sequence)}"
    return f"plan of {document.at or _UNKNOWN}, {age} old, {version}, from {role}"


def _shown(value: float | None, unit: str = "") -> str:
    if value is None:
        return _UNKNOWN
    return f"{value:.4g}{unit}" if isinstance(value, float) else f"{value}{unit}"


def _safe(text: str) -> str:
    """Escape what a terminal would act upon: the document came over a network."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)
