"""The usual day, at today's level: a robust profile of local times, shifted to where the series is now."""

from dataclasses import dataclass

import numpy as np

from forecasting.contract import Parameters, Window, origin_points
from forecasting.experts.features import past_days, profile, rolling_mean
from forecasting.experts.naive import Untrained
from forecasting.series import Values


@dataclass(frozen=True, slots=True)
class Profile(Untrained):
    """Robust profile of the local time over the last days, times the ratio of the last hour to it."""

    level_s: int = 1800  # the ratio is the mean of so much of the past
    name: str = "profile"
    needs_days: float = 2.0

    def predict(
        self, parameters: Parameters, window: Window, horizons: tuple[int, ...], origins: int, stride: int = 1
    ) -> Values:
        """Return the profile at each target plus what the present is above the profile."""
        del parameters
        at = origin_points(window, origins, stride)
        width = max(1, self.level_s // window.grid.step_s)
        near = np.arange(max(0, int(at[0]) - width + 1), window.points)
        above = window.level[:, near] - profile(past_days(window, 0, near))
        ratio = rolling_mean(above, width, at - near[0])
        return np.stack([profile(past_days(window, horizon, at)) + ratio for horizon in horizons], axis=1)
