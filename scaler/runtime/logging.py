"""Logs: one JSON object a line where a machine reads, a readable line where a person does. Events are nouns and fields.

One event for each tick and one for each change of a target. Trigger metadata and secrets never reach a log: what is
logged is named field by field.
"""

import logging
import sys
from collections.abc import Iterator
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, Processor

from scaler.core.plan import Plan, Recommendation
from scaler.core.values import Missing, WorkloadId, value_of
from scaler.runtime.control import TickReport

_log = structlog.get_logger(__name__)


def configure_logging(*, level: str = "info", stream: TextIO | None = None, readable: bool | None = None) -> None:
    """Send all logs, those of libraries included, to a stream (default: stderr), from `level` on.

    `readable` None means: for a person if the stream is a terminal, else JSON. ValueError for an unknown level.
    """
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise ValueError(f"log level must be one of debug, info, warning, error, was {level!r}")
    out = sys.stderr if stream is None else stream
    handler = logging.StreamHandler(out)
    handler.setFormatter(_formatter(readable=out.isatty() if readable is None else readable))
    logging.basicConfig(handlers=[handler], level=max(number, logging.INFO), force=True)
    logging.captureWarnings(capture=True)
    # Each APScheduler job would log two lines a tick beside ours.
    logging.getLogger("apscheduler").setLevel(max(number, logging.WARNING))
    for name in ("scaler", "forecasting"):  # libraries stay at info: their debug output may show headers with secrets
        logging.getLogger(name).setLevel(number)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_shared(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


def _shared() -> list[Processor]:
    """Return what every event goes through, ours and those of libraries."""
    return [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.format_exc_info,  # the plain trace: one with local variables would show secrets
    ]


def _formatter(*, readable: bool) -> logging.Formatter:
    console = structlog.dev.ConsoleRenderer(
        timestamp_key="time", exception_formatter=structlog.dev.plain_traceback, pad_event_to=12
    )
    render: list[Processor] = [_one_line, console] if readable else [_in_order, structlog.processors.JSONRenderer()]
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=_shared(),
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *render],
    )


def _in_order(_: Any, __: str, event: EventDict) -> EventDict:
    """Put first what a person looks for first in a line that is longer than the screen."""
    first = {key: event[key] for key in ("time", "level", "event") if key in event}
    return {**first, **event}


def _one_line(_: Any, __: str, event: EventDict) -> EventDict:
    """Escape control characters, so that no text from outside can make a line that looks like another event."""
    return {
        key: value if key == "exception" or not isinstance(value, str) or value.isprintable() else _escaped(value)
        for key, value in event.items()
    }


def _escaped(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def log_tick(report: TickReport, before: TickReport | None) -> None:
    """Log a tick as one event, and each target that it changed as one more."""
    previous = before.plan if before else None
    for change in target_changes(report.plan, previous):
        _log.info("target", **change)
    log = _log.warning if report.problems else _log.info
    log("tick", **tick_event(report, previous))


def tick_event(report: TickReport, previous: Plan | None) -> dict[str, Any]:
    """Return the fields of a tick's event: how long it took, what it decided and what it could not see."""
    items = report.plan.recommendations.values()
    version = report.version
    return {
        "at_s": report.plan.at_s,
        "took_s": round(report.took_s, 4),
        "leading": report.leading,
        "published": report.published,
        "epoch": version.epoch if version else None,
        "sequence": version.sequence if version else None,
        "workloads": len(items),
        "changed": sum(1 for _ in target_changes(report.plan, previous)),
        "unknown": sum(isinstance(item.target, Missing) for item in items),
        "with_missing": sum(bool(item.missing) for item in items),
        "oldest_evidence_s": round(max((item.evidence_age_s for item in items), default=0.0), 1),
        "problems": list(report.problems),
    }


def target_changes(plan: Plan, previous: Plan | None) -> Iterator[dict[str, Any]]:
    """Yield the fields of one event for each target that is not what it was, in order of the workloads."""
    old = {} if previous is None else previous.recommendations
    for key in sorted(plan.recommendations):
        item = plan.recommendations[key]
        before = _target(old.get(key))
        if key not in old or before != _target(item):
            yield _change(key, item, before)


def _change(key: WorkloadId, item: Recommendation, before: int | None) -> dict[str, Any]:
    return {
        "namespace": key.namespace,
        "workload": key.name,
        "before": before,
        "after": _target(item),
        "told": None if isinstance(item.told, Missing) else item.told,
        "reason": item.reason,
        "mode": item.mode,
        "saturation": _rounded(value_of(item.saturation.value)),
        "binding": item.saturation.binding,
        "demand": _rounded(value_of(item.demand)),
        "evidence_age_s": round(item.evidence_age_s, 1),
        "missing": list(item.missing),
        "notes": list(item.notes),
    }


def _target(item: Recommendation | None) -> int | None:
    return None if item is None or isinstance(item.target, Missing) else item.target


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
