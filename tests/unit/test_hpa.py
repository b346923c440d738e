"""The HPA's and KEDA's arithmetic, against the numbers of their sources."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.hpa import (
    DEFAULT_UP,
    HEADWAY_BEHAVIOUR,
    Behaviour,
    HpaSpec,
    HpaState,
    KedaSpec,
    KedaState,
    MetricError,
    PolicyType,
    ScalingPolicy,
    ScalingRules,
    SelectPolicy,
    average_value_replicas,
    hpa_step,
    keda_step,
    policy_limit,
)

OLD = HpaSpec(min_replicas=1, max_replicas=1000)  # no behaviour: tolerance 0.1, max(2n, 4), 300 s
EXACT = HpaSpec(min_replicas=1, max_replicas=1000, behaviour=HEADWAY_BEHAVIOUR)
DOWN = MetricError("UNAVAILABLE")


def pods(value: int, period_s: float = 60, **more: object) -> ScalingRules:
    return ScalingRules((ScalingPolicy(PolicyType.PODS, value, period_s),), **more)  # type: ignore[arg-type]  # test data


def percent(value: int, period_s: float = 60, **more: object) -> ScalingRules:
    return ScalingRules((ScalingPolicy(PolicyType.PERCENT, value, period_s),), **more)  # type: ignore[arg-type]  # test data


def run(spec: HpaSpec, start: int, metrics: list[float | MetricError], *, period_s: float = 15.0) -> list[int]:
    """Run syncs at a fixed period, with pods that follow at once, and return the replicas after each."""
    state, replicas, seen = HpaState(), start, []
    for turn, metric in enumerate(metrics):
        state, replicas = hpa_step(state, spec, 1000.0 + turn * period_s, metric, replicas, replicas)
        seen.append(replicas)
    return seen


@pytest.mark.parametrize(
    ("current", "up", "down"),
    [
        (1, 2, 0), (5, 6, 4), (9, 10, 8), (10, 12, 8), (11, 13, 9), (19, 21, 17), (20, 23, 17), (30, 34, 26),
        (50, 56, 44), (100, 111, 89),
    ],
)  # fmt: skip
def test_tolerance_swallows_small_changes(current: int, up: int, down: int) -> None:
    """From `current`, `up` is the smallest value that acts upwards and `down` the largest downwards, at 0.1."""
    acting = [value for value in range(2 * current + 2) if average_value_replicas(value, OLD, current) != current]
    assert min(value for value in acting if value > current) == up
    assert max((value for value in acting if value < current), default=0) == down
    assert all(average_value_replicas(value, OLD, current) == value for value in acting)


@given(st.integers(1, 2000), st.integers(0, 2000))
def test_tolerance_zero_is_exact(current: int, wanted: int) -> None:
    """With target 1 and tolerance 0 the value is the number of replicas, whatever there is."""
    assert average_value_replicas(wanted, EXACT, current) == wanted


@given(st.integers(1, 200), st.integers(0, 200), st.sampled_from([0.25, 0.7, 2.0, 17.5]))
def test_any_target_is_exact_in_its_multiples(current: int, wanted: int, target: float) -> None:
    """A value of R targets asks for R."""
    spec = HpaSpec(target=target, behaviour=HEADWAY_BEHAVIOUR)
    assert average_value_replicas(wanted * target, spec, current) == wanted


def test_inside_the_band_status_counts() -> None:
    """A ratio inside the band yields status.replicas, which a rollout makes larger than spec.replicas."""
    assert average_value_replicas(20, OLD, status_replicas=21) == 21
    assert average_value_replicas(20, EXACT, status_replicas=21) == 20


def test_tolerances_may_differ_by_direction() -> None:
    """Each direction has its own tolerance."""
    spec = HpaSpec(behaviour=Behaviour(up=pods(100, tolerance=0.0), down=percent(100, tolerance=0.5)))
    assert average_value_replicas(11, spec, 10) == 11
    assert average_value_replicas(5, spec, 10) == 10
    assert average_value_replicas(4, spec, 10) == 4


def test_values_have_three_decimals() -> None:
    """What is below a thousandth is cut off, and a part of a replica is a whole one."""
    assert average_value_replicas(3.0004, EXACT, 1) == 3
    assert average_value_replicas(3.001, EXACT, 1) == 4


def test_no_pods_at_all() -> None:
    """Without pods there is no ratio and no band: the value counts."""
    assert average_value_replicas(3, OLD, status_replicas=0) == 3
    assert average_value_replicas(0, OLD, status_replicas=0) == 0


def test_without_behaviour_up_is_limited_and_down_waits() -> None:
    """Without behaviour: 1 -> 4 -> 8 -> 16 -> 20, and down only after 300 s."""
    assert run(OLD, 1, [20] * 5) == [4, 8, 16, 20, 20]
    down = run(OLD, 20, [20, *[2] * 22])
    assert down[:21] == [20] * 21  # the last time that 20 was asked for is 300 s ago and still counts
    assert down[21:] == [2, 2]


def test_default_policies_take_four_syncs_to_twenty() -> None:
    """Behaviour without policies: 1 -> 5 -> 10 -> 20, by +4 or +100 % in 15 s."""
    assert run(HpaSpec(max_replicas=1000, behaviour=Behaviour()), 1, [20] * 4, period_s=16.0) == [5, 10, 20, 20]


def test_headway_moves_in_one_jump() -> None:
    """With Headway's behaviour every value is taken at once, up and down."""
    assert run(EXACT, 1, [20, 21, 3, 300, 299]) == [20, 21, 3, 300, 299]


def test_bounds_hold_before_the_metric() -> None:
    """Outside min and max the HPA moves to them at once, even when the metric cannot be had."""
    spec = HpaSpec(min_replicas=3, max_replicas=10)
    assert hpa_step(HpaState(), spec, 0.0, DOWN, 50, 50)[1] == 10
    assert hpa_step(HpaState(), spec, 0.0, DOWN, 1, 1)[1] == 3
    assert hpa_step(HpaState(), spec, 0.0, 100, 10, 10)[1] == 10
    assert hpa_step(HpaState(), HpaSpec(3, 10, behaviour=HEADWAY_BEHAVIOUR), 0.0, 0, 10, 10)[1] == 3


def test_an_error_holds() -> None:
    """Without a metric nothing changes, however long, and the next value acts."""
    assert run(EXACT, 7, [DOWN, DOWN, 9, DOWN, 2]) == [7, 7, 9, 9, 2]


def test_zero_disables_the_hpa() -> None:
    """At zero replicas the HPA does nothing, whatever the metric says."""
    assert hpa_step(HpaState(), EXACT, 0.0, 50, 0, 0) == (HpaState(), 0)


def test_down_stabilisation_is_the_highest_of_the_window() -> None:
    """A scale-down waits until the highest recommendation of the window has left it."""
    spec = HpaSpec(max_replicas=100, behaviour=Behaviour(up=pods(100), down=percent(100, stabilisation_s=60)))
    assert run(spec, 10, [10, 4, 6, 2, 2, 2, 2, 2]) == [10, 10, 10, 10, 6, 6, 2, 2]


def test_up_stabilisation_is_the_lowest_of_the_window() -> None:
    """A scale-up takes the lowest recommendation of the window, which starts with the replicas there were."""
    spec = HpaSpec(max_replicas=100, behaviour=Behaviour(up=pods(100, stabilisation_s=60), down=percent(100)))
    assert run(spec, 4, [9, 12, 8, 12, 12, 12, 12, 12]) == [4, 4, 4, 4, 8, 8, 12, 12]


@pytest.mark.parametrize(
    ("rules", "up", "changes", "limit"),
    [
        (pods(4), True, (), 14),
        (percent(50), True, (), 15),
        (percent(1), True, (), 11),  # rounded up, or a small fleet would never grow
        (percent(20), False, (), 8),
        (percent(1), False, (), 9),  # rounded down
        (pods(4), False, (), 6),
        # 3 were added within the period: it began at 7.
        (pods(4), True, ((-10.0, 3),), 11),
        (pods(4), True, ((-60.0, 3),), 14),  # just outside
        # 5 went within the period: it began at 15.
        (pods(4), False, ((-10.0, -5),), 11),
        (pods(4), True, ((-20.0, 3), (-10.0, -2)), 13),
        (DEFAULT_UP, True, (), 20),
        (ScalingRules(DEFAULT_UP.policies, select=SelectPolicy.MIN), True, (), 14),
        (ScalingRules((*pods(1).policies, *percent(50).policies)), False, (), 5),
        (ScalingRules((*pods(1).policies, *percent(50).policies), select=SelectPolicy.MIN), False, (), 9),
        (pods(4, select=SelectPolicy.DISABLED), True, (), 10),
        (pods(4, select=SelectPolicy.DISABLED), False, (), 10),
    ],
)
def test_policies(rules: ScalingRules, up: bool, changes: tuple[tuple[float, int], ...], limit: int) -> None:
    """From 10 replicas a policy allows so many, measured from the start of its period."""
    assert policy_limit(rules, HpaState(changes=changes), 0.0, 10, up=up) == limit


def test_a_policy_never_turns_the_direction() -> None:
    """When more was added than a period allows, the HPA waits and does not take back."""
    spec = HpaSpec(max_replicas=100, behaviour=Behaviour(up=pods(2), down=percent(100)))
    state = HpaState(recommendations=((-30.0, 4),), changes=((-30.0, 6),))
    assert hpa_step(state, spec, 0.0, 50, 10, 10)[1] == 10


def test_policies_over_time() -> None:
    """Two pods a minute: up at once, then again when the minute is over."""
    spec = HpaSpec(max_replicas=100, behaviour=Behaviour(up=pods(2), down=percent(100)))
    assert run(spec, 4, [10] * 9) == [6, 6, 6, 6, 8, 8, 8, 8, 10]


def test_history_stays_small() -> None:
    """What an HPA remembers is bounded by its windows."""
    state, replicas = HpaState(), 1
    for turn in range(1000):
        state, replicas = hpa_step(state, OLD, turn * 15.0, 1 + turn % 7, replicas, replicas)
    assert len(state.recommendations) <= 300 / 15 + 2
    assert len(state.changes) <= 1800 / 15 + 1


@pytest.mark.parametrize(
    ("spec", "replicas", "active", "idle_for_s", "after"),
    [
        (KedaSpec(min_replicas=0), 0, True, None, 1),
        (KedaSpec(min_replicas=3), 0, True, None, 3),
        (KedaSpec(min_replicas=0), 5, True, None, 5),  # the HPA's business
        (KedaSpec(min_replicas=0), 0, False, None, 0),
        (KedaSpec(min_replicas=0), 5, False, 300.0, 5),  # cooldown not over
        (KedaSpec(min_replicas=0), 5, False, 300.1, 0),
        (KedaSpec(min_replicas=0), 5, False, None, 0),  # never seen active: no cooldown
        (KedaSpec(min_replicas=0), 5, DOWN, 1000.0, 5),
        (KedaSpec(min_replicas=0), 0, DOWN, 1000.0, 0),
        (KedaSpec(min_replicas=2), 5, False, 1000.0, 5),  # with a minimum the metric rules
        (KedaSpec(min_replicas=2), 1, False, 1000.0, 2),
        (KedaSpec(min_replicas=2, idle_replicas=0), 5, False, 1000.0, 0),
        (KedaSpec(min_replicas=2, idle_replicas=0), 0, False, 1000.0, 0),
        (KedaSpec(min_replicas=3, idle_replicas=1), 1, True, 1000.0, 3),
    ],
)
def test_activation(
    spec: KedaSpec, replicas: int, active: bool | MetricError, idle_for_s: float | None, after: int
) -> None:
    """KEDA's own loop moves between zero (or idle) and one, and only there."""
    state = KedaState(None if idle_for_s is None else 1000.0 - idle_for_s)
    assert keda_step(state, spec, 1000.0, replicas, active=active)[1] == after


def test_activity_starts_the_cooldown_anew() -> None:
    """Each active poll is remembered; an inactive or failed one is not."""
    state, _ = keda_step(KedaState(10.0), KedaSpec(), 50.0, 1, active=True)
    assert state == KedaState(50.0)
    assert keda_step(state, KedaSpec(), 60.0, 1, active=False)[0] == state
    assert keda_step(state, KedaSpec(), 60.0, 1, active=DOWN)[0] == state


def test_from_zero_to_many_takes_both() -> None:
    """0 -> 1 is KEDA's, 1 -> R the HPA's."""
    _, replicas = keda_step(KedaState(), KedaSpec(), 0.0, 0, active=True)
    assert replicas == 1
    assert hpa_step(HpaState(), EXACT, 15.0, 12, replicas, replicas)[1] == 12


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: HpaSpec(min_replicas=5, max_replicas=3), r"min_replicas must be 0 .. max_replicas \(3\), was 5"),
        (lambda: HpaSpec(target=0), "target must be >= 0.001"),
        (lambda: ScalingPolicy(PolicyType.PODS, 0, 15), "value must be > 0, was 0"),
        (lambda: ScalingPolicy(PolicyType.PODS, 1, 1801), "period_s must be > 0 and <= 1800, was 1801"),
        (lambda: ScalingRules(()), "at least one policy"),
        (lambda: pods(1, stabilisation_s=3601), "stabilisation_s must be 0 .. 3600, was 3601"),
        (lambda: pods(1, tolerance=-0.1), "tolerance must be >= 0, was -0.1"),
        (lambda: KedaSpec(min_replicas=1, idle_replicas=1), "idle_replicas must be 0 .. min_replicas - 1, was 1"),
    ],
)
def test_arguments_have_ranges(make: object, told: str) -> None:
    """What the API would refuse is refused here, by name, value and range."""
    assert callable(make)
    with pytest.raises(ValueError, match=told):
        make()
