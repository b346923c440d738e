"""Range queries: one expression evaluated at every point of a grid, by anything that speaks the Prometheus HTTP API."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

import numpy as np
from prometheus_api_client.prometheus_connect import PrometheusConnect

from forecasting.series import Grid, Values
from scaler.adapters.prometheus import PrometheusSettings, PrometheusSource
from scaler.ports import Clock

MAX_POINTS = 11_000  # of one series in one answer: Prometheus' own limit, not to be configured there


@dataclass(frozen=True, slots=True)
class RangeRow:
    """One series of an answer: values on the grid that was asked for, NaN where there was none."""

    labels: Mapping[str, str]
    values: Values


@dataclass(frozen=True, slots=True)
class RangeAnswer:
    """The answer to a range query. `samples` is how many the server says it looked at; None where it does not tell."""

    rows: Sequence[RangeRow]
    partial: tuple[str, ...] = ()
    samples: int | None = None


class RangeSource(Protocol):
    """A server that evaluates PromQL over a range."""

    async def matrix(self, query: str, grid: Grid) -> RangeAnswer:
        """Return an expression's values at the points of a grid; SourceError when there is no whole answer."""
        ...


class PrometheusRanges(PrometheusSource):
    """A PrometheusSource that evaluates ranges too. Times are the wall's: a rehearsal has no past to read."""

    def __init__(self, settings: PrometheusSettings, clock: Clock, rng: random.Random | None = None) -> None:
        super().__init__(settings, clock, rng)
        self._client = _RangeClient(self._client)  # type: ignore[assignment]  # it has all that a source calls

    async def matrix(self, query: str, grid: Grid) -> RangeAnswer:
        """Return an expression's values at the points of a grid; SourceError when there is none.

        ValueError where the grid has more points than a server evaluates in one query.
        """
        if grid.count > MAX_POINTS:
            raise ValueError(f"points of a query must be at most {MAX_POINTS}, were {grid.count}")
        parameters = {
            "query": query,
            "start": str(grid.start_s),
            "end": str(grid.last_s),
            "step": str(grid.step_s),
            "stats": "true",
        }
        return await self._answer(parameters, lambda data, notes: _read(data, grid, notes))


class _RangeClient:
    """The API client, which has one call for instants and another for ranges, behind the one that a source makes."""

    def __init__(self, client: PrometheusConnect) -> None:
        self._client = client

    def custom_query(self, query: str, params: dict[str, str]) -> Any:
        """Ask for a range where `params` has a step, else for an instant."""
        if "step" not in params:
            return self._client.custom_query(query, params)
        start, end = (datetime.fromtimestamp(int(params[name]), UTC) for name in ("start", "end"))
        return self._client.custom_query_range(query, start, end, params["step"], params)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _read(data: Any, grid: Grid, notes: tuple[str, ...]) -> RangeAnswer:
    """Read a matrix. ValueError, TypeError, KeyError or IndexError where it is none."""
    if data["resultType"] != "matrix":
        raise ValueError(f"result type must be matrix, was {str(data['resultType'])[:50]!r}")
    rows = tuple(
        RangeRow(series["metric"], _on_grid(series["values"], grid)) for series in data["result"] if "values" in series
    )
    return RangeAnswer(rows, notes, _samples(data.get("stats")))


def _on_grid(pairs: Sequence[tuple[float, str]], grid: Grid) -> Values:
    """Return the finite values of a series, each in its place."""
    times = np.fromiter((at_s for at_s, _ in pairs), np.float64, len(pairs))
    found = np.fromiter((float(value) for _, value in pairs), np.float64, len(pairs))
    return grid.place(times, found)


def _samples(stats: Any) -> int | None:
    """Return how many samples a query touched, from its statistics. Not every server has them."""
    try:
        return int(stats["samples"]["totalQueryableSamples"])
    except (TypeError, KeyError, ValueError, OverflowError):
        return None
