"""Samples straight from the pods' `/metrics`, for where there is no Prometheus: one machine, a rehearsal, a first try.

It behaves as Prometheus with honorLabels=false: a target's labels are what the platform says of it, and a label of the
same name in the exposition becomes `exported_...`. A target that does not answer has `up` 0 and no other series; the
others are unaffected, and the answer is not partial, because `up` says exactly what is missing.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from scaler.adapters.signals.owners import UP
from scaler.adapters.targets_file import Target, TargetsFile
from scaler.ports import Clock, Sample, SampleBatch, SampleRequest

_CHUNK_BYTES = 65536
# Prometheus' text format only. OpenMetrics differs in details that matter to the parser.
_ACCEPT = "text/plain;version=0.0.4"
_TEXT = frozenset({"text/plain", "application/openmetrics-text"})


Targets = Callable[[], Awaitable[Sequence[Target]]]


@dataclass(frozen=True, slots=True)
class ScrapeSettings:
    """What to scrape and within which bounds. Time-outs are of the wall."""

    targets_file: Path | None = None  # where the source is given no other list of targets
    timeout_s: float = 5.0  # for one target, from connecting to the last byte
    max_body_bytes: int = 8 * 2**20
    concurrency: int = 32


class ScrapeSource:
    """A MetricsSource that scrapes the targets of a `file_sd` file, or those that it is told.

    A target is scraped once a tick, however many fetches want it: engines, and exporters of GPU activity beside them.
    """

    def __init__(self, settings: ScrapeSettings, clock: Clock, targets: Targets | None = None) -> None:
        """Open connections at the first fetch. `targets` takes the place of the file; it raises SourceError."""
        if targets is None:
            if settings.targets_file is None:
                raise ValueError("targets_file must be given where there is no other list of targets")
            targets = _loaded(TargetsFile(settings.targets_file))
        self._settings = settings
        self._clock = clock
        self._targets = targets
        self._session: aiohttp.ClientSession | None = None
        self._free = asyncio.Semaphore(settings.concurrency)
        self._scraping = asyncio.Lock()
        self._tick_s = float("-inf")
        self._names: frozenset[str] = frozenset()  # all that was ever asked for
        self._scraped: dict[Target, list[Sample]] = {}  # in this tick

    async def fetch(self, request: SampleRequest, now_s: float) -> SampleBatch:
        """Return what the targets expose in the tick of `now_s`; SourceError when there is no list of targets."""
        names = frozenset(request.names)
        async with self._scraping:
            if now_s != self._tick_s or not names <= self._names:
                self._tick_s, self._scraped, self._names = now_s, {}, self._names | names
            targets = [t for t in await self._targets() if _is_wanted(t, request.namespaces)]
            missing = [t for t in targets if t not in self._scraped]
            scraped = await asyncio.gather(*(self._scrape(target, self._names) for target in missing))
            self._scraped |= zip(missing, scraped, strict=True)
            return SampleBatch(tuple(s for target in targets for s in self._scraped[target] if s.name in names))

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _scrape(self, target: Target, names: frozenset[str]) -> list[Sample]:
        samples: list[Sample] = []
        up = 0.0
        async with self._free:
            at_s = self._clock.now_s()
            # UnicodeDecodeError is a ValueError; KeyError and IndexError are how the parser fails on some bad lines.
            with contextlib.suppress(aiohttp.ClientError, TimeoutError, ValueError, KeyError, IndexError):
                text, at_s = await self._text(target.url)
                samples = list(_samples(text, names, dict(target.labels), at_s))
                up = 1.0
        if UP in names:
            samples.append(Sample(UP, dict(target.labels), up, at_s))
        return samples

    async def _text(self, url: str) -> tuple[str, float]:
        """Return the exposition and when it was made; ValueError where the answer is none.

        That is when its headers came: engines render before they answer, and one that is slow to answer would seem to
        have done in no time what it did meanwhile.
        """
        if self._session is None:
            # The semaphore bounds them: waiting for a connection here would count against a target's time.
            connector = aiohttp.TCPConnector(limit=0)
            self._session = aiohttp.ClientSession(connector=connector, headers={"Accept": _ACCEPT})
        timeout = aiohttp.ClientTimeout(total=self._settings.timeout_s)
        async with self._session.get(url, allow_redirects=False, timeout=timeout) as response:
            at_s = self._clock.now_s()
            if response.status != HTTPStatus.OK:
                raise ValueError(f"status must be 200, was {response.status}")
            if response.content_type not in _TEXT:
                raise ValueError(f"content type must be a text exposition, was {response.content_type!r}")
            body = bytearray()
            async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
                body += chunk
                if len(body) > self._settings.max_body_bytes:
                    raise ValueError(f"body must be at most {self._settings.max_body_bytes} bytes, was more")
        return body.decode("utf-8"), at_s


def _loaded(file: TargetsFile) -> Targets:
    async def load() -> Sequence[Target]:
        return file.load()

    return load


def _is_wanted(target: Target, namespaces: tuple[str, ...]) -> bool:
    return not namespaces or dict(target.labels).get("namespace") in namespaces


def _samples(text: str, names: frozenset[str], target_labels: Mapping[str, str], at_s: float) -> Iterator[Sample]:
    """Parse the wanted samples. Only their lines reach the parser: an engine exposes ten times more than is used.

    A time stamp in the exposition is ignored: when it was scraped is known here, and a pod's own word on it is no
    evidence.
    """
    lines = (line for line in text.splitlines() if _name_of(line) in names - {UP})
    for family in text_string_to_metric_families("\n".join(lines) + "\n"):
        for sample in family.samples:
            yield Sample(sample.name, _merged(sample.labels, target_labels), float(sample.value), at_s)


def _name_of(line: str) -> str:
    return line.lstrip().partition("{")[0].partition(" ")[0]


def _merged(exposed: Mapping[str, str], target: Mapping[str, str]) -> dict[str, str]:
    """Join labels as Prometheus does: the target's win, and what they displace is kept under `exported_`."""
    merged = dict(target)
    for name, value in _displaced_last(exposed, target):
        free = name
        while free in merged:
            free = f"exported_{free}"
        merged[free] = value
    return merged


def _displaced_last(exposed: Mapping[str, str], target: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    return sorted(exposed.items(), key=lambda item: (item[0] in target, item[0]))
