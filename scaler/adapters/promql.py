"""The one PromQL expression that Headway asks, built from exact names, and its answer.

An instant query for an instant vector returns values stamped with the time of evaluation, so a pod that was last
scraped four minutes ago looks as fresh as any other. `timestamp()` would tell, but it drops the metric name, and a
vector of several metrics is then an error. A range selector in an instant query returns the samples as they were
scraped, with their own time stamps: one query, in which the labels are the bulk and the few extra samples are cheap.
The newest sample of each series is taken.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from scaler.ports import Sample, SampleRequest

_SHOWN_CHARACTERS = 50
_METRIC_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


def selector(request: SampleRequest, lookback_s: float) -> str:
    """Return the range selector for a request. ValueError for a name that is no metric name."""
    if not request.names or not all(_METRIC_NAME.fullmatch(name) for name in request.names):
        raise ValueError(f"metric names must match {_METRIC_NAME.pattern}, were {request.names!r}")
    matchers = [f"__name__=~{quoted(one_of(request.names))}"]
    if request.namespaces:
        matchers.append(f"namespace=~{quoted(one_of(request.namespaces))}")
    return f"{{{','.join(matchers)}}}[{max(1, round(lookback_s * 1000))}ms]"


def one_of(texts: Iterable[str]) -> str:
    """Return a regular expression that matches exactly these texts (Prometheus anchors it).

    A hyphen means nothing outside brackets. Unescaped, the list is shorter, and servers see that it is only a list.
    """
    return "|".join(re.escape(text).replace(r"\-", "-") for text in sorted(set(texts)))


def quoted(text: str) -> str:
    """Return a PromQL string literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def newest_samples(data: Any, from_wall: Callable[[float], float]) -> Iterator[Sample]:
    """Read the answer to a range selector. ValueError, TypeError or KeyError where it is not one."""
    for series in _result(data, "matrix"):
        if not (values := series.get("values")):  # a native histogram has `histograms` instead
            continue
        at_s, value = values[-1]
        labels = dict(series["metric"])
        yield Sample(labels.pop("__name__"), labels, float(value), from_wall(float(at_s)))


def vector_rows(data: Any) -> tuple[list[tuple[Mapping[str, str], float]], float | None]:
    """Read an instant vector: its rows, and when it was evaluated, of the wall (None: it is empty, and does not tell).

    ValueError, TypeError, KeyError or IndexError where it is none.
    """
    result = _result(data, "vector")
    if any("histogram" in row for row in result):  # a native histogram is no number
        result = [row for row in result if "value" in row]
    rows = [(row["metric"], float(row["value"][1])) for row in result]
    return rows, float(result[0]["value"][0]) if result else None


def _result(data: Any, kind: str) -> Any:
    if data["resultType"] != kind:
        raise ValueError(f"result type must be {kind}, was {str(data['resultType'])[:_SHOWN_CHARACTERS]!r}")
    return data["result"]
