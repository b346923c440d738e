"""Recommendations and plans for tests of what shows them: everything known, unless a test says otherwise."""

from typing import Any

from hypothesis import strategies as st

from forecasting.forecast import Absent
from scaler.core.observation import ReplicaCounts
from scaler.core.plan import Change, Plan, Recommendation, Saturation, Step
from scaler.core.values import Frozen, Known, Missing, Reading, Reason, Stale, WorkloadId

AT_S = 1_700_000_000.0
CHAT = WorkloadId("demo", "chat")
TERMS = ("slots", "kv_cache", "queue_time", "queue_time_measured", "kv_cache_p90", "gpu_activity")


def saturation(value: float = 1.24) -> Saturation:
    """Return a saturation bound by its slots, every term known."""
    known = Known(value)
    terms: dict[str, Reading] = {name: Known(value / (i + 1)) for i, name in enumerate(TERMS)}
    return Saturation(known, known, known, "slots", terms)


def recommendation(workload: WorkloadId = CHAT, **fields: Any) -> Recommendation:
    """Return a workload that asks for 15, and gets 12 because of its rate limit."""
    defaults: dict[str, Any] = {
        "mode": "auto",
        "target": 12,
        "told": 12,
        "active": True,
        "lower": 2,
        "upper": 40,
        "uncapped": 15,
        "counts": ReplicaCounts(spec=10, ready=8, pending=2, blocked=1),
        "saturation": saturation(),
        "demand": Known(42.5),
        "capacity": Known(5.0),
        "lead_time_s": 330.0,
        "evidence_age_s": 12.0,
        "missing": (),
        "notes": (),
        "forecast": Absent("no_forecaster"),
        "reason": "rate: per 60 s",
        "changed": Change(AT_S - 30, 10, 12, "rate: per 60 s"),
        "trail": (Step("reactive", 10, 15, "demand"), Step("rate", 15, 12, "per 60 s")),
    }
    return Recommendation(workload=workload, **(defaults | fields))


def unknown(workload: WorkloadId = CHAT) -> Recommendation:
    """Return a workload about which nothing is known."""
    absent = Missing(Reason.VIEW_UNAVAILABLE)
    return recommendation(
        workload,
        target=absent,
        told=absent,
        active=False,
        uncapped=absent,
        counts=absent,
        saturation=Saturation(absent, absent, absent, "none", {}),
        demand=absent,
        capacity=Missing(Reason.NOT_CONFIGURED),
        missing=("replicas: view_unavailable",),
        reason="nothing_known",
        changed=None,
        trail=(),
    )


def plan(*recommendations: Recommendation, at_s: float = AT_S) -> Plan:
    """Return a plan of these recommendations."""
    return Plan(at_s, {item.workload: item for item in recommendations})


READINGS = st.one_of(
    st.builds(Known, st.floats(0, 1e9), st.floats(0, 1e3)),
    st.builds(Missing, st.sampled_from(Reason)),
    st.builds(Stale, st.floats(0, 1e5)),
    st.builds(Frozen, st.floats(0, 1e5)),
)
_COUNTS = st.integers(0, 10_000)
_MAYBE = _COUNTS | st.builds(Missing, st.sampled_from(Reason))
_REPLICAS = st.builds(ReplicaCounts, _COUNTS, _COUNTS, _COUNTS, _COUNTS, _COUNTS)
_WORDS = st.sampled_from(("running", "waiting", "kv_usage", "stalled", "frozen", "rollout", "x"))
_MISSING = st.builds("{}: {} ({} of 9)".format, _WORDS, st.sampled_from(Reason), st.integers(1, 9))
_NAMES = st.sampled_from(("a", "a-b", "a0", "ab", "b", "z"))
_SATURATIONS = st.builds(
    Saturation,
    READINGS,
    READINGS,
    READINGS,
    st.sampled_from((*TERMS, "none")),
    st.dictionaries(st.sampled_from(TERMS) | _WORDS, READINGS, max_size=4),
)
RECOMMENDATIONS = st.builds(
    recommendation,
    st.builds(WorkloadId, _NAMES, _NAMES),
    target=_MAYBE,
    told=_MAYBE,
    active=st.booleans(),
    lower=_COUNTS,
    upper=_COUNTS,
    uncapped=_MAYBE,
    counts=_REPLICAS | st.builds(Missing, st.sampled_from(Reason)),
    saturation=_SATURATIONS,
    demand=READINGS,
    capacity=READINGS,
    missing=st.lists(_MISSING, max_size=5).map(tuple),
    notes=st.lists(st.builds("{}: {}".format, _WORDS, st.integers(1, 9)) | _WORDS, max_size=5).map(tuple),
)
PLANS = st.lists(RECOMMENDATIONS, max_size=3).map(lambda items: plan(*items))
NAMED_PLANS = st.lists(st.builds(WorkloadId, _NAMES, _NAMES), max_size=12).map(
    lambda names: plan(*(recommendation(name) for name in names))
)
