"""What a person sees while a run goes on: a table at a terminal, else one plain line per change of the target.

Updates only store what is to be shown; a thread of the display draws it a few times a second, so that neither a slow
terminal nor a fast feed holds up the run.
"""

from collections import deque
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from scaler.report.run_record import RunSample
from scaler.report.sparkline import History, sparkline
from scaler.report.text import clock, exact_percent, percent, printable, quantity

_DECISIONS = 6
_FRAMES_PER_S = 4
_ROW_COLUMNS = 76  # that the figures need side by side; on less they stand one below the other
_LABEL_COLUMNS = 12  # of the curves' names
_LEGEND_COLUMNS = 14  # of their maxima


@dataclass(frozen=True, slots=True)
class _Moment:
    """What the newest update said."""

    sample: RunSample
    saturation: float | None
    binding: str


class LiveView:
    """Shows a run as it goes; a context manager. `objective` is the share of requests that must meet the SLO."""

    def __init__(self, console: Console, *, title: str, objective: float) -> None:
        # A colour that was asked for by the environment does not make a file a terminal.
        self._animated = console.is_interactive and console.file.isatty()
        self._console = console
        self._title = self._safe(title)
        self._objective = objective
        self._moment: _Moment | None = None
        self._decisions: deque[str] = deque(maxlen=_DECISIONS)
        self._planned = False
        self._told: int | None = None
        self._arrivals = History()
        self._ready = History()
        self._live = Live(console=console, get_renderable=self._table, refresh_per_second=_FRAMES_PER_S)

    def __enter__(self) -> Self:
        if self._animated:
            self._live.start()
        else:
            self._print(self._title)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()  # draws the last frame; nothing when it was not started

    def update(
        self, sample: RunSample, saturation: float | None, binding: str, reason: str, *, planned: bool = True
    ) -> None:
        """Show the newest sample, its saturation with the binding term, and the reason of the latest decision.

        Before the first decision `planned` is False, and the reason says why there is none.
        """
        begun = self._moment is not None
        self._moment = _Moment(sample, saturation, self._safe(binding))
        self._arrivals.add(sample.arrivals_rps)
        self._ready.add(sample.ready)
        if not planned:
            if not begun:
                self._note(self._moment, None, self._safe(reason))
        elif not self._planned or sample.told != self._told:
            change = f"{_told(self._told)} -> {_told(sample.told)}" if self._planned else _told(sample.told)
            self._planned, self._told = True, sample.told
            self._note(self._moment, change, self._safe(reason))

    def _note(self, moment: _Moment, change: str | None, reason: str) -> None:
        at = clock(moment.sample.at_s)
        self._decisions.append(f"{at}  {change or '':<10}  {reason}")
        if not self._animated:
            told = "" if change is None else f"told {change}: "
            self._print(f"{at}  {told}{reason} ({_situation(moment)})")

    def _safe(self, text: str) -> str:
        """Escape what the console would act upon, and what its encoding does not have."""
        encoding = self._console.encoding
        return printable(text).encode(encoding, "backslashreplace").decode(encoding)

    def _print(self, line: str) -> None:
        self._console.file.write(line + "\n")
        self._console.file.flush()

    def _table(self) -> RenderableType:
        moment = self._moment
        if moment is None:
            return Text(f"{self._title}: waiting for the first sample")
        ascii_only = self._console.options.ascii_only
        return Group(
            Text(self._title, style="bold", no_wrap=True, overflow="ellipsis"),
            self._figures(moment, ascii_only=ascii_only),
            self._curves(ascii_only=ascii_only),
            *(Text(line, no_wrap=True, overflow="ellipsis") for line in tuple(self._decisions)),
        )

    def _figures(self, moment: _Moment, *, ascii_only: bool) -> Table:
        cells = self._cells(moment)
        if self._console.width < _ROW_COLUMNS:
            upright = Table(box=None, show_header=False, pad_edge=False)
            for name, cell in cells:
                upright.add_row(name, *cell)
            return upright
        line = box.ASCII2 if ascii_only else box.SIMPLE_HEAD
        row = Table(box=line, show_edge=False, padding=(0, 1, 0, 0), pad_edge=False)
        for name, _ in cells:
            row.add_column(name, justify="right")
        row.add_row(*(Text("\n").join(cell) for _, cell in cells))
        return row

    def _cells(self, moment: _Moment) -> tuple[tuple[str, tuple[Text, ...]], ...]:
        sample = moment.sample
        return (
            ("time", (Text(clock(sample.at_s)),)),
            ("arrivals/s", (Text(quantity(sample.arrivals_rps)),)),
            ("ready", (Text(str(sample.ready)),)),
            ("pending", (_notable(sample.pending),)),
            ("told", (Text(_told(sample.told), style="" if sample.told is not None else "bold red"),)),
            ("saturation", _saturation(moment)),
            ("waiting", (_notable(sample.waiting),)),
            ("attainment", _attainment(sample.attainment, self._objective)),
        )

    def _curves(self, *, ascii_only: bool) -> Table:
        columns = max(8, min(self._console.width, 120) - _LABEL_COLUMNS - _LEGEND_COLUMNS)
        table = Table.grid(padding=(0, 1))
        for name, history, style in (("arrivals/s", self._arrivals, "blue"), ("ready", self._ready, "green")):
            values = history.values()
            curve = Text(sparkline(values, columns, ascii_only=ascii_only), style=style)
            table.add_row(Text(name.ljust(_LABEL_COLUMNS - 2)), curve, Text(f"max {quantity(max(values, default=0))}"))
        return table


def _told(count: int | None) -> str:
    return "error" if count is None else str(count)


def _notable(count: int) -> Text:
    return Text(f"{count:,}", style="yellow" if count else "")


def _saturation(moment: _Moment) -> tuple[Text, ...]:
    if moment.saturation is None:
        return (Text("unknown", style="yellow"),)
    style = "bold red" if moment.saturation > 1 else ""
    return Text(f"{moment.saturation:.2f}", style=style), Text(moment.binding, style=style)


def _attainment(attainment: float | None, objective: float) -> tuple[Text, ...]:
    if attainment is None:
        return (Text("no request"),)
    style, sign = ("green", ">=") if attainment >= objective else ("bold red", "<")
    share = percent(attainment, beside=objective)
    return Text(share, style=style), Text(f"{sign} {exact_percent(objective)}", style=style)


def _situation(moment: _Moment) -> str:
    sample = moment.sample
    saturation = "unknown" if moment.saturation is None else f"{moment.saturation:.2f} by {moment.binding}"
    attainment = "no request yet" if sample.attainment is None else percent(sample.attainment)
    return (
        f"{quantity(sample.arrivals_rps)} arrivals/s, ready {sample.ready}, pending {sample.pending}, "
        f"waiting {sample.waiting:,}, saturation {saturation}, attainment {attainment}"
    )
