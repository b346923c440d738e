"""The interpreter of a process that answers calls."""

import gc
import subprocess
import sys

_SCRIPT = """
import gc, sys
from scaler.runtime.interpreter import SWITCH_S, answer_promptly
answer_promptly()
assert abs(sys.getswitchinterval() - SWITCH_S) < 1e-6, sys.getswitchinterval()
assert gc.isenabled()
assert gc.get_freeze_count() > 1000, gc.get_freeze_count()
assert not any(module is found for module in sys.modules.values() for found in gc.get_objects())
"""


def test_what_is_loaded_is_no_longer_collected() -> None:
    """Afterwards the collector runs, but passes over what was there before; threads take turns more often."""
    done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


_BETWEEN_TICKS = """
import gc
from scaler.runtime.interpreter import collect_between_ticks
class Node: pass
def cycle():
    node = Node()
    node.self = node
collected = []
gc.callbacks.append(lambda phase, _: collected.append(phase))
collect = collect_between_ticks()
kept = [[] for _ in range(100_000)]
assert not collected, "no collection while a tick runs"
collect()
frozen = gc.get_freeze_count()
assert frozen > 100_000, frozen
cycle()
collect()
assert not any(type(it) is Node for it in gc.get_objects()), "cycles of a later tick are collected"
assert gc.get_freeze_count() <= frozen, "only what the first tick left is kept out"
assert not gc.isenabled()
"""


def test_a_controller_collects_between_ticks_only() -> None:
    """While it ticks nothing is collected; between ticks it is, and what the first tick left is passed over."""
    done = subprocess.run(
        [sys.executable, "-c", _BETWEEN_TICKS], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_importing_it_changes_nothing() -> None:
    """Only the call changes how this process runs."""
    before = sys.getswitchinterval(), gc.get_freeze_count()
    import scaler.runtime.interpreter  # noqa: F401 - what is tested is that the import has no effect

    assert (sys.getswitchinterval(), gc.get_freeze_count()) == before
