"""Which experts there are, and the models that are made of them: the product's own, and those it is measured by."""

from collections.abc import Mapping, Sequence
from typing import Final

from forecasting.contract import Expert
from forecasting.experts.arima import Arima
from forecasting.experts.boosting import Boosting
from forecasting.experts.harmonic import Harmonic
from forecasting.experts.holt_winters import HoltWinters
from forecasting.experts.intermittent import Intermittent
from forecasting.experts.naive import LastValue, LastWeek, SeasonalNaive
from forecasting.experts.profile import Profile
from forecasting.experts.ridge import Ridge
from forecasting.experts.smoothing import Ets, TunedHoltWinters

# As experts of ours, the seasons of yesterday and a week ago are without their spikes.
TIER_1: Final[tuple[Expert, ...]] = (  # for every series, anew each hour
    LastValue(),
    SeasonalNaive(name="yesterday", spikes=False),
    SeasonalNaive(days=7, name="week-ago", spikes=False),
    Profile(),
    Harmonic(),
    Ridge(),
    HoltWinters(),
    Intermittent(),
)
# Slow, or one for all series: by rotation over a day. Their parameters are given to a fit.
BOOSTING: Final[tuple[Expert, ...]] = (Boosting(0.5), Boosting(0.9))
TIER_2: Final[tuple[Expert, ...]] = (TunedHoltWinters(), Ets(), *BOOSTING)
# What others ship, and what is not among the experts already.
BASELINES: Final[tuple[Expert, ...]] = (SeasonalNaive(), LastWeek(), Arima())

HEADWAY: Final = "headway"

MODELS: Final[Mapping[str, Sequence[Expert]]] = {
    HEADWAY: (*TIER_1, *TIER_2),
    "headway-tier-1": TIER_1,
    **{expert.name: (expert,) for expert in (*TIER_1, *TIER_2, *BASELINES)},
}
# Fitted once a day, the others once an hour.
SLOW: Final = frozenset(expert.name for expert in (*TIER_2, *BASELINES))
