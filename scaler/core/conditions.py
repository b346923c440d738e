"""What a person should know of beside the target: signals that should be there and are not, and notes."""

from dataclasses import fields

from scaler.config.models import WorkloadSettings
from scaler.core.observation import GatewayReading, QueueReading
from scaler.core.pool import Standing
from scaler.core.reactive import Load
from scaler.core.values import Known, Reading, Reason, describe, is_benign

_BELIEVED = Standing.BELIEVED
_DOUBTED = tuple(standing for standing in Standing if standing is not _BELIEVED)
_QUEUE_SIGNALS = tuple(field.name for field in fields(QueueReading))
_GATEWAY_SIGNALS = tuple(field.name for field in fields(GatewayReading))
_NO_GAPS = frozenset({("queue_time_s", Reason.NO_COMPLETIONS)})  # a quantile of nothing is no number


def missing_signals(load: Load, settings: WorkloadSettings) -> tuple[str, ...]:
    """Return `signal: reason` for each signal that should be known and is not."""
    if load.queue is not None:
        return _absent("", load.queue, _QUEUE_SIGNALS)
    gaps = load.pool.gaps()
    if not gaps and load.gateway is None:
        return ()
    missing = tuple(
        f"{name}: {signal.reason} ({signal.unknown} of {load.pool.ready})"
        for name, signal in gaps
        if (name, signal.reason) not in _NO_GAPS and (name != "slots" or settings.slots_per_replica is None)
    )
    return missing if load.gateway is None else missing + _absent("gateway_", load.gateway, _GATEWAY_SIGNALS)


def _absent(prefix: str, source: QueueReading | GatewayReading, names: tuple[str, ...]) -> tuple[str, ...]:
    readings: list[tuple[str, Reading]] = [(name, getattr(source, name)) for name in names]
    return tuple(
        f"{prefix}{name}: {describe(r)}" for name, r in readings if not isinstance(r, Known) and not is_benign(r)
    )


def notes_of(load: Load, *, rollout: bool) -> tuple[str, ...]:
    """Return the conditions that a person should know of."""
    standings = load.pool.standings
    doubted = standings.get(_BELIEVED, 0) != load.pool.ready
    notes = [f"{s.value}: {standings[s]}" for s in _DOUBTED if standings.get(s)] if doubted else []
    if load.implausible:
        notes.append(f"implausible: {load.implausible}")
    if load.counts.blocked:
        notes.append(f"waiting_for_capacity: {load.counts.blocked}")
    if rollout:
        notes.append("rollout")
    return tuple(notes)
