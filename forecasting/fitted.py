"""What a fit leaves behind: plain arrays by name, which can be written, hashed and sent without any code in them."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forecasting.calibration import Shifts
from forecasting.contract import Parameters
from forecasting.forecast import QUANTILES, Target
from forecasting.series import Values

TARGETS = (Target.POINT, Target.WINDOW_MAX)


@dataclass(frozen=True, slots=True, eq=False)
class Calibrated:
    """How experts become quantiles of one target.

    `shifts` are (series, experts, horizons, quantiles); `weights` (series, 2 experts, horizons, quantiles); `last`
    (series, horizons, quantiles) is the last correction, of the combination, in logarithms; `skill` (series, horizons)
    is the share of the last value's loss at 0.9 that the combination saved in the replay: 0 for none, below 0 for a
    loss; `gain` (series, horizons) is how much of a surprise at the first horizon was left at each.
    """

    shifts: Shifts
    weights: Values
    last: Values
    skill: Values
    gain: Values


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """The parameters of all experts and of their combination, for a batch of series."""

    at_s: int  # the last point that the fit saw
    step_s: int
    horizons: tuple[int, ...]  # in steps
    offset: Values  # (series,), of the logarithm
    bound: Values  # (series,): no forecast is above it
    experts: Mapping[str, Parameters]
    targets: Mapping[Target, Calibrated]

    @property
    def quantiles(self) -> tuple[float, ...]:
        """The quantiles that it was calibrated for."""
        return QUANTILES

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything as arrays by name; `Fitted.of` is the way back."""
        found: dict[str, NDArray[Any]] = {
            "at_s": np.array(self.at_s),
            "step_s": np.array(self.step_s),
            "horizons": np.array(self.horizons),
            "offset": self.offset,
            "bound": self.bound,
        }
        for expert, parameters in self.experts.items():
            found[f"expert:{expert}:"] = np.array(0)
            found.update({f"expert:{expert}:{name}": array for name, array in parameters.items()})
        for target, part in self.targets.items():
            named = {"ratio": part.shifts.ratio, "amount": part.shifts.amount, "weights": part.weights}
            found.update({f"target:{target}:{name}": array for name, array in named.items()})
            found.update({f"target:{target}:last": part.last, f"target:{target}:skill": part.skill})
            found[f"target:{target}:gain"] = part.gain
        return found

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> "Fitted":
        """Return what `arrays` came from; KeyError names what is missing."""
        experts: dict[str, dict[str, NDArray[Any]]] = {}
        for name in arrays:
            if name.startswith("expert:"):
                _, expert, parameter = name.split(":", 2)
                parameters = experts.setdefault(expert, {})
                if parameter:
                    parameters[parameter] = arrays[name]
        targets = {target: _calibrated(arrays, target) for target in TARGETS}
        return cls(
            int(arrays["at_s"]), int(arrays["step_s"]), tuple(int(h) for h in arrays["horizons"]),
            arrays["offset"], arrays["bound"], experts, targets,
        )  # fmt: skip

    def digest(self) -> str:
        """Return a hash of everything: the same for the same fit, wherever it was made."""
        whole = hashlib.sha256()
        for name, array in sorted(self.arrays().items()):
            whole.update(f"{name} {array.dtype} {array.shape}\n".encode())
            whole.update(np.ascontiguousarray(array).tobytes())
        return whole.hexdigest()


def _calibrated(arrays: Mapping[str, NDArray[Any]], target: Target) -> Calibrated:
    part = {name: arrays[f"target:{target}:{name}"] for name in ("ratio", "amount", "weights", "last", "skill", "gain")}
    return Calibrated(Shifts(part["ratio"], part["amount"]), part["weights"], part["last"], part["skill"], part["gain"])
