"""Tells whether this cluster's HPAs keep the tolerance that a ScaledObject asks for.

An API server whose gate HPAConfigurableTolerance is off (the default before Kubernetes 1.35), and a KEDA before 2.18,
drop the field without a word. So HPAs are read back: one that has it proves that it is kept, which nobody can feign
where the server drops it. Only where none of several has it is it taken for dropped.
"""

import random
import threading
from collections.abc import Callable, Sequence
from typing import Final

from scaler.adapters.kubernetes.api import ApiConnection, ApiError, path
from scaler.adapters.kubernetes.objects import Key, Object, part

REFRESH_S: Final = 3600.0  # a cluster is upgraded now and then
RETRY_S: Final = 15.0  # while none could be read: KEDA makes them a little after their ScaledObjects
IDLE_S: Final = 1.0  # while there are none to ask for, which asks nobody
SAMPLES: Final = 5  # of HPAs, before the field is taken for dropped
_API: Final = ("apis", "autoscaling", "v2")
_SIDES: Final = ("scaleUp", "scaleDown")
PROBLEM: Final = (
    "the cluster drops the tolerance of HPAs (gate HPAConfigurableTolerance; KEDA before 2.18): "
    "targets are rounded to what an HPA does not ignore"
)


class KeptTolerance:
    """Looks now and then, in a thread of its own."""

    def __init__(
        self, api: ApiConnection, candidates: Callable[[], Sequence[Key]], tell: Callable[[bool], None]
    ) -> None:
        """Read some of `candidates()`, HPAs whose ScaledObjects ask for a tolerance; `tell` whether it is dropped."""
        self._api = api
        self._candidates = candidates
        self._tell = tell
        self._chance = random.Random()  # noqa: S311  # which HPAs are looked at is no secret
        self.problem = ""  # one line where the field is dropped
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
            known = self._candidates()
            dropped = self._look(known)
            if dropped is not None:
                self.problem = PROBLEM if dropped else ""
                self._tell(dropped)
            wait_s = REFRESH_S if dropped is not None else RETRY_S if known else IDLE_S
            self._stop.wait(self._api.clock.wall_duration(wait_s))

    def _look(self, known: Sequence[Key]) -> bool | None:
        """Return whether the field is dropped; None where no HPA that should have it could be read."""
        read = 0
        for namespace, name in self._chance.sample(known, min(SAMPLES, len(known))):
            try:
                hpa = self._api.get(path(*_API, "namespaces", namespace, "horizontalpodautoscalers", name))
            except ApiError:
                continue  # not made yet, or out of sight: what was known holds
            if keeps_tolerance(hpa):
                return False
            read += bool(part(part(hpa, "spec"), "behavior"))
        return True if read else None


def keeps_tolerance(hpa: Object) -> bool:
    """Return whether an HPA has a tolerance of its own."""
    behavior = part(part(hpa, "spec"), "behavior")
    return any("tolerance" in part(behavior, side) for side in _SIDES)
