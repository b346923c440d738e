"""Whether there is enough history for a forecast, and if not, from when on there will be.

"Not enough history: ready at T" is a state that a user is shown; it is never a forecast of 0 and never an exception.
"""

from typing import Final

import numpy as np

from forecasting.calendar import DAY_S
from forecasting.forecast import Absent
from forecasting.series import Batch

# A day of history, at least half of it measured: enough for a level and a first season (clouds ask for a day too).
LEAST_S: Final = DAY_S
LEAST_SHARE: Final = 0.5
# Without a value for so long the present level is not known, and a forecast would be of another time.
STALE_S: Final = 900

NO_DATA: Final = "no_data"
NOT_ENOUGH: Final = "not_enough_history"
STALE: Final = "stale"


def readiness(batch: Batch) -> list[Absent | None]:
    """Return, for each series, None if it is ready, or why not and, where it is a matter of time, from when on."""
    known = np.isfinite(batch.values)
    step_s, end_s = batch.grid.step_s, batch.grid.last_s
    any_known = known.sum(axis=1) > 0
    first = known.argmax(axis=1)
    since_newest = known[:, ::-1].argmax(axis=1) * step_s
    enough = -(-int(LEAST_SHARE * LEAST_S) // step_s)
    span_s = end_s - (batch.grid.start_s + (first - 1) * step_s)
    # What is still to come, if every step from now on is measured.
    waits_s = np.maximum(LEAST_S - span_s, (enough - known.sum(axis=1)) * step_s)
    found: list[Absent | None] = []
    for i in range(batch.count):
        if not any_known[i]:
            found.append(Absent(NO_DATA, end_s + LEAST_S))
        elif waits_s[i] > 0:
            found.append(Absent(NOT_ENOUGH, end_s + float(waits_s[i])))
        elif since_newest[i] > max(STALE_S, step_s):
            found.append(Absent(STALE))
        else:
            found.append(None)
    return found
