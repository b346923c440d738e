"""Sets up the interpreter of a process that must answer while another of its threads works.

A scaler reads a plan of ten thousand workloads in a thread and answers KEDA in another. Two habits of the interpreter
would let calls wait meanwhile; `make bench` shows by how much. A controller makes a million objects in a tick, none of
them in a cycle, and the collector would go over all of them while probes wait.
"""

import gc
import sys
from collections.abc import Callable
from typing import Final

SWITCH_S: Final = 0.001  # the default is 5 ms, which a call would wait for several times over


def answer_promptly() -> None:
    """Let a thread that has something to answer run soon. Call once, when everything that stays is loaded.

    What exists now, all imported modules above all, is kept out of garbage collection: a full collection would walk
    it while a plan is being read, and hold every call for as long (50 ms, of which the plan is a tenth).
    """
    sys.setswitchinterval(SWITCH_S)
    gc.collect()
    gc.freeze()


def collect_between_ticks() -> Callable[[], None]:
    """Put garbage collection off, and return what does it: to be called after each tick. Call once, before the first.

    Between ticks the observation is gone, and with it most of what a collection would walk. What lives when the first
    tick is over, the view of the cluster above all, is kept out of later ones. Nothing is collected while ticks do not
    end: what cycles there are come of failed calls, and are few.
    """
    gc.disable()
    settled = False

    def collect() -> None:
        nonlocal settled
        gc.collect()
        if not settled:
            gc.freeze()
        settled = True

    return collect
