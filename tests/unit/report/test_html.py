"""The HTML report of a run: whole in one file, and safe with names from outside."""

from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from scaler.report.html import report_html, write_report
from scaler.report.run_record import ScaleEvent
from tests.run_records import a_record, a_result

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>&amp;\x00\x1b[31m\ud800'
VOID = {"meta", "br", "hr", "img", "input", "link"}


@dataclass
class Page(HTMLParser):
    """What a browser would see of a document: its elements with their attributes, and its text."""

    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] != "style":
            self.text.append(data)

    def attributes(self, name: str) -> list[str]:
        return [value or "" for _, attributes in self.elements for key, value in attributes.items() if key == name]

    def tags(self) -> set[str]:
        return {tag for tag, _ in self.elements}


def read(html: str) -> Page:
    page = Page()
    page.feed(html)
    page.close()
    assert page.open == []
    return page


@pytest.fixture(scope="module")
def html() -> str:
    return report_html(a_record())


def test_a_report_is_one_file_with_nothing_to_fetch(html: str) -> None:
    """No element loads, runs or links to anything, and the page's own policy forbids it."""
    page = read(html)
    assert not page.tags() & {"script", "link", "img", "iframe", "object", "embed", "base", "a", "form"}
    assert all(value.startswith("#") for name in ("href", "src", "xlink:href") for value in page.attributes(name))
    assert "@import" not in html
    assert html.count("url(") == html.count("url(#")
    assert "default-src 'none'; style-src 'unsafe-inline'" in page.attributes("content")
    assert not [key for _, attributes in page.elements for key in attributes if key.startswith("on")]


def test_a_report_opens_with_its_verdict(html: str) -> None:
    """The first thing below the heading is whether the objective was met, in a word and two sentences."""
    text = " ".join(read(html).text)
    start = text.index("Objective met")
    assert start < text.index("In 1h30m of recorded traffic") < text.index("99.41 % of the requests") < start + 400


@pytest.mark.parametrize(
    ("changes", "badge"),
    [
        ({"slo_attainment": 0.98}, "Objective missed"),
        ({"slo_attainment": None, "requests": 0}, "No requests"),
    ],
)
def test_a_report_does_not_hide_a_bad_end(changes: dict[str, float | None], badge: str) -> None:
    """A missed objective, or none to judge by, is what the report opens with."""
    text = " ".join(read(report_html(replace(a_record(0), result=a_result(**changes)))).text)
    assert badge in text
    assert "Objective met" not in text


def test_a_report_names_ticks_and_calls_that_failed() -> None:
    """Failures stand below the verdict, and are not mentioned where there were none."""
    record = a_record(0)
    assert "failed" not in " ".join(read(report_html(record)).text)
    text = " ".join(read(report_html(replace(record, result=a_result(tick_errors=2, grpc_errors=17)))).text)
    assert "2 of 362 ticks failed and 17 of 1,440 gRPC calls were answered with an error" in text


def test_names_from_outside_are_text() -> None:
    """Markup and control characters in titles, traces, reasons, settings and attributions are shown, not obeyed."""
    record = replace(
        a_record(0),
        title=HOSTILE,
        trace=HOSTILE,
        attribution=HOSTILE,
        events=(ScaleEvent(0.0, 3, 4, HOSTILE),),
        settings=((HOSTILE, HOSTILE),),
        result=a_result(trace="t"),
    )
    html = report_html(record)
    page = read(html)
    assert not page.tags() & {"script", "img"}
    assert " ".join(page.text).count("<script>alert(1)</script>") == 9
    assert "\x00" not in html
    assert "\x1b" not in html
    html.encode()


def test_a_report_has_every_scale_event_with_its_reason(html: str) -> None:
    """The table has a row per event and headings with a scope."""
    record, page = a_record(), read(html)
    rows = sum(tag == "tr" for tag, _ in page.elements)
    assert rows == 1 + len(record.events) + len(record.settings)
    assert page.attributes("scope").count("col") == 4
    assert page.attributes("scope").count("row") == len(record.settings)


def test_a_run_without_events_or_samples_is_reported() -> None:
    """Where there is nothing to plot or list, the report says so."""
    text = " ".join(read(report_html(a_record(0))).text)
    assert "The run has no samples to plot." in text
    assert "The number of replicas never changed." in text


def test_a_report_names_the_source_and_licence_of_its_traffic(html: str) -> None:
    """The attribution that the licence asks for is on the page."""
    assert a_record().attribution in " ".join(read(html).text)


def test_a_report_is_for_phones_and_for_the_dark(html: str) -> None:
    """It scales to the screen, has both palettes, and each plot has a wide and a narrow drawing."""
    page = read(html)
    assert "width=device-width, initial-scale=1" in page.attributes("content")
    assert "prefers-color-scheme:dark" in html
    classes = page.attributes("class")
    assert classes.count("wide") == classes.count("narrow") == classes.count("plot") / 2 == 4


def test_identifiers_are_unique(html: str) -> None:
    """No plot refers into another one: a hidden one would take its clip paths and marks along."""
    identifiers = read(html).attributes("id")
    assert len(identifiers) == len(set(identifiers)) > 0


def test_a_report_is_reproducible(tmp_path: Path, html: str) -> None:
    """The same run makes the same file: it holds no time of its making and no random identifier."""
    write_report(a_record(), tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == html


def test_a_report_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """A missing folder is said, not passed over."""
    with pytest.raises(FileNotFoundError):
        write_report(a_record(0), tmp_path / "missing" / "report.html")
