"""Tells whether this cluster's HPAs keep the tolerance that a ScaledObject asks for.

An API server whose gate HPAConfigurableTolerance is off (the default before Kubernetes 1.35), and a KEDA before 2.18,
drop the field without a word. So HPAs are read back, a few of them: to follow all would be an event for each whenever
its metric moves. One that has the field proves that it is kept, which nobody can feign where the server drops it. Only
where none of several has it, twice in a row, is it taken for dropped: KEDA may be about to write it.
"""

import random
import threading
from collections.abc import Callable, Sequence
from typing import Final

from scaler.adapters.kubernetes.api import ApiConnection, ApiError, path
from scaler.adapters.kubernetes.objects import Key, Object, part
from scaler.adapters.kubernetes.pods import controller_of

REFRESH_S: Final = 3600.0  # while it is kept: a cluster is upgraded now and then
RECHECK_S: Final = 300.0  # while it is dropped, or may not be read: somebody may be at it
RETRY_S: Final = 15.0  # while none could be read, or the first look is to be confirmed
IDLE_S: Final = 1.0  # while there are none to ask for, which asks nobody
SAMPLES: Final = 5  # of HPAs, in one look
LOOKS: Final = 2  # in a row, before the field is taken for dropped
_API: Final = ("apis", "autoscaling", "v2")
_SIDES: Final = ("scaleUp", "scaleDown")
PROBLEM: Final = (
    "the cluster drops the tolerance of HPAs (gate HPAConfigurableTolerance; KEDA before 2.18): "
    "targets are rounded to what an HPA does not ignore"
)
REFUSED: Final = (
    "horizontalpodautoscalers may not be read (get): "
    "a cluster that drops their tolerance is not told of, nor allowed for"
)


class KeptTolerance:
    """Looks now and then, in a thread of its own."""

    def __init__(
        self,
        api: ApiConnection,
        candidates: Callable[[], Sequence[tuple[Key, str]]],
        tell: Callable[[bool], None],
        *,
        retry_s: float = RETRY_S,
    ) -> None:
        """Read some of `candidates()`, and `tell` whether the tolerance is dropped.

        They are HPAs whose ScaledObjects ask for a tolerance, each with the uid of its ScaledObject.
        """
        self._api = api
        self._candidates = candidates
        self._tell = tell
        self._retry_s = retry_s
        self._chance = random.Random()  # noqa: S311  # which HPAs are looked at is no secret
        self._without = 0  # looks in a row that found none that has it
        self._refused = False
        self.problem = ""  # one line where the field is dropped, or nothing may be read
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hpa-tolerance", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; a call that hangs ends with its time-out, or as its connection is closed."""
        self._stop.set()

    def join(self, timeout_s: float) -> bool:
        """Wait for the thread's end; return whether it has ended."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._stop.wait(self._api.clock.wall_duration(self.look()))

    def look(self) -> float:
        """Look once; return in how many seconds to look again. Where nothing was found, what was known holds."""
        known = self._candidates()
        if not known:
            return min(IDLE_S, self._retry_s)
        if (kept := self._kept(known)) is not None:
            self._without = 0 if kept else min(self._without + 1, LOOKS)
            if self._without in {0, LOOKS}:
                self._tell(self._without == LOOKS)
        dropped = self._without == LOOKS
        self.problem = PROBLEM if dropped else REFUSED if self._refused and not kept else ""
        if kept:
            return REFRESH_S
        return RECHECK_S if self.problem else self._retry_s

    def _kept(self, known: Sequence[tuple[Key, str]]) -> bool | None:
        """Return whether the field is kept; None where no HPA that should have it could be read."""
        found, self._refused = None, False
        for (namespace, name), scaled_object in self._chance.sample(known, min(SAMPLES, len(known))):
            try:
                hpa = self._api.get(path(*_API, "namespaces", namespace, "horizontalpodautoscalers", name))
            except ApiError as error:  # most often it is not made yet
                self._refused |= error.status in {401, 403}
                continue
            kept = keeps_tolerance(hpa, scaled_object)
            if kept:
                return True
            found = found if kept is None else False
        return found


def keeps_tolerance(hpa: Object, scaled_object: str) -> bool | None:
    """Return whether an HPA has a tolerance; None of one that is not the HPA of this ScaledObject (its uid)."""
    behavior = part(part(hpa, "spec"), "behavior")
    if not behavior or controller_of(part(hpa, "metadata")).uid != scaled_object:
        return None
    return any("tolerance" in part(behavior, side) for side in _SIDES)
