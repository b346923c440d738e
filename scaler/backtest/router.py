"""Finds the pod with the fewest running sequences among those that are open, in O(log n)."""

from collections.abc import Mapping
from heapq import heapify, heappop, heappush

from scaler.backtest.pods import Pod


class LeastLoaded:
    """Pods by load, as offers (running, ordinal). One that no longer holds is dropped when it comes to the top.

    A pod must be offered whenever its load has changed and when it has opened. `pods` are the live ones by ordinal.
    """

    __slots__ = ("_offers", "_pods")

    def __init__(self, pods: Mapping[int, Pod]) -> None:
        self._pods = pods
        self._offers: list[tuple[int, int]] = []

    def offer(self, pod: Pod, now_s: float) -> None:
        """Take note of a pod's load."""
        if pod.takes_requests and pod.engine.is_open(now_s):
            heappush(self._offers, (pod.engine.running, pod.ordinal))
            # A load that comes back makes old offers of it valid again, so they can pile up below the top.
            if len(self._offers) > 64 + 8 * len(self._pods):
                self._rebuild(now_s)

    def pick(self, tokens: int, now_s: float) -> Pod | None:
        """Return the open pod with the fewest sequences that has room for a prompt of `tokens`; None if there is none.

        Only when the least loaded pod has no room in its KV cache are the others looked through.
        """
        offers = self._offers
        while offers:
            running, ordinal = offers[0]
            pod = self._pods.get(ordinal)
            if pod is not None and pod.takes_requests:
                engine = pod.engine
                if running == engine.running and engine.is_open(now_s):
                    engine.advance(now_s)
                    return pod if engine.has_room(tokens) else self._with_room(tokens, now_s)
            heappop(offers)
        return None

    def _with_room(self, tokens: int, now_s: float) -> Pod | None:
        fitting = (p for p in self._pods.values() if _is_open(p, now_s) and _has_room(p, tokens, now_s))
        return min(fitting, key=lambda pod: (pod.engine.running, pod.ordinal), default=None)

    def _rebuild(self, now_s: float) -> None:
        self._offers = [(pod.engine.running, pod.ordinal) for pod in self._pods.values() if _is_open(pod, now_s)]
        heapify(self._offers)


def _is_open(pod: Pod, now_s: float) -> bool:
    return pod.takes_requests and pod.engine.is_open(now_s)


def _has_room(pod: Pod, tokens: int, now_s: float) -> bool:
    pod.engine.advance(now_s)
    return pod.engine.has_room(tokens)
