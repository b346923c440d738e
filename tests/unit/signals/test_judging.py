"""From rows that a server aggregated to readings."""

import math
from collections.abc import Mapping

import pytest

from scaler.adapters.signals.aggregates import Role, plan_of
from scaler.adapters.signals.candidates import Preset
from scaler.adapters.signals.columns import Pods, Table, speakers, spoken
from scaler.adapters.signals.dcgm import DCGM
from scaler.adapters.signals.judging import Judge
from scaler.adapters.signals.presets import ENGINES
from scaler.adapters.signals.triton import TRITON
from scaler.adapters.signals.vllm import VLLM
from scaler.config.models import DecisionSettings
from scaler.core.values import Known, Missing, Reading, Reason, Stale

T0 = 1_700_000_000.0
NAME = "vllm:num_requests_running"


class Pod:
    """One pod of which rows come, tick by tick."""

    def __init__(self, preset: Preset = VLLM, name: str = "chat-0") -> None:
        self._plan = plan_of(preset, frozenset())
        self._judge = Judge(DecisionSettings())
        self._pods = Pods((("demo", (name,)),))

    def tick(
        self,
        now_s: float,
        values: Mapping[str, float],
        *,
        parts: float | None = None,
        at_s: float | None = None,
        **beside: Mapping[str, float] | bool | Reason,
    ) -> dict[str, Reading]:
        """Return the readings of a tick with these values by metric name, sampled at `at_s` (now, unless given)."""
        table = Table(self._pods)
        for query in (*self._plan.queries(("demo",)), *self._plan.seldom(("demo",), 0.95, 1)):
            rows: list[tuple[dict[str, str], float]] = []
            labels = {"namespace": "demo", "pod": self._pods.names[0]}
            if query.role is Role.TIMES and not math.isnan(now_s if at_s is None else at_s):
                rows = [(labels, now_s if at_s is None else at_s)]
            elif query.role is Role.PARTS and parts is not None:
                rows = [(labels, parts)]
            elif query.role is Role.QUANTILES and "quantiles" not in beside:
                continue  # not asked in this tick
            else:
                named = beside.get({Role.LARGEST: "largest", Role.QUANTILES: "quantiles"}.get(query.role, ""), values)
                assert isinstance(named, Mapping)
                rows = [({**labels, query.label: name}, v) for name, v in named.items() if name in query.columns]
            table.take(query, rows, ("demo",))
        if beside.get("down"):
            table.take_down([({"namespace": "demo", "pod": self._pods.names[0]}, 0.0)])
        if isinstance(reason := beside.get("absent"), Reason):
            table.fail(("demo",), reason)
        judged = self._judge.judged(self._plan, table, now_s)
        return {field: column.readings()[0] for field, column in judged.columns.items()}


def counts(running: float, done: float) -> dict[str, float]:
    """Return what a vLLM pod has in flight and has finished."""
    return {NAME: running, "vllm:request_success_total": done, "vllm:generation_tokens_total": 200 * done}


def test_a_lost_rank_is_missed_and_its_return_is_no_burst_of_requests() -> None:
    """With a rank away, gauges are not the pod's; once it is back, all that it ever counted was not done just now."""
    pod = Pod()
    pod.tick(T0, counts(30.0, 1000.0), parts=2.0)
    assert pod.tick(T0 + 15, counts(30.0, 1060.0), parts=2.0)["completions_rps"] == Known(4.0)
    alone = pod.tick(T0 + 30, counts(10.0, 500.0))
    assert (alone["running"], alone["completions_rps"]) == (
        Missing(Reason.SOURCE_DOWN),
        Missing(Reason.COUNTER_RESET),
    )
    assert pod.tick(T0 + 45, counts(10.0, 515.0))["completions_rps"] == Known(1.0)
    back = pod.tick(T0 + 60, counts(30.0, 1240.0), parts=2.0)
    assert (back["running"], back["completions_rps"]) == (Known(30.0), Missing(Reason.COUNTER_RESET))
    assert pod.tick(T0 + 75, counts(30.0, 1300.0), parts=2.0)["completions_rps"] == Known(4.0)


@pytest.mark.parametrize("unread", ["nan", "absent", "stale"])
def test_a_rank_that_returns_while_its_counter_cannot_be_read_is_no_burst_either(unread: str) -> None:
    """The first sample that can be read after the number of parts changed starts anew, however late it comes."""
    pod = Pod()
    pod.tick(T0, counts(10.0, 500.0), parts=2.0)
    pod.tick(T0 + 15, counts(10.0, 515.0))
    pod.tick(T0 + 30, counts(10.0, 530.0))
    values = {"nan": counts(30.0, math.nan), "absent": {NAME: 30.0}, "stale": counts(30.0, 1240.0)}[unread]
    pod.tick(T0 + 145 if unread == "stale" else T0 + 45, values, parts=2.0, at_s=T0 + 45)
    late = pod.tick(T0 + 150, counts(30.0, 1660.0), parts=2.0)
    assert late["completions_rps"] == Missing(Reason.COUNTER_RESET)


def test_a_server_that_was_ahead_does_not_hide_that_a_rank_returned() -> None:
    """A time from the future is believed of nothing, also not of what happens until it comes."""
    pod = Pod()
    pod.tick(T0, counts(30.0, 1000.0), parts=2.0)
    pod.tick(T0 + 15, counts(10.0, 500.0))
    pod.tick(T0 + 30, counts(10.0, 515.0), at_s=T0 + 3600)
    pod.tick(T0 + 45, counts(10.0, 530.0))
    back = pod.tick(T0 + 60, counts(30.0, 1240.0), parts=2.0)
    assert back["completions_rps"] == Missing(Reason.COUNTER_RESET)


def test_an_incomplete_answer_is_not_believed_of_a_pod_with_several_parts() -> None:
    """A sum may lack the rank whose series the server could not reach; of one part, what is there is whole."""
    pod, single = Pod(), Pod()
    pod.tick(T0, counts(30.0, 1000.0), parts=2.0)
    single.tick(T0, counts(30.0, 1000.0))
    assert single.tick(T0 + 15, counts(30.0, 1060.0), absent=Reason.PARTIAL_ANSWER)["running"] == Known(30.0)
    for parts in (2.0, None):  # how many there are may be as incomplete
        half = pod.tick(T0 + 15, counts(0.0, 500.0), parts=parts, absent=Reason.PARTIAL_ANSWER)
        assert (half["running"], half["completions_rps"]) == (Missing(Reason.PARTIAL_ANSWER),) * 2
    whole = pod.tick(T0 + 30, counts(30.0, 1120.0), parts=2.0)
    assert whole["running"] == Known(30.0)
    assert whole["completions_rps"] in (Known(4.0), Missing(Reason.COUNTER_RESET))


def test_the_largest_part_counts_where_there_are_several() -> None:
    """A pod's KV usage is that of its fullest rank; a rank without a number makes it unknown."""
    name = "vllm:kv_cache_usage_perc"
    pod = Pod()
    assert pod.tick(T0, {NAME: 1.0, name: 0.5})["kv_usage"] == Known(0.5)
    assert pod.tick(T0, {NAME: 1.0, name: 1.2}, parts=2.0, largest={name: 0.7})["kv_usage"] == Known(0.7)
    assert pod.tick(T0, {NAME: 1.0, name: math.nan}, parts=2.0, largest={name: 0.7})["kv_usage"] == Missing(
        Reason.INVALID_VALUE
    )


@pytest.mark.parametrize(
    ("value", "age_s", "expected"),
    [
        (3.0, 0.0, Known(3.0)),
        (3.0, 90.0, Known(3.0, 90.0)),
        (3.0, 91.0, Stale(91.0)),
        (3.0, -30.0, Known(3.0)),
        (3.0, -91.0, Missing(Reason.INVALID_VALUE)),
        (3.0, math.nan, Missing(Reason.NO_SERIES)),  # nothing tells when it was sampled
        (-1.0, 0.0, Missing(Reason.NEGATIVE)),
        (-1.7976931348623157e308, 0.0, Missing(Reason.NO_SERIES)),
        (math.nan, 0.0, Missing(Reason.INVALID_VALUE)),
        (math.inf, 0.0, Missing(Reason.INVALID_VALUE)),
        (-math.inf, 0.0, Missing(Reason.INVALID_VALUE)),
        (1e19, 0.0, Missing(Reason.INVALID_VALUE)),
    ],
)
def test_what_cannot_be_believed_has_a_reason(value: float, age_s: float, expected: Reading) -> None:
    """No number that is none, and none that is too old or from the future, becomes a reading."""
    assert Pod().tick(T0, {NAME: value}, at_s=T0 - age_s)["running"] == expected


def test_nothing_is_absent_without_a_reason() -> None:
    """A pod without rows says why: its target is down, its shard failed, or it just has no series."""
    assert Pod().tick(T0, {}, at_s=math.nan)["running"] == Missing(Reason.NO_SERIES)
    assert Pod().tick(T0, {}, at_s=math.nan, down=True)["running"] == Missing(Reason.SOURCE_DOWN)
    late = Pod().tick(T0, {}, at_s=math.nan, down=True, absent=Reason.SOURCE_TIMEOUT)
    assert set(late.values()) == {Missing(Reason.SOURCE_TIMEOUT)}
    there = Pod().tick(T0, {NAME: 1.0})
    assert there["rejections_rps"] == Missing(Reason.NOT_EXPORTED)  # optional
    assert there["completions_rps"] == Missing(Reason.NO_SERIES)
    assert there["queue_time_s"] == Missing(Reason.TOO_FEW_SAMPLES)  # not asked yet


def test_a_quantile_is_kept_until_it_is_stale() -> None:
    """What is asked once a minute is as old as its samples, and is not said of a pod that is not seen."""
    name = "vllm:request_queue_time_seconds_bucket"
    pod = Pod()
    assert pod.tick(T0, {NAME: 1.0}, quantiles={name: 0.7})["queue_time_s"] == Known(0.7)
    assert pod.tick(T0 + 60, {NAME: 1.0})["queue_time_s"] == Known(0.7, 60.0)
    assert pod.tick(T0 + 75, {}, at_s=math.nan)["queue_time_s"] == Missing(Reason.NO_SERIES)
    assert pod.tick(T0 + 91, {NAME: 1.0})["queue_time_s"] == Stale(91.0)
    assert pod.tick(T0 + 92, {NAME: 1.0}, quantiles={name: math.nan})["queue_time_s"] == Missing(Reason.NO_COMPLETIONS)
    assert pod.tick(T0 + 93, {NAME: 1.0}, quantiles={})["queue_time_s"] == Missing(Reason.NO_SERIES)


def test_a_ratio_is_that_of_the_window() -> None:
    """Triton's mean queue time: microseconds queued for each success, nothing where nothing succeeded."""
    pod = Pod(TRITON)
    names = ("nv_inference_compute_infer_duration_us", "nv_inference_queue_duration_us", "nv_inference_request_success")

    def tick(now_s: float, *values: float) -> dict[str, Reading]:
        return pod.tick(now_s, dict(zip(names, values, strict=True)))

    assert tick(T0, 0.0, 0.0, 0.0)["queue_time_s"] == Missing(Reason.TOO_FEW_SAMPLES)
    seen = tick(T0 + 10, 25e6, 6e6, 30.0)
    assert (seen["running"], seen["queue_time_s"]) == (Known(2.5), Known(0.2))
    idle = Pod(TRITON)
    for now_s in (T0, T0 + 10):
        seen = idle.tick(now_s, dict(zip(names, (25e6, 6e6, 30.0), strict=True)))
    assert (seen["running"], seen["queue_time_s"]) == (Known(0.0), Missing(Reason.NO_COMPLETIONS))


def test_only_who_may_speak_for_a_pod_is_heard() -> None:
    """A tenant's target is believed about its own namespace only; the newest of the platform's exporters counts."""
    pods = Pods((("demo", ("chat-0", "chat-1")), ("rival", ("chat-0",))))

    def about(pod: str, target: str) -> dict[str, str]:
        return {"exported_namespace": "demo", "exported_pod": pod, "namespace": target}

    times = [
        (about("chat-0", "rival"), T0 + 9),
        (about("chat-0", "gpu-operator"), T0),
        (about("chat-0", "monitoring"), T0 + 5),
        (about("chat-1", "rival"), T0),
        ({"namespace": "rival", "pod": "chat-0"}, T0),
        (about("gone", "gpu-operator"), T0),
    ]
    believed = speakers(pods, times, DCGM.owners, {"demo", "rival"})
    assert believed == {0: "monitoring", 2: "rival"}
    heard = [
        (labels["namespace"], labels["pod"], value) for labels, value in spoken(pods, DCGM.owners, believed, times)
    ]
    assert heard == [("demo", "chat-0", T0 + 5), ("rival", "chat-0", T0)]


@pytest.mark.parametrize("preset", ENGINES.values(), ids=lambda preset: preset.name)
def test_without_rows_every_signal_of_every_preset_is_missing(preset: Preset) -> None:
    """No preset turns silence into a number."""
    seen = Pod(preset).tick(T0, {}, at_s=math.nan)
    assert all(isinstance(reading, Missing) for reading in seen.values())
