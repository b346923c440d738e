"""Sets up the interpreter of a process that must answer while another of its threads works.

A scaler reads a plan of ten thousand workloads in a thread and answers KEDA in another. Two habits of the interpreter
would let calls wait meanwhile; `make bench` shows by how much.
"""

import gc
import sys
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
