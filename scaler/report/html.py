"""A run as one self-contained HTML file: no script, nothing fetched, readable on a phone, in the dark and aloud.

The verdict comes first, then the figures, the plots, and everything needed to judge them.
"""

from importlib.resources import files
from pathlib import Path
from xml.etree.ElementTree import Element

from scaler.config.durations import format_duration
from scaler.report.markup import element, page, style_sheet
from scaler.report.palette import variables
from scaler.report.run_record import RunRecord, ScaleEvent
from scaler.report.text import clock, exact_percent, percent, quantity
from scaler.report.verdict import objective_met, verdict

# Nothing may be fetched, whatever a name from outside contains.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_OUTCOMES = {True: ("met", "Objective met"), False: ("missed", "Objective missed"), None: ("open", "No requests")}


def write_report(record: RunRecord, path: Path) -> None:
    """Write the report of a run to `path`; OSError when it cannot be written there."""
    path.write_text(report_html(record), encoding="utf-8")


def report_html(record: RunRecord) -> str:
    """Return the report of a run as an HTML document."""
    return page(element("html", _head(record), _body(record), lang="en-GB"))


def _head(record: RunRecord) -> Element:
    css = files("scaler.report").joinpath("report.css").read_text(encoding="utf-8")
    palettes = (
        f":root{{{variables(dark=False)}}}\n@media(prefers-color-scheme:dark){{:root{{{variables(dark=True)}}}}}\n"
    )
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{record.title}: {record.trace}"),
        style_sheet(palettes + css),
    )


def _body(record: RunRecord) -> Element:
    return element(
        "body",
        element(
            "header",
            element("h1", record.title),
            element("p", f"{record.trace} at {quantity(record.speed)} times its speed", class_="quiet"),
        ),
        element(
            "main",
            _verdict(record),
            *_faults(record),
            _figures(record),
            *_plots(record),
            element("h2", "Scale events"),
            _events(record.events),
            element("h2", "Settings"),
            _settings(record),
        ),
        element("footer", element("p", f"Recorded traffic: {record.attribution}", class_="quiet")),
    )


def _verdict(record: RunRecord) -> Element:
    kind, badge = _OUTCOMES[objective_met(record)]
    return element(
        "section",
        element("p", badge, class_="badge"),
        *(element("p", sentence) for sentence in verdict(record)),
        class_=f"verdict {kind}",
        aria_label="Verdict",
    )


def _faults(record: RunRecord) -> list[Element]:
    result = record.result
    faults = []
    if result.tick_errors:
        faults.append(f"{result.tick_errors:,} of {result.ticks + result.tick_errors:,} ticks failed")
    if result.grpc_errors:
        faults.append(f"{result.grpc_errors:,} of {result.grpc_calls:,} gRPC calls were answered with an error")
    return [element("p", f"{' and '.join(faults)}; meanwhile the replicas were held.")] if faults else []


def _figures(record: RunRecord) -> Element:
    result, objective = record.result, record.objective
    attained = None if result.slo_attainment is None else percent(result.slo_attainment, beside=objective)
    fixed = result.static_peak_gpu_hours
    rows = (
        ("SLO attainment", attained, f"objective {exact_percent(objective)} within {format_duration(record.slo_s)}"),
        ("GPU-hours", quantity(result.gpu_hours), f"fixed fleet at peak {quantity(fixed)}" if fixed else ""),
        ("Requests", f"{result.requests:,}", "" if result.surges is None else f"{result.surges} surges"),
        (
            "Queue time, median",
            _seconds(result.queue_time_p50_s),
            f"99th percentile {_seconds(result.queue_time_p99_s)}",
        ),
        (
            "Replicas",
            _span(result.replicas_min, result.replicas_max),
            f"{result.scale_ups} ups, {result.scale_downs} downs",
        ),
        ("Decisions", f"{result.ticks:,}", _first_decision(record)),
        ("gRPC calls", f"{result.grpc_calls:,}", _latency(record)),
        (
            "Simulated time",
            format_duration(round(result.simulated_s)),
            f"in {format_duration(round(result.wall_s))} of real time",
        ),
    )
    return element("dl", *(_figure(name, value, more) for name, value, more in rows), class_="figures")


def _figure(name: str, value: str | None, more: str) -> Element:
    small = [element("small", more)] if more else []
    return element("div", element("dt", name), element("dd", value or "none", *small))


def _plots(record: RunRecord) -> list[Element]:
    # matplotlib takes seconds to load: only a run that is reported pays for it.
    from scaler.report.plot_markup import plot_sections  # noqa: PLC0415 -- as said above

    return plot_sections(record) or [element("p", "The run has no samples to plot.")]


def _events(events: tuple[ScaleEvent, ...]) -> Element:
    if not events:
        return element("p", "The number of replicas never changed.")
    rows = (
        element(
            "tr",
            element("td", clock(event.at_s), class_="number"),
            element("td", str(event.before), class_="number"),
            element("td", str(event.after), class_="number"),
            element("td", event.reason),
        )
        for event in events
    )
    heads = (("Time", "number"), ("Before", "number"), ("After", "number"), ("Reason", ""))
    return element(
        "div",
        element(
            "table",
            element("caption", f"{len(events):,} changes; times are hours, minutes and seconds into the run"),
            element("thead", element("tr", *(element("th", name, scope="col", class_=kind) for name, kind in heads))),
            element("tbody", *rows),
        ),
        class_="scroll",
    )


def _settings(record: RunRecord) -> Element:
    rows = (element("tr", element("th", name, scope="row"), element("td", value)) for name, value in record.settings)
    return element("table", element("tbody", *rows))


def _seconds(value: float | None) -> str:
    return "none" if value is None else f"{quantity(value)} s"


def _span(least: int | None, most: int | None) -> str | None:
    return None if least is None or most is None else f"{least} to {most}"


def _first_decision(record: RunRecord) -> str:
    after_s = record.result.first_decision_s
    first = "" if after_s is None else f"first after {quantity(after_s)} s"
    return f"{first}, through Prometheus".removeprefix(", ") if record.result.prometheus else first


def _latency(record: RunRecord) -> str:
    latency_ms = record.result.grpc_p99_ms
    return "" if latency_ms is None else f"99th percentile {quantity(latency_ms)} ms"
