"""What the plots of a run draw, and the SVG that becomes of it."""

import re
import subprocess
import sys
from dataclasses import replace
from xml.etree.ElementTree import Element

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from scaler.report.canvas import NARROW, WIDE
from scaler.report.palette import TONES, Tone
from scaler.report.plots import figure_of, plots_of, thinned
from scaler.report.run_record import RunRecord
from scaler.report.svg import inline_svg
from tests.run_records import CAPACITY_RPS, a_record, a_sample


def curves(record: RunRecord, plot_name: str) -> dict[str, np.ndarray]:
    """Draw one plot and return the y values of its curves."""
    (plot,) = (plot for plot in plots_of(record) if plot.name == plot_name)
    lines = axes_of(figure_of(plot, WIDE)).get_lines()
    return {str(line.get_gid()).removeprefix("curve-"): np.asarray(line.get_ydata(), dtype=float) for line in lines}


def axes_of(figure: Figure) -> Axes:
    (axes,) = figure.axes
    return axes


def svg_of(record: RunRecord, index: int) -> Element:
    plot = plots_of(record)[index]
    return inline_svg(figure_of(plot, NARROW), name=plot.name, title=plot.title, description=plot.summary)


@pytest.mark.parametrize(
    ("plot", "names"),
    [
        ("traffic", {"arrivals", "supply"}),
        ("replicas", {"ready", "pending", "told"}),
        ("queue-time", {"queue-time"}),
        ("saturation", {"saturation", "kv-usage"}),
    ],
)
def test_every_sample_is_a_point(plot: str, names: set[str]) -> None:
    """Each curve has as many points as the run has samples."""
    drawn = curves(a_record(samples=100), plot)
    assert names <= set(drawn)
    assert {len(drawn[name]) for name in names} == {100}


def test_every_scale_event_is_a_mark() -> None:
    """Ups and downs are told apart, and each is marked at the replicas it asked for."""
    record = a_record()
    drawn = curves(record, "replicas")
    assert list(drawn["scale-ups"]) == [event.after for event in record.events if event.after > event.before]
    assert list(drawn["scale-downs"]) == [event.after for event in record.events if event.after < event.before]


def test_supply_is_capacity_times_ready_replicas() -> None:
    """Pending replicas are no supply; without a known capacity none is drawn."""
    record = a_record(samples=50)
    assert list(curves(record, "traffic")["supply"]) == [s.ready * CAPACITY_RPS for s in record.samples]
    assert "supply" not in curves(replace(record, capacity_rps=None), "traffic")


def test_what_is_not_known_is_a_gap_and_not_a_zero() -> None:
    """Absent values are drawn as NaN, and one known value between two absent ones keeps a dot."""
    samples = tuple(a_sample(at, queue_time_p95_s=q, told=None) for at, q in enumerate([None, 0.4, None, 0.5, 0.6]))
    record = replace(a_record(2), samples=samples)
    assert np.isnan(curves(record, "queue-time")["queue-time"]).tolist() == [True, False, True, False, False]
    assert np.isnan(curves(record, "replicas")["told"]).all()
    line = axes_of(figure_of(plots_of(record)[2], WIDE)).get_lines()[0]
    assert line.get_markevery() == [1]


def test_a_summary_counts_what_was_beyond_the_limit() -> None:
    """The sentence below a plot says how often the SLO was exceeded, of the samples that can tell."""
    samples = tuple(a_sample(at, queue_time_p95_s=q) for at, q in enumerate([0.0, 0.4, None, 2.5]))
    summaries = {plot.name: plot.summary for plot in plots_of(replace(a_record(2), samples=samples))}
    assert summaries["queue-time"] == "Between 0 and 2.5 s; above the SLO of 1s in 1 of 3 samples with requests."


def test_a_run_in_which_nothing_was_known_is_drawn() -> None:
    """Absent queue times, saturation and targets make empty plots that say so."""
    unknown = a_sample(told=None, queue_time_p95_s=None, saturation=None, kv_usage=None, attainment=None)
    record = replace(a_record(2), samples=(unknown, replace(unknown, at_s=15.0)), events=())
    summaries = [plot.summary for plot in plots_of(record)]
    assert summaries[2:] == ["No request started.", "Saturation was never known."]
    for plot in plots_of(record):
        figure_of(plot, WIDE)


def test_a_run_without_samples_has_no_plots() -> None:
    """There is nothing to draw, and no error."""
    assert plots_of(replace(a_record(2), samples=())) == ()


def test_a_single_sample_is_drawn() -> None:
    """A run that ended at once still has plots."""
    for plot in plots_of(a_record(samples=1)):
        figure_of(plot, NARROW)


@pytest.mark.parametrize(("highest", "scale"), [(5.9, "linear"), (60.0, "symlog"), (6000.0, "symlog")])
def test_the_limit_stays_in_sight(highest: float, scale: str) -> None:
    """A peak far beyond the SLO makes the axis logarithmic above it, and the summary says so."""
    samples = (a_sample(0, queue_time_p95_s=0.2), a_sample(15, queue_time_p95_s=highest))
    plot = plots_of(replace(a_record(2), samples=samples))[2]
    axes = axes_of(figure_of(plot, WIDE))
    assert axes.get_yscale() == scale
    assert ("logarithmic" in plot.summary) == (scale == "symlog")
    bottom, top = axes.get_ylim()
    assert bottom == 0
    assert top > highest


def test_a_long_run_is_thinned_without_losing_its_peaks() -> None:
    """Of ten thousand samples the plots keep about two thousand samples, the highest queue time among them."""
    samples = [a_sample(at, queue_time_p95_s=0.1, ready=5) for at in range(10_000)]
    samples[4_321] = a_sample(4_321, queue_time_p95_s=9.0)
    kept = thinned(samples)
    assert len(kept) <= 2_001
    assert samples[4_321] in kept
    assert (kept[0], kept[-1]) == (samples[0], samples[-1])
    assert [s.at_s for s in kept] == sorted(s.at_s for s in kept)
    assert thinned(samples[:500]) == samples[:500]


def test_a_drawing_takes_its_colours_from_the_page() -> None:
    """No colour is fixed in the SVG: each is a variable of a palette that the page has for light and for dark."""
    for index in range(4):
        styles = " ".join(node.get("style", "") for node in svg_of(a_record(60), index).iter())
        assert "#" not in re.sub(r"url\(#\w+\)", "", styles)
        assert set(re.findall(r"var\(--(\w+)\)", styles)) <= set(TONES)
        assert "font-family" not in styles


def test_a_drawing_has_a_title_and_a_description() -> None:
    """A screen reader hears what the plot is and what it shows."""
    svg = svg_of(a_record(60), 0)
    title, description = svg[0], svg[1]
    assert (title.tag, title.text) == ("title", "Arrivals and supply, requests per second")
    assert description.tag == "desc"
    assert (description.text or "").startswith("Arrivals between ")
    assert svg.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
    assert svg.get("role") == "img"


def test_a_drawing_reaches_nothing_beyond_itself() -> None:
    """It has no style sheet, no metadata and no dangling reference, and text stays text."""
    svg = svg_of(a_record(60), 1)
    tags = {node.tag for node in svg.iter()}
    assert not tags & {"style", "metadata", "script", "image", "a"}
    assert "text" in tags
    identifiers = {node.get("id") for node in svg.iter()} - {None}
    values = " ".join(value for node in svg.iter() for value in node.attrib.values())
    assert set(re.findall(r"#([\w-]+)", values)) <= identifiers


def test_a_users_own_style_changes_nothing() -> None:
    """Settings of the process are neither used nor changed by a drawing."""
    expected = curves_svg()
    with mpl.rc_context({"font.size": 30, "lines.linewidth": 9, "svg.fonttype": "path", "axes.grid": False}):
        before = dict(mpl.rcParams)
        assert curves_svg() == expected
        assert dict(mpl.rcParams) == before


def curves_svg() -> list[tuple[str, dict[str, str]]]:
    return [(node.tag, node.attrib) for node in svg_of(a_record(30), 3).iter()]


def test_importing_the_report_does_not_load_matplotlib() -> None:
    """A command that writes no report does not wait for matplotlib; one that draws never loads pyplot."""
    code = (
        "import sys, scaler.report.html, scaler.report.live\n"
        "assert 'matplotlib' not in sys.modules and 'numpy' not in sys.modules\n"
        "from tests.run_records import a_record\n"
        "scaler.report.html.report_html(a_record(5))\n"
        "assert 'matplotlib' in sys.modules and 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=120)


@pytest.mark.parametrize("dark", [False, True])
def test_the_colours_have_contrast(dark: bool) -> None:
    """Text has at least 4.5 : 1 and curves 3 : 1 on the page and on panels, in both palettes."""
    for ground in ("page", "panel"):
        for role in ("ink", "quiet", "supply", "breach"):
            assert contrast(TONES[role], TONES[ground], dark=dark) >= 4.5
        for role in ("demand", "pending", "cache"):
            assert contrast(TONES[role], TONES[ground], dark=dark) >= 3


def test_light_colours_name_their_role() -> None:
    """A drawn colour leads back to one role only."""
    assert len({tone.light for tone in TONES.values()}) == len(TONES)


def contrast(one: Tone, other: Tone, *, dark: bool) -> float:
    """Return the contrast ratio of WCAG 2."""
    high, low = sorted((luminance(tone.dark if dark else tone.light) for tone in (one, other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    channels = (int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5))
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
