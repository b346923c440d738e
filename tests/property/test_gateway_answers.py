"""Whatever a server answers about gateways, a reading is a number that can be, or says why there is none."""

import asyncio
import math
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from scaler.adapters.signals.gateways import GATEWAYS, GatewayCollector
from scaler.adapters.signals.gateways.queries import grouped_by
from scaler.config.models import DecisionSettings, SourceRef, WorkloadSettings
from scaler.core.observation import GatewayReading
from scaler.core.values import Known, WorkloadId
from tests.query_fakes import FakeQueries, Rows

TEXTS = st.sampled_from(["demo", "chat", "rival", "gateways", "", "unknown", "chat.demo.svc.cluster.local", "source"])
PRESETS = st.sampled_from(sorted(GATEWAYS))
TENANTS = frozenset({"demo", "rival"})


@st.composite
def answers(draw: st.DrawFn) -> tuple[str, dict[str, Rows]]:
    """Return a preset and the rows of its queries, by what tells them apart."""
    preset = draw(PRESETS)
    labels = st.fixed_dictionaries({}, optional=dict.fromkeys(grouped_by(GATEWAYS[preset]), TEXTS))
    rows = st.lists(st.tuples(labels, st.floats(allow_subnormal=False)), max_size=6)
    return preset, {key: list(draw(rows)) for key in ("time() - ", "up == 0", "offset", "")}


def read(preset: str, rows: Mapping[str, Rows]) -> GatewayReading:
    source = FakeQueries()
    for key in ("", "offset", "up == 0", "time() - "):  # what was told last goes first
        source.containing(key, rows[key])
    ref = SourceRef(preset=preset, identity=("demo", "chat"))
    workload = WorkloadSettings(namespace="demo", name="chat", demand_source=ref)
    collector = GatewayCollector(source, DecisionSettings())
    readings = asyncio.run(collector.readings([workload], TENANTS, 0.0))
    assert collector.failures == ()
    return readings[WorkloadId("demo", "chat")]


@given(answers())
def test_a_known_reading_can_be(seen: tuple[str, dict[str, Rows]]) -> None:
    """Finite, not negative, and of an age that is known."""
    reading = read(*seen)
    for one in (reading.arrivals_rps, reading.waiting):
        if isinstance(one, Known):
            assert 0 <= one.value < math.inf
            assert 0 <= one.age_s <= DecisionSettings().stale_after_s


@given(answers(), answers())
def test_another_tenant_s_targets_change_nothing(
    seen: tuple[str, dict[str, Rows]], others: tuple[str, dict[str, Rows]]
) -> None:
    """Nothing that is told from another tenant's namespace moves a reading, in either direction."""
    preset, rows = seen
    lies = {
        key: [(dict(labels) | {"namespace": "rival"}, value) for labels, value in more]
        for key, more in others[1].items()
    }
    mixed = {key: [*lies[key], *mine, *lies[key]] for key, mine in rows.items()}
    honest = {key: [row for row in mine if row[0].get("namespace") != "rival"] for key, mine in rows.items()}
    assert read(preset, mixed) == read(preset, honest)


@given(answers())
def test_the_order_of_rows_does_not_matter(seen: tuple[str, dict[str, Rows]]) -> None:
    """A server lists them as it likes."""
    preset, rows = seen
    assert read(preset, {key: list(reversed(mine)) for key, mine in rows.items()}) == read(preset, rows)
