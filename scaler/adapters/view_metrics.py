"""Metrics of the live cluster view: how old it is, what following the cluster costs, and what in it cannot be used."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from scaler.adapters.metric_specs import Row, counter, families_of, gauge

AGE = gauge("headway_view_age_seconds", "Time since the cluster view was last known to be current.")
LISTS = counter(
    "headway_view_lists_total", "Lists that were taken over, by kind; more than a few tell of trouble.", "kind"
)
EVENTS = counter("headway_view_events_total", "Events of watches, by kind.", "kind")
ODD = counter("headway_view_odd_objects_total", "Objects and events that could not be read, by kind.", "kind")
REFUSED = gauge(
    "headway_workloads_refused", "Workloads whose manifest has errors, or whose target another one has; see /plan."
)
ABSENT = gauge("headway_workloads_absent", "Workloads whose scale target the cluster view has nothing of.")
VIEW_METRICS = (AGE, LISTS, EVENTS, ODD, REFUSED, ABSENT)


@dataclass(frozen=True, slots=True)
class ViewFigures:
    """What a view has done since it started, and how it stands. Kinds are plurals: `pods`, `deployments`."""

    age_s: float | None  # of the newest snapshot that there could be; None while there could be none
    lists: Mapping[str, int]
    events: Mapping[str, int]
    odd: Mapping[str, int]  # objects and events that could not be read, by kind
    refused: int  # workloads whose manifests have errors, or that another has taken the target of
    absent: int  # workloads of the policy that the view has nothing of


class ViewCollector(Collector):
    """Renders the figures of a view, as they are when it is scraped."""

    def __init__(self, figures: Callable[[], ViewFigures]) -> None:
        self._figures = figures

    def describe(self) -> Iterable[Metric]:
        """Return the families without samples, so that a registry sees a name that is taken."""
        return families_of(VIEW_METRICS)

    def collect(self) -> Iterable[Metric]:
        """Render the figures."""
        return families_of(VIEW_METRICS, _rows(self._figures()))


def _rows(figures: ViewFigures) -> Iterator[Row]:
    if figures.age_s is not None:
        yield AGE, (), figures.age_s
    for spec, counts in ((LISTS, figures.lists), (EVENTS, figures.events), (ODD, figures.odd)):
        for kind, count in sorted(counts.items()):
            yield spec, (kind,), float(count)
    yield REFUSED, (), float(figures.refused)
    yield ABSENT, (), float(figures.absent)
