"""The four plots of a run: what is drawn, in which roles, and what it shows in a sentence.

No text from outside is drawn. This module loads matplotlib, which is slow: import it where a report is written, not
where a command starts.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from scaler.config.durations import format_duration
from scaler.report.canvas import FloatArray, band, curve, drawn, from_zero, highest, is_far_beyond, limit_line, marks
from scaler.report.run_record import RunRecord, RunSample, ScaleEvent
from scaler.report.text import quantity

_MOST_SAMPLES = 2_000  # more than the pixels of a wide plot
# What a reader must not miss where many samples share a pixel: peaks of the load, and troughs of the fleet.
_EXTREMES: tuple[Callable[[RunSample], float], ...] = (
    lambda sample: sample.arrivals_rps,
    lambda sample: sample.queue_time_p95_s or 0.0,
    lambda sample: sample.saturation or 0.0,
    lambda sample: -sample.ready,
)


@dataclass(frozen=True, slots=True)
class Key:
    """An entry of a plot's legend, which stands beside the drawing."""

    label: str
    role: str  # of the palette
    mark: Literal["line", "dashes", "area", "up", "down"]


@dataclass(frozen=True, slots=True)
class Plot:
    """One plot: its heading, what it shows in a sentence, its legend, and how to draw it."""

    name: str
    title: str
    summary: str
    keys: tuple[Key, ...]
    draw: Callable[[Axes], None]
    time_unit: str


def plots_of(record: RunRecord) -> tuple[Plot, ...]:
    """Return the plots of a run; none where it has no samples."""
    if not record.samples:
        return ()
    whole, shown = _Series(record, record.samples), _Series(record, thinned(record.samples))
    return tuple(plot(whole, shown) for plot in (_traffic, _replicas, _queue_time, _saturation))


def thinned(samples: Sequence[RunSample], most: int = _MOST_SAMPLES) -> Sequence[RunSample]:
    """Return at most about `most` of the samples: of each stretch its first one and its extremes."""
    if len(samples) <= most:
        return samples
    size = math.ceil(len(samples) * (1 + len(_EXTREMES)) / most)
    stretches = (range(first, min(first + size, len(samples))) for first in range(0, len(samples), size))
    kept = {len(samples) - 1}
    for stretch in stretches:
        kept.add(stretch[0])
        for measure in _EXTREMES:
            values = [measure(samples[index]) for index in stretch]
            kept.add(stretch[values.index(max(values))])
    return [samples[index] for index in sorted(kept)]


def figure_of(plot: Plot, size_px: tuple[int, int]) -> Figure:
    """Draw a plot in a size in CSS pixels."""
    return drawn(plot.draw, size_px, x_label=f"{plot.time_unit} into the run")


class _Series:
    """Samples of a record as arrays; what is not known is NaN, which draws as a gap."""

    def __init__(self, record: RunRecord, samples: Sequence[RunSample]) -> None:
        self.record = record
        self.samples = samples
        self.unit, self.unit_s = _time_unit(samples[-1].at_s)
        self.at = self.of(lambda sample: sample.at_s) / self.unit_s
        self.arrivals = self.of(lambda sample: sample.arrivals_rps)
        self.ready = self.of(lambda sample: sample.ready)
        self.pending = self.of(lambda sample: sample.pending)
        self.told = self.of(lambda sample: sample.told)
        self.queue_time = self.of(lambda sample: sample.queue_time_p95_s)
        self.kv_usage = self.of(lambda sample: sample.kv_usage)
        self.saturation = self.of(lambda sample: sample.saturation)
        self.supply = self.ready * np.nan if record.capacity_rps is None else self.ready * record.capacity_rps

    def targets(self, events: Sequence[ScaleEvent]) -> tuple[FloatArray, FloatArray]:
        """Return when events were, on the axis, and the replicas that each asked for."""
        return _array([event.at_s / self.unit_s for event in events]), _array([event.after for event in events])

    def of(self, value: Callable[[RunSample], float | None]) -> FloatArray:
        return _array([value(sample) for sample in self.samples])


def _traffic(whole: _Series, shown: _Series) -> Plot:
    capacity = whole.record.capacity_rps

    def draw(axes: Axes) -> None:
        if capacity is not None:
            band(axes, shown.at, 0, shown.supply, "supply", alpha=0.16)
            curve(axes, shown.at, shown.supply, "supply", name="supply", steps=True)
            band(axes, shown.at, shown.supply, shown.arrivals, "breach", where=shown.arrivals > shown.supply)
        curve(axes, shown.at, shown.arrivals, "demand", name="arrivals")
        from_zero(axes)

    keys: tuple[Key, ...] = (Key("arrivals", "demand", "line"),)
    summary = f"Arrivals between {_range(whole.arrivals)} requests per second."
    if capacity is not None:
        keys += (Key("supply", "supply", "area"), Key("arrivals beyond supply", "breach", "area"))
        summary += (
            f" Supply is {quantity(capacity)} per second and ready replica; "
            f"it was below the arrivals in {_share(whole.arrivals > whole.supply)}."
        )
    return Plot("traffic", "Arrivals and supply, requests per second", summary, keys, draw, whole.unit)


def _replicas(whole: _Series, shown: _Series) -> Plot:
    total = shown.ready + shown.pending
    ups = [event for event in whole.record.events if event.after > event.before]
    downs = [event for event in whole.record.events if event.after < event.before]

    def draw(axes: Axes) -> None:
        band(axes, shown.at, 0, shown.ready, "supply")
        band(axes, shown.at, shown.ready, total, "pending", alpha=0.4)
        curve(axes, shown.at, shown.ready, "supply", name="ready", steps=True)
        curve(axes, shown.at, total, "pending", name="pending", steps=True, width=1)
        curve(axes, shown.at, shown.told, "ink", name="told", steps=True, dashes=True)
        marks(axes, *shown.targets(ups), "demand", name="scale-ups", up=True)
        marks(axes, *shown.targets(downs), "quiet", name="scale-downs", up=False)
        from_zero(axes, whole=True)

    keys = (
        Key("ready", "supply", "area"),
        Key("pending", "pending", "area"),
        Key("told to KEDA", "ink", "dashes"),
        Key("scale-up", "demand", "up"),
        Key("scale-down", "quiet", "down"),
    )
    untold = np.isnan(whole.told)
    held = f" KEDA got an error and held in {_share(untold)}." if untold.any() else ""
    summary = f"Ready replicas between {_range(whole.ready)}; {len(ups)} scale-ups and {len(downs)} scale-downs.{held}"
    return Plot("replicas", "Replicas", summary, keys, draw, whole.unit)


def _queue_time(whole: _Series, shown: _Series) -> Plot:
    slo_s = whole.record.slo_s
    slo = format_duration(slo_s)

    def draw(axes: Axes) -> None:
        curve(axes, shown.at, shown.queue_time, "ink", name="queue-time")
        band(axes, shown.at, slo_s, shown.queue_time, "breach", where=shown.queue_time > slo_s, steps=False)
        limit_line(axes, slo_s, shown.queue_time)

    keys = (
        Key("95th percentile", "ink", "line"),
        Key(f"SLO, {slo}", "breach", "dashes"),
        Key("beyond it", "breach", "area"),
    )
    known = _known(whole.queue_time)
    summary = "No request started."
    if len(known):
        summary = f"Between {_range(known)} s; above the SLO of {slo} in {_share(known > slo_s)} with requests."
    title = "Queue time of the requests that started, seconds"
    return Plot("queue-time", title, summary + _scale_note(known, slo_s), keys, draw, whole.unit)


def _saturation(whole: _Series, shown: _Series) -> Plot:
    def draw(axes: Axes) -> None:
        curve(axes, shown.at, shown.kv_usage, "cache", name="kv-usage")
        curve(axes, shown.at, shown.saturation, "ink", name="saturation")
        limit_line(axes, 1.0, shown.saturation)

    keys = (
        Key("saturation", "ink", "line"),
        Key("KV cache in use, share", "cache", "line"),
        Key("at target", "breach", "dashes"),
    )
    known, cache = _known(whole.saturation), _known(whole.kv_usage)
    summary = "Saturation was never known."
    if len(known):
        summary = f"Saturation between {_range(known)}; above 1, its target, in {_share(known > 1)}."
    if len(cache):
        summary += f" At most {highest(cache) * 100:.0f} % of the KV cache was in use."
    return Plot("saturation", "Saturation and KV cache", summary + _scale_note(known, 1.0), keys, draw, whole.unit)


def _scale_note(values: FloatArray, limit: float) -> str:
    return " The scale is logarithmic above the dashed line." if is_far_beyond(values, limit) else ""


def _time_unit(span_s: float) -> tuple[str, float]:
    if span_s <= 180:
        return "seconds", 1.0
    return ("minutes", 60.0) if span_s <= 3 * 3600 else ("hours", 3600.0)


def _array(values: Sequence[float | None]) -> FloatArray:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _known(values: FloatArray) -> FloatArray:
    return values[~np.isnan(values)]


def _range(known: FloatArray) -> str:
    return f"{quantity(float(known.min()))} and {quantity(float(known.max()))}"


def _share(over: npt.NDArray[np.bool_]) -> str:
    return f"{int(over.sum()):,} of {len(over):,} samples"
