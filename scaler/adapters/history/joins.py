"""The PromQL of what workloads served before Headway was there: engines' counters, joined to who owned the pods.

kube-state-metrics said at every moment whose each pod was, and that stays known when pod, ReplicaSet and Deployment are
long gone. The parts, innermost first:

1. owned: pod -> ReplicaSet -> Deployment (`kube_pod_owner`, `kube_replicaset_owner`), or pod -> its controller where
   that is the target itself. Two kube-state-metrics say everything twice, so each is reduced by `max by`; should they
   disagree, `topk` takes one, because two matches for one pod would fail the query for the whole namespace.
2. served: the rise of the engine's counter per pod, once per part.
3. silent: a pod that was ready all the time, and whose targets did not all answer, served an unknown amount. It enters
   as NaN, and so does its workload's sum: a part of the demand must not pass for the whole.

Each part is evaluated once. A query looks at about (series of the counter + 4) * window / scrape interval samples for
each pod and point.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from scaler.adapters.promql import one_of, quoted
from scaler.adapters.signals.candidates import Candidate, Combine, Kind, Preset, Signal
from scaler.adapters.signals.presets import ENGINES, PER_QUEUE
from scaler.config.models import Unit
from scaler.core.values import WorkloadId

_FIELDS: Final[Mapping[Unit, str]] = {
    Unit.REQUESTS: "completions_rps",
    Unit.PROMPT_TOKENS: "prompt_tokens_rps",
    Unit.OUTPUT_TOKENS: "output_tokens_rps",
}
_POD = "namespace, pod"
_WITH_POD = 'pod!=""'
_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")
_KIND = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}")
OWNER = "owner_name"  # the label of an answer's row that says whose it is


@dataclass(frozen=True, slots=True)
class PastTarget:
    """A workload, and the object whose pods served it. `former` are names that the object had before it was renamed."""

    workload: WorkloadId
    engine: str
    unit: Unit
    kind: str
    name: str
    former: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in (self.workload.namespace, self.name, *self.former):
            if not _NAME.fullmatch(name):
                raise ValueError(f"name of an object must match {_NAME.pattern}, was {name[:50]!r}")
        if not _KIND.fullmatch(self.kind):
            raise ValueError(f"kind must match {_KIND.pattern}, was {self.kind[:50]!r}")

    @property
    def identity(self) -> str:
        """What its past was asked as: a past of another unit or object is not its past."""
        return "|".join((self.engine, self.unit, self.kind, self.name, *sorted(self.former)))

    @property
    def together(self) -> tuple[str, str, str, str]:
        """What targets have in common that one query can be about."""
        return self.workload.namespace, self.engine, self.unit, self.kind


def served_signal(engine: str, unit: Unit) -> Signal | None:
    """Return the counter that tells what an engine served in a unit; None where there is none in its pods."""
    preset: Preset | None = None if engine in PER_QUEUE else ENGINES.get(engine)
    fields = () if preset is None or preset.owners[0] != ("namespace", "pod") else preset.signals
    return next((signal for signal in fields if signal.field == _FIELDS.get(unit)), None)


def served_query(targets: Sequence[PastTarget], window_s: int, labels: Mapping[str, str] | None = None) -> str:
    """Return what targets served per second, by `OWNER`: over the window before each point.

    The targets are `together`; ValueError where their engine does not count what they are measured in. `labels` are
    had by every series of this cluster.
    """
    first = targets[0]
    signal = served_signal(first.engine, first.unit)
    if signal is None:
        raise ValueError(f"{first.engine} does not count {first.unit} in its pods")
    query = _Query(first.workload.namespace, window_s * 1000 - 1, tuple((labels or {}).items()))
    known = f"{query.served(signal)} or on ({_POD}) ({query.silent()} * NaN)"
    return f"sum by (namespace, {OWNER}) ({query.owned(targets)} * on ({_POD}) group_left () ({known}))"


@dataclass(frozen=True, slots=True)
class _Query:
    """Expressions over one namespace and window."""

    namespace: str
    window_ms: int
    labels: tuple[tuple[str, str], ...]

    def owned(self, targets: Sequence[PastTarget]) -> str:
        """Return 1 for each pod, with the name of the target that owned it, the present one for a former name."""
        names = one_of(name for target in targets for name in (target.name, *target.former))
        expression = self._by_replica_set(names) if targets[0].kind == "Deployment" else self._directly(targets, names)
        present = {target.name for target in targets}
        for target in targets:
            for former in sorted(set(target.former) - present):
                expression = _renamed(expression, OWNER, target.name, OWNER, re.escape(former))
        return expression

    def _by_replica_set(self, names: str) -> str:
        pods = _renamed(self._lately("kube_pod_owner", owner_kind="ReplicaSet"), "replicaset", "$1", OWNER, "(.+)")
        sets = self._lately("kube_replicaset_owner", [f"{OWNER}=~{quoted(names)}"], owner_kind="Deployment")
        once = f"max by ({_POD}, replicaset) ({pods})"
        set_once = f"topk by (namespace, replicaset) (1, max by (namespace, replicaset, {OWNER}) ({sets}))"
        return f"topk by ({_POD}) (1, {once} * on (namespace, replicaset) group_left ({OWNER}) {set_once})"

    def _directly(self, targets: Sequence[PastTarget], names: str) -> str:
        owners = self._lately("kube_pod_owner", [f"{OWNER}=~{quoted(names)}"], owner_kind=targets[0].kind)
        return f"topk by ({_POD}) (1, max by ({_POD}, {OWNER}) ({owners}))"

    def served(self, signal: Signal) -> str:
        """Return what each pod served per second, by the first candidate that it has series of."""
        wanted = [c for c in signal.candidates if signal.kind_of(c) in {Kind.COUNTER, Kind.GAUGE}]
        return f" or on ({_POD}) ".join(self._candidate(signal, candidate) for candidate in wanted)

    def _candidate(self, signal: Signal, candidate: Candidate) -> str:
        where = [f"{label}={quoted(value)}" for label, value in candidate.where]
        having = [f'{label}!=""' for label in candidate.having]
        over = "rate" if signal.kind_of(candidate) is Kind.COUNTER else "avg_over_time"
        series = f"{over}({self._selector(candidate.name, [*where, *having, _WITH_POD])}[{self.window_ms}ms])"
        once = f"max by ({', '.join((_POD, *signal.parts))}) ({series})"
        combined = f"{_FUNCTIONS[signal.combine]} by ({_POD}) ({once})"
        return combined if candidate.divisor == 1 else f"{combined} / {candidate.divisor:g}"

    def silent(self) -> str:
        """Return the pods that were ready from the window's beginning to its end, without all of their targets up."""
        ready = self._selector("kube_pod_status_ready", condition="true")
        throughout = f"(max by ({_POD}) (min_over_time({ready}[{self.window_ms}ms])) == 1)"
        at_first = f"(max by ({_POD}) ({ready} offset {self.window_ms}ms) == 1)"
        up = f"(min by ({_POD}) (min_over_time({self._selector('up', [_WITH_POD])}[{self.window_ms}ms])) == 1)"
        return f"({throughout} and on ({_POD}) {at_first} unless on ({_POD}) {up})"

    def _lately(self, name: str, matchers: Iterable[str] = (), **equal: str) -> str:
        """Return what was said within twice the window: a pod's last moments count, though it is no longer listed."""
        return f"last_over_time({self._selector(name, matchers, **equal)}[{2 * self.window_ms}ms])"

    def _selector(self, name: str, matchers: Iterable[str] = (), **equal: str) -> str:
        same = (f"{label}={quoted(value)}" for label, value in (*self.labels, *equal.items()))
        return f"{name}{{{','.join((f'namespace={quoted(self.namespace)}', *same, *matchers))}}}"


_FUNCTIONS: Final[Mapping[Combine, str]] = {Combine.SUM: "sum", Combine.MAX: "max", Combine.MEAN: "avg"}


def _renamed(expression: str, label: str, replacement: str, source: str, pattern: str) -> str:
    return f'label_replace({expression}, "{label}", {quoted(replacement)}, "{source}", {quoted(pattern)})'
