"""Demand (work arriving now, before any queue), capacity (what a replica sustains inside its SLO) and lead time."""

from dataclasses import dataclass
from math import inf

from scaler.config.models import DecisionSettings, Unit, WorkloadSettings
from scaler.core.front import held_back
from scaler.core.members import SAME_MEMBERS
from scaler.core.observation import GatewayReading, QueueReading
from scaler.core.pool import Pool, Pooled
from scaler.core.values import BENIGN, Known, Missing, Reading, Reason, is_benign

# (Unix seconds, running + waiting, replicas that said so), oldest first.
_Entry = tuple[float, float, int]
History = tuple[_Entry, ...]
_NOTHING = Known(0.0)
_ONE = Known(1.0)
_NEGATIVE = Missing(Reason.NEGATIVE)
_TOO_FEW_SAMPLES = Missing(Reason.TOO_FEW_SAMPLES)
_REQUESTS = Unit.REQUESTS


@dataclass(slots=True)
class Demand:
    """Demand in work units per second, as it may scale up and as it may scale down, and the history it used."""

    up: Reading
    down: Reading
    in_system: History


def capacity_of(settings: WorkloadSettings) -> Reading:
    """Return the work units per second that one replica sustains inside its SLO, as configured."""
    capacity = settings.capacity_per_replica
    return Missing(Reason.NOT_CONFIGURED) if capacity is None else Known(capacity)


def lead_time_s(settings: WorkloadSettings, decision: DecisionSettings) -> float:
    """Return the seconds from a change in demand to a replica that serves it: cold start plus control delays."""
    cold_start = decision.default_lead_time_s if settings.lead_time_s is None else settings.lead_time_s
    return cold_start + decision.control_delays_s


def demand_of_queue(queue: QueueReading) -> Demand:
    """Return what is published to a queue per second. The broker sees it at zero replicas too."""
    return Demand(queue.arrivals_rps, queue.arrivals_rps, ())


def demand_of_pool(
    pool: Pool,
    history: History,
    settings: WorkloadSettings,
    decision: DecisionSettings,
    now_s: float,
    gateway: GatewayReading | None = None,
    comparable_from_s: float = -inf,
) -> Demand:
    """Return the arrivals at a pool in the workload's work unit: by flow balance, or at the gateway where that is more.

    `comparable_from_s` is the first look at the replicas that there are of which no sample is from before them.

    Flow balance: arrivals = departures + growth, here over the rate window. Where a part is not known, the sum of the
    others is a lower bound, which may scale up and not down. A negative result (a mass abort) is Missing.
    """
    in_system = _extended(history, pool, gateway, decision, now_s)
    per_request = units_per_request(pool, settings.unit)
    growth = _growth_rps(in_system, decision.rate_window_s, now_s, comparable_from_s)
    flow = _flow_rps(pool, growth, per_request, settings, decision)
    arrivals = flow if gateway is None else _with_gateway(flow, gateway, pool)
    up = _times(arrivals.up, per_request)
    return Demand(up, up if arrivals.down is arrivals.up else _times(arrivals.down, per_request), in_system)


def _flow_rps(
    pool: Pool, growth: "_Rate", per_request: Reading, settings: WorkloadSettings, decision: DecisionSettings
) -> "_Rate":
    """Return completions + growth + rejections in requests per second; what counts for up counts for down too."""
    completions, rejections, share = pool.completions_rps, pool.rejections_rps, decision.silent_hold_share
    completed = completions.down(_at_target_rps(settings, decision, per_request), hold_share=share)
    refused = _optional(rejections, rejections.down(0.0, hold_share=share))
    down = _balance(completed, growth.down, refused)
    refused_up = _optional(rejections, rejections.up)
    alike = completed is completions.up and growth.down is growth.up and refused is refused_up
    if alike and isinstance(down, Known):
        return _Rate(down, down)
    up = _at_least(completions.up, growth.up, refused_up)
    return _Rate(up, _larger(down, up) if isinstance(down, Known) else down)


def _with_gateway(flow: "_Rate", gateway: GatewayReading, pool: Pool) -> "_Rate":
    """Return the larger of what the gateway sees arrive and what the replicas' flow balance says, both in requests.

    The flow is more where other routes lead to the same replicas. It counts in full as soon as it is more: a margin
    would let the sum fall when the gateway's part grows. For scaling down both must be known, except where the flow is
    absent for a reason that hides nothing: nothing is ready, the engine has no such counter, or aborts outweigh
    arrivals.
    """
    arrivals = gateway.arrivals_rps
    if not isinstance(arrivals, Known):
        return flow if is_benign(arrivals) else _Rate(flow.up, arrivals)
    nothing_hidden = pool.ready == 0 or is_benign(flow.down) or flow.down is _NEGATIVE
    known_down = isinstance(flow.down, Known) or nothing_hidden
    return _Rate(_larger(arrivals, flow.up), _larger(arrivals, flow.down) if known_down else flow.down)


def _larger(known: Known, other: Reading) -> Known:
    return other if isinstance(other, Known) and other.value > known.value else known


def _at_target_rps(settings: WorkloadSettings, decision: DecisionSettings, per_request: Reading) -> float:
    """Return the requests per second of a replica at its utilisation target: what a silent one counts as."""
    if settings.capacity_per_replica is None or not isinstance(per_request, Known) or per_request.value <= 0:
        return 0.0
    return settings.capacity_per_replica * decision.utilisation_target / per_request.value


def units_per_request(pool: Pool, unit: Unit) -> Reading:
    """Return the work units of a recent request: 1, or tokens per completed request."""
    if unit is _REQUESTS:
        return _ONE
    tokens = (pool.prompt_tokens_rps if unit is Unit.PROMPT_TOKENS else pool.output_tokens_rps).up
    completions = pool.completions_rps.up
    if not isinstance(tokens, Known):
        return tokens
    if not isinstance(completions, Known):
        return completions
    if completions.value <= 0:
        return Missing(Reason.NO_COMPLETIONS)
    return Known(tokens.value / completions.value, max(tokens.age_s, completions.age_s))


def _extended(
    history: History, pool: Pool, gateway: GatewayReading | None, decision: DecisionSettings, now_s: float
) -> History:
    """Append what is in the system now, silent replicas at the mean, and drop what is no longer needed.

    What a gateway holds back is in the system too: when it lets go of it, the replicas' share of it is no arrival.
    Nothing is appended when too many replicas are silent: a gap is honest, a guess would look like growth.
    """
    running = pool.running.down(0.0, hold_share=decision.silent_hold_share)
    waiting = pool.waiting.down(0.0, hold_share=decision.silent_hold_share)
    held = held_back(gateway)
    kept = [entry for entry in history if entry[0] < now_s]  # a clock that was set back leaves nothing to compare
    if isinstance(running, Known) and isinstance(waiting, Known) and isinstance(held, Known):
        kept.append((now_s, running.value + waiting.value + held.value, pool.running.known))
    while len(kept) > 1 and kept[1][0] <= now_s - decision.rate_window_s:  # keep one that is at least a window old
        del kept[0]
    return tuple(kept)


@dataclass(slots=True)
class _Rate:
    """Requests per second as they may scale up, and as they may scale down."""

    up: Reading
    down: Reading


def _growth_rps(history: History, window_s: float, now_s: float, comparable_from_s: float) -> _Rate:
    """Return the growth per second of what is in the system, over the rate window or as much of it as is known.

    Less than a quarter of the window is too little: one batch of arrivals would look like a flood. When replicas came
    or went in between, what they brought or took is no growth: for scaling up only what came after that counts, for
    scaling down the largest reading.
    """
    unknown = _TOO_FEW_SAMPLES
    if len(history) < 2 or history[-1][0] != now_s:
        return _Rate(unknown, unknown)
    start, end = history[0], history[-1]
    length_s = end[0] - start[0]
    if not window_s / 4 <= length_s <= 2 * window_s:
        return _Rate(unknown, unknown)
    if start[0] >= comparable_from_s and _same(start, end):
        whole = Known((end[1] - start[1]) / length_s)
        return _Rate(whole, whole)
    since = _growth_since(history, comparable_from_s)
    most = _most_growth(start, end) if since is None else max(since, _most_growth(start, end))
    return _Rate(unknown if since is None else Known(since / length_s), Known(most / length_s))


def _same(start: _Entry, end: _Entry) -> bool:
    return abs(end[2] - start[2]) <= SAME_MEMBERS * max(end[2], start[2])


def _growth_since(history: History, comparable_from_s: float) -> float | None:
    """Return the growth since the replicas are the same, None before two looks can be compared.

    It counts over the whole time all the same. Completions are of the whole of it, too, and over a part of it a small
    growth would be a steep one.
    """
    end = history[-1]
    start = next(entry for entry in history if entry is end or (entry[0] >= comparable_from_s and _same(entry, end)))
    return None if start is end else end[1] - start[1]


def _most_growth(start: _Entry, end: _Entry) -> float:
    """Return the growth if the replicas brought their work, or if they came for new work: whichever is more."""
    (_, before, old), (_, after, new) = start, end
    of_the_same = (after / new - before / old) * min(new, old) if new and old else after - before
    return max(after - before, of_the_same)


def _balance(completions: Reading, growth: Reading, rejections: Reading) -> Reading:
    """Sum arrivals; every part must be known."""
    if not isinstance(completions, Known):
        return completions
    if not isinstance(growth, Known):
        return growth
    if not isinstance(rejections, Known):
        return rejections
    arrivals = completions.value + growth.value + rejections.value
    return _NEGATIVE if arrivals < 0 else Known(arrivals, completions.age_s)


def _at_least(completions: Reading, growth: Reading, rejections: Reading) -> Reading:
    """Sum arrivals as far as they are known: what completes is a lower bound."""
    return _balance(
        completions,
        growth if isinstance(growth, Known) else _NOTHING,
        rejections if isinstance(rejections, Known) else _NOTHING,
    )


def _optional(signal: Pooled, reading: Reading) -> Reading:
    """Take a signal that an engine may not have as 0 where that is a property of the engine, and as a gap otherwise."""
    return _NOTHING if signal.absent and signal.reason in BENIGN else reading


def _times(reading: Reading, factor: Reading) -> Reading:
    if factor is _ONE or not isinstance(reading, Known):
        return reading
    if reading.value == 0:
        return reading  # nothing is nothing, in every unit
    return Known(reading.value * factor.value, reading.age_s) if isinstance(factor, Known) else factor
