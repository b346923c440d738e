"""statsforecast, fitted to the same series in a virtual environment of its own: it wants an older pandas than we do.

The environment lies in the user's cache folder, or where HEADWAY_RIVALS says, and is made when it is first needed.
"""

import io
import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Final

import numpy as np

from forecasting.series import Values
from tests.bench.children import ONE_THREAD, MeasurementError

VERSION: Final = "2.1.1"
SERIES: Final = 20
_REQUIREMENTS: Final = Path(__file__).with_name("statsforecast_requirements.txt")
_SCRIPT: Final = """
import io, json, sys, time, warnings
import numpy as np
warnings.simplefilter("ignore")
from statsforecast.models import AutoETS, MSTL, SeasonalNaive
values = np.load(io.BytesIO(sys.stdin.buffer.read()))
quick = dict(seasonal_jump=29, trend_jump=29, low_pass_jump=29)
models = {
    "SeasonalNaive": lambda: SeasonalNaive(season_length=288),
    "AutoETS without season": lambda: AutoETS(season_length=1, model="ZZN"),
    "MSTL of a day, with jumps": lambda: MSTL(season_length=288, stl_kwargs=quick),
}
found = {}
for name, make in models.items():
    make().forecast(values[0], 12)
    start = time.process_time()
    for row in values:
        make().forecast(row, 12)
    found[name] = 1e3 * (time.process_time() - start) / len(values)
print(json.dumps(found))
"""


def fit_ms(values: Values) -> dict[str, float]:
    """Return the CPU milliseconds a series of each model; MeasurementError where it cannot be installed or run."""
    python = _python()
    rows = io.BytesIO()
    np.save(rows, values, allow_pickle=False)
    environment = {**os.environ, **ONE_THREAD, "NIXTLA_ID_AS_COL": "1"}
    done = subprocess.run(
        [str(python), "-c", _SCRIPT],
        input=rows.getvalue(),
        capture_output=True,
        timeout=900,
        check=False,
        env=environment,
    )
    if done.returncode:
        raise MeasurementError(f"statsforecast ended with status {done.returncode}: {done.stderr.decode()[-300:]}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _python() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(os.environ.get("HEADWAY_RIVALS") or Path(cache, "headway", "rivals"), f"statsforecast-{VERSION}")
    python, whole = folder / "bin" / "python", folder / "whole"
    if not whole.exists():
        venv.create(folder, with_pip=True, clear=True)
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
        done = subprocess.run([*pip, "--requirement", str(_REQUIREMENTS)], capture_output=True, check=False)
        if done.returncode:
            raise MeasurementError(f"statsforecast {VERSION} cannot be installed: {done.stderr.decode()[-300:]}")
        whole.touch()
    return python


if __name__ == "__main__":
    sys.stdout.write(f"{_python()}\n")
