"""What became of each request of a run, and what the fleet cost: the figures that every report starts from."""

from array import array
from dataclasses import dataclass

import numpy as np

from scaler.traces.model import FloatArray

_NEVER = float("nan")


@dataclass(frozen=True, slots=True)
class Scores:
    """A run up to a time, for the requests that arrived in the scored part. Quantiles are of requests that started."""

    requests: int
    met: int  # within the SLO and finished
    finished: int
    rejected: int  # too long for the model, or lost with an engine
    attainment: float | None  # None without requests
    queue_time_p50_s: float | None
    queue_time_p95_s: float | None
    queue_time_p99_s: float | None
    ttft_p99_s: float | None
    gpu_seconds: float

    @property
    def gpu_hours(self) -> float:
        """Return the cost in GPU-hours: from a pod's creation until it is gone, drain included."""
        return self.gpu_seconds / 3600


class Ledger:
    """Per request: when it started, had its first token, finished. NaN until then."""

    __slots__ = ("finished_s", "first_token_s", "lost", "started_s")

    def __init__(self, requests: int) -> None:
        blank = array("d", [_NEVER])
        self.started_s = blank * requests
        self.first_token_s = blank * requests
        self.finished_s = blank * requests
        self.lost = bytearray(requests)

    def score(
        self, arrivals_s: FloatArray, *, slo_s: float, on_ttft: bool, until_s: float, gpu_seconds: float, first: int
    ) -> Scores:
        """Score the requests `first` .. len(arrivals_s) - 1 as of `until_s`, which is when the run stands.

        A request that was rejected or is unfinished by then did not meet the SLO.
        """
        part = slice(first, len(arrivals_s))
        arrived_s = arrivals_s[part]
        started_s, first_token_s, finished_s = (
            np.frombuffer(column)[part] for column in (self.started_s, self.first_token_s, self.finished_s)
        )
        first_token_s = np.where(first_token_s <= until_s, first_token_s, np.nan)
        queue_s, ttft_s = started_s - arrived_s, first_token_s - arrived_s
        finished = np.isfinite(finished_s)
        # NaN compares false: what has not started has not met anything.
        met = finished & ((ttft_s if on_ttft else queue_s) <= slo_s)
        requests = len(arrived_s)
        queue_p50_s, queue_p95_s, queue_p99_s = _quantiles(queue_s, (0.5, 0.95, 0.99))
        return Scores(
            requests=requests,
            met=int(met.sum()),
            finished=int(finished.sum()),
            rejected=self.lost[part].count(1),
            attainment=float(met.sum() / requests) if requests else None,
            queue_time_p50_s=queue_p50_s,
            queue_time_p95_s=queue_p95_s,
            queue_time_p99_s=queue_p99_s,
            ttft_p99_s=_quantiles(ttft_s, (0.99,))[0],
            gpu_seconds=gpu_seconds,
        )


def _quantiles(values: FloatArray, levels: tuple[float, ...]) -> list[float | None]:
    known = values[np.isfinite(values)]
    return [float(q) for q in np.quantile(known, levels)] if len(known) else [None] * len(levels)
