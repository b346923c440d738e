"""The generated part of docs/signals.md: which metric carries which signal, by engine, from the presets themselves.

`python -m scaler.adapters.signals.tables` prints it.
"""

from collections.abc import Iterator, Mapping
from itertools import chain

from scaler.adapters.signals.candidates import Candidate, Combine, Kind, Preset, Signal
from scaler.adapters.signals.presets import DEVICES, ENGINES, PER_QUEUE

# Signal -> its unit, and what follows where an engine does not export it.
_REPLICA: Mapping[str, tuple[str, str]] = {
    "running": ("requests", "its replicas are silent: they never scale up, and hold a scale-down"),
    "waiting": ("requests", "as above"),
    "slots": ("requests", "`slotsPerReplica` is to be set, else the slots term is absent"),
    "kv_usage": ("0..1", "the KV term is absent; slots and backlog lead"),
    "completions_rps": ("requests/s", "neither demand nor queue time can be told from the engine"),
    "prompt_tokens_rps": ("tokens/s", "the unit `promptTokens` cannot be used"),
    "output_tokens_rps": ("tokens/s", "the unit `outputTokens` cannot be used"),
    "preemptions_rps": ("events/s", "only waiting requests corroborate a full cache"),
    "rejections_rps": ("requests/s", "refused requests are demand that nobody sees"),
    "queue_time_s": ("s", "Little's law (waiting / completions) is not confirmed by a measurement"),
    "gpu_activity": ("0..1", "no veto by a busy GPU, and a stalled engine is told by its counters alone"),
}
_QUEUE: Mapping[str, str] = {
    "waiting": "messages",
    "unacked": "messages",
    "consumers": "consumers",
    "arrivals_rps": "messages/s",
    "completions_rps": "messages/s",
}
_OF_DEVICES = frozenset({"gpu_activity"})
_ORDER = {field: i for i, field in enumerate(dict.fromkeys((*_REPLICA, *_QUEUE)))}


def markdown() -> str:
    """Return the generated part: an overview, what absences mean, then each engine and each source of GPU activity."""
    return "\n".join(
        chain(
            _overview(),
            ["", "### What follows where a signal is not exported", ""],
            _consequences(),
            chain.from_iterable(_section(preset) for preset in (*ENGINES.values(), *DEVICES)),
        )
    )


def _overview() -> Iterator[str]:
    engines = [preset for preset in ENGINES.values() if preset.name not in PER_QUEUE]
    fields = [field for field in _REPLICA if field not in _OF_DEVICES]
    yield f"| engine | checked against | {' | '.join(_spaced(field) for field in fields)} |"
    yield _rule(len(fields) + 2)
    for preset in engines:
        signals = {signal.field: signal for signal in preset.signals}
        cells = (_mark(signals.get(field)) for field in fields)
        yield f"| [`{preset.name}`](#{preset.name}) | {preset.version} | {' | '.join(cells)} |"


def _mark(signal: Signal | None) -> str:
    if signal is None:
        return "no"
    return "some" if signal.optional else "yes"


def _consequences() -> Iterator[str]:
    yield "| signal | unit | where it is not exported |"
    yield _rule(3)
    for field, (unit, consequence) in _REPLICA.items():
        yield f"| {_spaced(field)} | {unit} | {consequence} |"


def _section(preset: Preset) -> Iterator[str]:
    yield from ("", f"### {preset.name}", "", f"Checked against {preset.version}.", "")
    yield "| signal | metric, in order of preference | reading | parts of a pod or queue |"
    yield _rule(4)
    for signal in sorted(preset.signals, key=lambda signal: _ORDER[signal.field]):
        yield _row(preset, signal, _spaced(signal.field))
    for signal in preset.motion:
        yield _row(preset, signal, "(motion only)")
    yield ""
    yield preset.notes.rstrip("\n")


def _row(preset: Preset, signal: Signal, label: str) -> str:
    names = "<br>".join(dict.fromkeys(_named(candidate) for candidate in signal.candidates))
    readings = "<br>".join(dict.fromkeys(_reading(preset, signal, candidate) for candidate in signal.candidates))
    extra = " (some versions or settings)" if signal.optional else ""
    return f"| {label}{extra} | {names} | {readings} | {_parts(signal)} |"


def _named(candidate: Candidate) -> str:
    matchers = [f'{label}="{value}"' for label, value in candidate.where]
    matchers += [f'{label}!=""' for label in candidate.having]
    text = f"`{candidate.name}{{{','.join(matchers)}}}`" if matchers else f"`{candidate.name}`"
    return text if candidate.per is None else f"{text} per `{candidate.per}`"


def _reading(preset: Preset, signal: Signal, candidate: Candidate) -> str:
    kind = {
        Kind.GAUGE: "as it stands",
        Kind.COUNTER: "rise per second",
        Kind.HISTOGRAM: "quantile of the window",
        Kind.RATIO: "mean of the window",
    }[signal.kind_of(candidate)]
    unit = _QUEUE.get(signal.field, "") if preset.name in PER_QUEUE else _REPLICA.get(signal.field, ("",))[0]
    scale = "" if candidate.divisor == 1 else f" / {candidate.divisor:,.0f}"
    return f"{kind}{scale}{f', {unit}' if unit else ''}"


def _parts(signal: Signal) -> str:
    parts = [f"`{part}`" for part in signal.parts if part != "le"]
    if not parts:
        return "one"
    how = {Combine.SUM: "sum", Combine.MAX: "largest", Combine.MEAN: "mean"}[signal.combine]
    return f"{how} over {', '.join(parts)}"


def _spaced(field: str) -> str:
    return field.removesuffix("_rps").removesuffix("_s").replace("_", " ")


def _rule(columns: int) -> str:
    return "|" + "---|" * columns


if __name__ == "__main__":
    print(markdown())  # noqa: T201  # what it is for
