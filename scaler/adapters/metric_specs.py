"""What a metric of Headway's own is: one description, from which it is exported, documented and tested."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


class Kind(StrEnum):
    """The two kinds of metrics that are exported."""

    GAUGE = "gauge"
    COUNTER = "counter"


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One metric: its name as exposed, its labels and what it says."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str

    def family(self) -> Metric:
        """Return an empty family of this metric."""
        if self.kind is Kind.COUNTER:
            return CounterMetricFamily(self.name.removesuffix("_total"), self.help, labels=self.labels)
        return GaugeMetricFamily(self.name, self.help, labels=self.labels)


def gauge(name: str, text: str, *labels: str) -> MetricSpec:
    """Return the description of a gauge."""
    return MetricSpec(name, Kind.GAUGE, labels, text)


def counter(name: str, text: str, *labels: str) -> MetricSpec:
    """Return the description of a counter."""
    return MetricSpec(name, Kind.COUNTER, labels, text)


# A metric, the values of its labels, and its value.
Row = tuple[MetricSpec, Sequence[str], float]


def families_of(specs: Iterable[MetricSpec], rows: Iterable[Row] = ()) -> list[Metric]:
    """Return the families of these metrics, with the rows as their samples."""
    families = {spec.name: spec.family() for spec in specs}
    for spec, labels, value in rows:
        families[spec.name].add_sample(spec.name, dict(zip(spec.labels, labels, strict=True)), value)
    return list(families.values())


def metrics_table(specs: Iterable[MetricSpec]) -> str:
    """Return the Markdown table of metrics, as docs/metrics.md has it."""
    rows = (f"| `{m.name}` | {m.kind} | {', '.join(f'`{label}`' for label in m.labels)} | {m.help} |" for m in specs)
    return "\n".join(["| metric | kind | labels | meaning |", "|---|---|---|---|", *rows])
