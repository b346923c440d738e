"""How a backfill goes about it: what it asks, in which order, how fast, and what it does when something fails."""

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from forecasting.series import Grid, Series
from scaler.adapters.history.backfill import Backfill, BackfillSettings, Progress
from scaler.adapters.history.joins import PastTarget
from scaler.adapters.history.kept import KeptHistory
from scaler.adapters.history.ranges import RangeAnswer, RangeRow
from scaler.config.models import Unit
from scaler.core.history import HistoryBatch
from scaler.core.values import Reason, WorkloadId
from scaler.ports import SourceError, StoreError
from tests.scaler_rig import ManualClock

STEP_S, PIECE_S = 300, 7200
NOW_S = 1_771_200_000.0 + 1000
SETTINGS = BackfillSettings(lookback_s=4 * PIECE_S + 1000, samples_per_minute=60_000, backoff_s=10, attempts=3)


def target(name: str, namespace: str = "demo", unit: Unit = Unit.REQUESTS, engine: str = "vllm") -> PastTarget:
    return PastTarget(WorkloadId(namespace, name), engine, unit, "Deployment", name)


CHAT, DRAW = target("chat"), target("draw")


class NoOwn:
    """Own series that have nothing, or what they are told to have."""

    def __init__(self, known: Callable[[WorkloadId, int], bool] | None = None) -> None:
        self.known = known or (lambda *_: False)

    async def seen(self, workloads: Sequence[WorkloadId], grid: Grid) -> HistoryBatch:
        times = [grid.start_s + i * grid.step_s for i in range(grid.count)]
        return HistoryBatch(
            grid,
            {
                key: Series.on(grid, np.array([1.0 if self.known(key, at_s) else np.nan for at_s in times]))
                for key in workloads
            },
        )


@dataclass
class Server:
    """Answers every query with one value for each workload that it is about, and keeps account."""

    clock: ManualClock = field(default_factory=ManualClock)
    asked: list[tuple[int, frozenset[str]]] = field(default_factory=list)  # begin of the piece, names
    at_s: list[float] = field(default_factory=list)
    under_way: int = 0
    fails: Callable[[int], bool] = lambda _: False
    empty: bool = False
    partial: tuple[str, ...] = ()
    samples: int | None = 6000
    stop_at: int | None = None
    stopped: asyncio.Event = field(default_factory=asyncio.Event)

    async def matrix(self, query: str, grid: Grid) -> RangeAnswer:
        assert self.under_way == 0, "one query at a time"
        number = len(self.asked)
        found = re.search(r'kube_replicaset_owner\{[^}]*owner_name=~"([^"]*)"', query)
        assert found is not None
        names = frozenset(found[1].split("|"))
        self.asked.append((grid.start_s - STEP_S, names))
        self.at_s.append(self.clock.monotonic_s())
        if number == self.stop_at:
            self.stopped.set()
            await asyncio.Event().wait()
        self.under_way += 1
        await asyncio.sleep(0)
        self.under_way -= 1
        if self.fails(number):
            raise SourceError(Reason.SOURCE_DOWN, "refused")
        rows = () if self.empty else tuple(RangeRow({"owner_name": n}, np.full(grid.count, 5.0)) for n in names)
        return RangeAnswer(rows, self.partial, self.samples)

    async def pause(self, seconds: float) -> None:
        self.clock.advance(seconds)
        await asyncio.sleep(0)


def kept_in(folder: Path, max_bytes: int = 2**20) -> KeptHistory:
    kept = KeptHistory(folder, max_bytes, STEP_S, PIECE_S)
    kept.open()
    return kept


async def run(
    server: Server,
    kept: KeptHistory,
    *targets: PastTarget,
    own: NoOwn | None = None,
    settings: BackfillSettings = SETTINGS,
) -> Progress:
    return await Backfill(server, own or NoOwn(), kept, settings, server.pause).run(targets, NOW_S)


def begins(server: Server) -> list[int]:
    return [begin_s for begin_s, _ in server.asked]


async def test_the_newest_is_asked_first_and_nothing_twice(tmp_path: Path) -> None:
    """Every whole piece of the look-back once for a namespace, with all its workloads; then there is nothing to do."""
    server, kept = Server(), kept_in(tmp_path)
    done = await run(server, kept, CHAT, DRAW)
    newest = int(NOW_S // PIECE_S - 1) * PIECE_S
    assert begins(server) == [newest - i * PIECE_S for i in range(4)]
    assert all(names == {"chat", "draw"} for _, names in server.asked)
    assert (done.total, done.answered, done.given_up, done.problem) == (4, 4, 0, "")
    assert (await run(server, kept, CHAT, DRAW)).total == 0


async def test_a_new_workload_adds_only_itself(tmp_path: Path) -> None:
    """What is kept of the others is not asked again."""
    kept = kept_in(tmp_path)
    await run(Server(), kept, CHAT)
    server = Server()
    await run(server, kept, CHAT, DRAW)
    assert [names for _, names in server.asked] == [{"draw"}] * 4


async def test_another_unit_is_asked_anew(tmp_path: Path) -> None:
    """Requests that were kept are no tokens."""
    kept = kept_in(tmp_path)
    await run(Server(), kept, CHAT)
    server = Server()
    await run(server, kept, target("chat", unit=Unit.OUTPUT_TOKENS))
    assert len(server.asked) == 4


async def test_what_own_series_have_is_not_asked(tmp_path: Path) -> None:
    """Pieces whose hours are all known are left out; one with an hour missing is asked."""
    newest = int(NOW_S // PIECE_S - 1) * PIECE_S

    def known(key: WorkloadId, at_s: int) -> bool:
        return at_s > newest - PIECE_S and at_s != newest - 3600

    server = Server()
    await run(server, kept_in(tmp_path), CHAT, own=NoOwn(known))
    assert begins(server) == [newest - i * PIECE_S for i in (1, 2, 3)]


async def test_a_cancelled_run_goes_on_where_it_was(tmp_path: Path) -> None:
    """In another process too: what was answered before is not asked again."""
    first = Server(stop_at=2)
    running = asyncio.create_task(run(first, kept_in(tmp_path), CHAT))
    async with asyncio.timeout(30):
        await first.stopped.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    second = Server()
    done = await run(second, kept_in(tmp_path), CHAT)
    assert begins(second) == [begins(first)[2], begins(first)[2] - PIECE_S]
    assert (done.total, done.answered) == (2, 2)


async def test_samples_cost_time(tmp_path: Path) -> None:
    """At 60,000 samples a minute 6,000 take six seconds, and where the server does not tell, a guess counts."""
    server = Server()
    await run(server, kept_in(tmp_path / "told"), CHAT)
    assert np.diff(server.at_s).tolist() == [6.0] * 3
    silent = Server(samples=None)
    await run(silent, kept_in(tmp_path / "guessed"), CHAT)
    assert np.diff(silent.at_s).tolist() == [4000 * 24 / 1000] * 3
    cheap = Server(samples=1)
    await run(cheap, kept_in(tmp_path / "cheap"), CHAT)
    assert np.diff(cheap.at_s).tolist() == [1.0] * 3


async def test_an_outage_in_the_middle_is_asked_again_later(tmp_path: Path) -> None:
    """Pauses grow while it lasts; afterwards everything is there, and the last problem is told."""
    server = Server(fails=lambda number: 1 <= number <= 3)
    kept = kept_in(tmp_path)
    done = await run(server, kept, CHAT)
    assert np.diff(server.at_s).tolist()[:5] == [6.0, 10.0, 20.0, 40.0, 6.0]
    assert (done.total, done.answered, done.given_up, done.problem) == (4, 4, 0, "refused")
    assert sorted(set(begins(server))) == sorted(begins(server)[:4])
    assert all(kept.has(CHAT.workload, CHAT.identity, begin_s) for begin_s in begins(server))


@pytest.mark.parametrize(
    "others", [(), (target("one", "other"), target("two", "other"))], ids=["alone", "among others"]
)
async def test_a_query_that_is_too_large_is_asked_in_halves(tmp_path: Path, others: tuple[PastTarget, ...]) -> None:
    """A server that answers others, and this one not even the second time, is asked for fewer workloads at once."""

    class Small(Server):
        async def matrix(self, query: str, grid: Grid) -> RangeAnswer:
            answer = await super().matrix(query, grid)
            if len(self.asked[-1][1]) > 2:
                raise SourceError(Reason.SOURCE_DOWN, "too many samples")
            return answer

    server, kept = Small(), kept_in(tmp_path)
    targets = [target(f"w{i}") for i in range(4)]
    settings = replace(SETTINGS, lookback_s=PIECE_S + 1000)
    done = await run(server, kept, *targets, *others, settings=settings)
    begin_s = begins(server)[0]
    assert all(kept.has(one.workload, one.identity, begin_s) for one in (*targets, *others))
    assert (done.total, done.answered, done.given_up) == (2 + bool(others), 2 + bool(others), 0)


async def test_a_server_that_stays_down_is_given_up_for_this_run(tmp_path: Path) -> None:
    """Each query has so many attempts and no more; nothing is kept, and the next run asks again."""
    server, kept = Server(fails=lambda _: True), kept_in(tmp_path)
    done = await run(server, kept, CHAT)
    assert len(server.asked) == 12
    assert (done.answered, done.given_up) == (0, 4)
    assert kept.size_bytes == 0
    assert max(np.diff(server.at_s)) <= SETTINGS.longest_backoff_s
    assert (await run(Server(), kept, CHAT)).answered == 4


@pytest.mark.parametrize("server", [Server(empty=True), Server(partial=("a store is down",))], ids=["empty", "partial"])
async def test_an_empty_or_partial_answer_is_not_kept(tmp_path: Path, server: Server) -> None:
    """It may have been an outage: the next run asks again, and meanwhile it is missing."""
    kept = kept_in(tmp_path)
    await run(server, kept, CHAT)
    assert kept.size_bytes == 0
    assert (await run(Server(), kept, CHAT)).answered == 4


async def test_a_full_folder_ends_it(tmp_path: Path) -> None:
    """The newest is kept; what is older than all of it is not asked on and on."""
    one = kept_in(tmp_path / "one")
    await run(Server(), one, CHAT)
    server, kept = Server(), kept_in(tmp_path / "two", one.size_bytes * 3 // 5)
    done = await run(server, kept, CHAT)
    assert done.full
    assert len(server.asked) == 3
    assert kept.size_bytes <= one.size_bytes * 3 // 5


async def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking on would be in vain."""

    def refuse(path: Path, content: bytes) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("scaler.adapters.history.kept.replace_file", refuse)
    server = Server()
    with pytest.raises(StoreError, match="no space left"):
        await run(server, kept_in(tmp_path), CHAT)
    assert len(server.asked) == 1


async def test_engines_whose_work_is_not_counted_in_pods_are_told(tmp_path: Path) -> None:
    """A queue's past is not in pods; llama.cpp counts no requests."""
    server = Server()
    others = (target("queue", engine="rabbitmq"), target("small", engine="llamacpp"), target("odd", engine="none"))
    done = await run(server, kept_in(tmp_path), CHAT, *others)
    assert done.unsupported == tuple(other.workload for other in others)
    assert all(names == {"chat"} for _, names in server.asked)


async def test_large_namespaces_are_asked_in_parts(tmp_path: Path) -> None:
    """A query is about so many workloads of one namespace, engine and unit, and no more."""
    targets = [target(f"w{i}") for i in range(5)] + [target("w0", "other")]
    server = Server()
    await run(server, kept_in(tmp_path), *targets, settings=replace(SETTINGS, targets=2, lookback_s=PIECE_S + 1000))
    assert sorted(sorted(names) for _, names in server.asked) == [["w0"], ["w0", "w1"], ["w2", "w3"], ["w4"]]


@pytest.mark.parametrize(
    "change",
    [{"name": 'a"} or vector(1) #'}, {"name": "$1"}, {"former": ("a|b",)}, {"kind": 'Deployment"'}, {"name": ""}],
)
def test_names_that_no_object_can_have_are_refused(change: dict[str, object]) -> None:
    """They are written into queries."""
    with pytest.raises(ValueError, match="must match"):
        replace(CHAT, **change)  # type: ignore[arg-type]  # the values of the cases are of each field's type
