"""Which experts there are, and the models that are made of them: the product's own, and those it is measured by."""

from collections.abc import Mapping, Sequence
from typing import Final

from forecasting.contract import Expert
from forecasting.experts.boosting import Boosting
from forecasting.experts.harmonic import Harmonic
from forecasting.experts.naive import LastValue, SeasonalNaive
from forecasting.experts.profile import Profile
from forecasting.experts.ridge import Ridge

LAST_VALUE: Final = LastValue()
SEASONAL_NAIVE: Final = SeasonalNaive()
WEEK_NAIVE: Final = SeasonalNaive(days=7, name="week-naive")

# For every series, anew each hour.
TIER_1: Final[tuple[Expert, ...]] = (LAST_VALUE, SEASONAL_NAIVE, WEEK_NAIVE, Profile(), Harmonic(), Ridge())
# Slow, or one for all series: by rotation over a day. Their parameters are given to a fit.
BOOSTING: Final[tuple[Expert, ...]] = (Boosting(0.5), Boosting(0.9))
TIER_2: Final[tuple[Expert, ...]] = BOOSTING

HEADWAY: Final = "headway"

MODELS: Final[Mapping[str, Sequence[Expert]]] = {
    HEADWAY: (*TIER_1, *TIER_2),
    "headway-tier-1": TIER_1,
    **{expert.name: (expert,) for expert in (*TIER_1, *TIER_2)},
}
# Fitted once a day, the others once an hour.
SLOW: Final = frozenset(expert.name for expert in TIER_2)
