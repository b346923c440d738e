"""What is wrong, or doubtful, between the parts of a configuration file: each part alone may be right. Pure.

`conflicts` are errors. `doubts` are for a person to look at: the file works, but hardly as it was meant.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from scaler.config.durations import parse_duration
from scaler.config.problems import Problem
from scaler.config.sections import keys_given

# A kind of which nothing happens is listed anew every 90 s: between two lists the view of a quiet cluster is that old.
LEAST_VIEW_STALE_AFTER_S: Final = 100.0


def conflicts(document: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what one part asks for and another cannot give."""
    in_cluster = _in_cluster(document)
    if in_cluster and not keys_given(document.get("scaler")).get("knownAs"):
        message = "must be given with cluster.kubernetes: without it every external trigger would count as Headway's"
        yield Problem(("scaler", "knownAs"), message)
    if not in_cluster:
        yield from _without_cluster(document)
    metrics = keys_given(document.get("metrics"))
    if document.get("history") is not None and "prometheus" not in metrics:
        yield Problem(("history",), "must be left out without metrics.prometheus, from which it is read")
    if metrics and "prometheus" not in metrics:
        yield from _without_queries(document)


def doubts(document: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what works, but hardly as it was meant."""
    store, leadership = keys_given(document.get("planStore")), keys_given(document.get("leadership"))
    if "lease" in leadership and "file" in store:
        message = (
            "should be configMap with leadership.lease: a file refuses no controller that leads no more, and is"
            " only there for who shares the disk"
        )
        yield Problem(("planStore", "file"), message)
    if "configMap" in store and not leadership:
        message = (
            "should be given with planStore.configMap: without it each controller takes itself for the only one,"
            " and a rolling update runs two"
        )
        yield Problem(("leadership",), message)
    if _in_cluster(document):
        yield from _stale_too_soon(keys_given(document.get("decision")).get("viewStaleAfter"))


def _in_cluster(document: Mapping[str, Any]) -> bool:
    cluster = document.get("cluster")
    return "kubernetes" in keys_given(cluster)


def _without_cluster(document: Mapping[str, Any]) -> Iterator[Problem]:
    if document.get("events") is True:
        yield Problem(("events",), "must be false without cluster.kubernetes: Events are about its ScaledObjects")
    if "pods" in keys_given(keys_given(document.get("metrics")).get("scrape")):
        message = "must be false without cluster.kubernetes, which knows the addresses of the pods"
        yield Problem(("metrics", "scrape", "pods"), message)


def _without_queries(document: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what is granted and never seen: nobody evaluates PromQL where metrics are scraped or replayed."""
    message = "must be left out without metrics.prometheus: nothing else evaluates the queries that it needs"
    profiles, sources = document.get("profiles"), document.get("sources")
    for index, _ in enumerate(profiles if isinstance(profiles, list) else ()):
        yield Problem(("profiles", index), message)
    for index, source in enumerate(sources if isinstance(sources, list) else ()):
        for kind in ("route", "profile"):
            if kind in keys_given(source):
                yield Problem(("sources", index, kind), message)


def _stale_too_soon(given: Any) -> Iterator[Problem]:
    if not isinstance(given, str | int | float):
        return  # left out, or reported as of the wrong kind
    try:
        view_stale_after_s = parse_duration(given)
    except ValueError:
        return  # reported as no duration
    if view_stale_after_s < LEAST_VIEW_STALE_AFTER_S:
        message = (
            f"should be >= {LEAST_VIEW_STALE_AFTER_S:g}s with cluster.kubernetes, was {view_stale_after_s:g}s:"
            " where nothing changes, the view is renewed every 90s"
        )
        yield Problem(("decision", "viewStaleAfter"), message)
