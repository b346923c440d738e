"""From one owner's samples to one signal's reading. Whatever cannot be believed ends here, with a reason."""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass

from scaler.adapters.signals.candidates import Candidate, Combine, Kind, Signal
from scaler.adapters.signals.counters import CounterTracker, Increase
from scaler.adapters.signals.histograms import histogram_quantile
from scaler.adapters.signals.owners import Owned, has_series, is_up
from scaler.adapters.signals.parts import PartsMemory
from scaler.core.values import Known, Missing, Reading, Reason, Stale
from scaler.ports import Sample

Part = tuple[str, ...]
_ROUNDING = 1e-9
_MOST = 1e18  # no signal comes near it; without a bound a sum of finite values could be infinite
_AT_ONCE_S = 1.0
_MOST_RISE = 0.01  # of its value within a second: what a counter that is older than a few minutes does
_COMBINE: Mapping[Combine, Callable[[list[float]], float]] = {
    Combine.SUM: math.fsum,
    Combine.MAX: max,
    Combine.MEAN: lambda values: math.fsum(values) / len(values),
}


@dataclass(frozen=True, slots=True)
class SignalReader:
    """How samples are looked at in one tick. `absent` is why an owner without series has none."""

    counters: CounterTracker
    memory: PartsMemory
    now_s: float
    stale_after_s: float
    absent: Reason = Reason.NO_SERIES
    quantile: float = 0.95

    def read(self, signal: Signal, owner: Hashable, owned: Owned) -> tuple[Reading, str | None]:
        """Return the reading of a signal, and the metric name that it came from."""
        matched = _first_match(signal, owned)
        if matched is None:
            return self.absence(owned, optional=signal.optional), None
        candidate, parts, disputed = matched
        match signal.kind_of(candidate):
            case Kind.GAUGE:
                busiest = self._busiest(signal, candidate, parts, owned[candidate.name])
                reading = self._gauge((owner, signal.field), signal, candidate, busiest)
            case _ if disputed:
                reading = Missing(Reason.INVALID_VALUE)
            case Kind.COUNTER:
                reading = _divided(self._counter((owner, signal.field, candidate.name), parts), candidate.divisor)
            case Kind.HISTOGRAM:
                quantile = self._histogram((owner, signal.field, candidate.name), signal, parts)
                reading = _divided(quantile, candidate.divisor)
            case Kind.RATIO:
                reading = _divided(self._ratio((owner, signal.field), signal, candidate, owned), candidate.divisor)
        return reading, candidate.name

    def values(self, signal: Signal, owned: Owned) -> tuple[float, dict[Hashable, float]]:
        """Return a counter's parts that can be believed, and when the newest was sampled: the motion of an engine."""
        matched = _first_match(signal, owned)
        if matched is None:
            return -math.inf, {}
        candidate, parts, disputed = matched
        good = {
            part: s
            for part, s in parts.items()
            if part not in disputed and isinstance(self._judged(s, math.inf, s.value), Known)
        }
        newest_s = max((s.at_s for s in good.values()), default=-math.inf)
        return newest_s, {(candidate.name, part): s.value for part, s in good.items()}

    def absence(self, owned: Owned, *, optional: bool = False) -> Missing:
        """Say why there is no series. A target that is down explains it; a partial answer may have lost anything."""
        if self.absent is not Reason.NO_SERIES:
            return Missing(self.absent)
        if not is_up(owned):
            return Missing(Reason.SOURCE_DOWN)
        return Missing(Reason.NOT_EXPORTED if optional and has_series(owned) else Reason.NO_SERIES)

    def _busiest(
        self, signal: Signal, candidate: Candidate, parts: Mapping[Part, Sample], samples: Iterable[Sample]
    ) -> dict[Part, Sample]:
        """Return, of containers of a pod that seem one part, the one with most; the newest may be the idle one's."""
        busiest = dict(parts)
        for sample in filter(lambda s: candidate.takes(s.labels), samples):
            part = tuple(sample.labels.get(label, "") for label in signal.parts)
            fresh = self.now_s - sample.at_s <= self.stale_after_s
            if fresh and _is_beside(sample, parts[part]) and _outweighs(sample, busiest[part]):
                busiest[part] = sample
        return busiest

    def _gauge(self, key: Hashable, signal: Signal, candidate: Candidate, parts: Mapping[Part, Sample]) -> Reading:
        """Combine the parts. With one that was there a while ago and is not, the others' work is not the owner's."""
        if self.memory.lost(key, [(candidate.name, part) for part in parts], self.now_s):
            return Missing(Reason.SOURCE_DOWN if self.absent is Reason.NO_SERIES else self.absent)
        return _combined(
            (self._judged(s, signal.limit, s.value / candidate.divisor) for s in parts.values()),
            _COMBINE[signal.combine],
        )

    def _counter(self, key: Hashable, parts: Mapping[Part, Sample]) -> Reading:
        """Sum the rates of all parts. One part that is not known makes the sum unknown: it would be too low."""
        judged = self._observed(key, parts)
        rates = (
            self.counters.rate((key, part, _instance(parts[part])), self.now_s)
            if isinstance(reading, Known)
            else reading
            for part, reading in judged.items()
        )
        return _combined(rates, math.fsum)

    def _histogram(self, key: Hashable, signal: Signal, parts: Mapping[Part, Sample]) -> Reading:
        bounds = signal.parts.index("le")
        judged = self._observed(key, parts)
        whole = _combined(judged.values(), math.fsum)
        if not isinstance(whole, Known):
            return whole
        rises: dict[float, float] = defaultdict(float)
        for part in judged:
            increase = self.counters.increase((key, part, _instance(parts[part])))
            if not isinstance(increase, Increase):
                return increase
            bound = _bound(part[bounds])
            if bound is None:
                return Missing(Reason.INVALID_VALUE)
            rises[bound] += increase.amount
        if math.inf not in rises:  # then nobody knows how much there was
            return Missing(Reason.INVALID_VALUE)
        value = histogram_quantile(self.quantile, rises)
        return Missing(Reason.NO_COMPLETIONS) if value is None else Known(value, whole.age_s)

    def _ratio(self, key: Hashable, signal: Signal, candidate: Candidate, owned: Owned) -> Reading:
        """Return the rise of a counter for each one that another rose; without any there is no mean, and not 0."""
        # Both are looked at before either is judged, or the second would be known a tick later than the first.
        above, below = (self._risen((key, name), signal, candidate, owned.get(name, ())) for name in candidate.names())
        if not isinstance(above, Known):
            return above
        if not isinstance(below, Known):
            return below
        if below.value == 0:
            return Missing(Reason.NO_COMPLETIONS)
        return Known(above.value / below.value, max(above.age_s, below.age_s))

    def _risen(self, key: Hashable, signal: Signal, candidate: Candidate, samples: Iterable[Sample]) -> Reading:
        """Return how much a counter rose over the window, all parts together."""
        parts, disputed = _newest_by_part(samples, candidate, signal.parts)
        if not parts or disputed:
            return Missing(Reason.INVALID_VALUE if disputed else self.absent)
        whole = _combined(self._observed(key, parts).values(), math.fsum)
        if not isinstance(whole, Known):
            return whole
        total = 0.0
        for part, sample in parts.items():
            increase = self.counters.increase((key, part, _instance(sample)))
            if not isinstance(increase, Increase):
                return increase
            total += increase.amount
        return Known(total, whole.age_s)

    def _observed(self, key: Hashable, parts: Mapping[Part, Sample]) -> dict[Part, Reading]:
        """Judge the samples of counters and let the tracker see the good ones.

        A part at another address is another process: its counter does not go on where the old one's was.
        """
        judged = {part: self._judged(sample, math.inf, sample.value) for part, sample in parts.items()}
        for part, reading in judged.items():
            if isinstance(reading, Known):
                self.counters.observe((key, part, _instance(parts[part])), parts[part].at_s, reading.value)
        return judged

    def _judged(self, sample: Sample, limit: float, value: float) -> Reading:
        age_s = self.now_s - sample.at_s
        if not math.isfinite(value) or value > min(limit, _MOST) * (1 + _ROUNDING) or not math.isfinite(age_s):
            return Missing(Reason.INVALID_VALUE)
        if value < 0:
            return Missing(Reason.NEGATIVE)
        if age_s < -self.stale_after_s:  # from the future: such a sample would look fresh for as long as it is ahead
            return Missing(Reason.INVALID_VALUE)
        return Stale(age_s) if age_s > self.stale_after_s else Known(value, max(0.0, age_s))


def _first_match(signal: Signal, owned: Owned) -> tuple[Candidate, dict[Part, Sample], set[Part]] | None:
    for candidate in signal.candidates:
        parts, disputed = _newest_by_part(owned.get(candidate.name, ()), candidate, signal.parts)
        if parts:
            return candidate, parts, disputed
    return None


def _newest_by_part(
    samples: Iterable[Sample], candidate: Candidate, labels: tuple[str, ...]
) -> tuple[dict[Part, Sample], set[Part]]:
    """Return the newest sample of each part, and the parts that two counters claim to be."""
    newest: dict[Part, Sample] = {}
    others: list[tuple[Part, Sample]] = []
    for sample in samples:
        if not candidate.takes(sample.labels):
            continue
        part = tuple(sample.labels.get(label, "") for label in labels)
        seen = newest.get(part)
        if seen is None or _order(sample) > _order(seen):
            newest[part] = sample
        if seen is not None:
            others.append((part, seen if newest[part] is sample else sample))
    return newest, {part for part, other in others if _are_two(other, newest[part])}


def _are_two(older: Sample, newer: Sample) -> bool:
    """Return whether samples from two addresses, taken at about one time, cannot be of one counter.

    Of two servers behind one pod, each with its own counter, the newest sample is now the one's and now the other's.
    """
    passed_s, rise = newer.at_s - older.at_s, newer.value - older.value
    if _instance(older) == _instance(newer) or not passed_s <= _AT_ONCE_S:
        return False
    return not 0 <= rise <= older.value * _MOST_RISE * passed_s


def _outweighs(sample: Sample, kept: Sample) -> bool:
    """Return whether a sample tells of more than the one kept. What is no number does: it could be anything."""
    if math.isnan(sample.value) or math.isnan(kept.value):
        return not math.isnan(kept.value)
    return (sample.value, sample.at_s) > (kept.value, kept.at_s)


def _is_beside(sample: Sample, other: Sample) -> bool:
    """Return whether samples come from two ports of one host: a pod that was made anew has another address."""
    one, two = _instance(sample), _instance(other)
    return one != two and one.rpartition(":")[0] == two.rpartition(":")[0] != ""


def _instance(sample: Sample) -> str:
    return sample.labels.get("instance", "")


def _order(sample: Sample) -> tuple[float, bool, float, str]:
    """Order by time, then by value, NaN first: the order in which a source lists series must not matter."""
    at_s = -math.inf if math.isnan(sample.at_s) else sample.at_s
    value = -math.inf if math.isnan(sample.value) else sample.value
    return at_s, not math.isnan(sample.value), value, _instance(sample)


def _combined(readings: Iterable[Reading], combine: Callable[[list[float]], float]) -> Reading:
    """Combine the parts of one owner. Either all are known or the whole is not: a sum of some would be too low."""
    known: list[Known] = []
    missing: list[Reason] = []
    stale_s: list[float] = []
    for reading in readings:
        match reading:
            case Known():
                known.append(reading)
            case Missing(reason):
                missing.append(reason)
            case Stale(age_s):
                stale_s.append(age_s)
    if missing:
        return Missing(min(missing))
    if stale_s:
        return Stale(max(stale_s))
    return Known(combine([r.value for r in known]), max(r.age_s for r in known))


def _divided(reading: Reading, divisor: float) -> Reading:
    return Known(reading.value / divisor, reading.age_s) if isinstance(reading, Known) else reading


def _bound(text: str) -> float | None:
    """Read a bucket's upper bound. A time is never negative, and `nan` has no place in an order."""
    try:
        bound = float(text)
    except ValueError:
        return None
    return bound if bound >= 0 else None
