"""The workloads of a cluster: ScaledObjects that name this scaler, and what is annotated to be observed.

Their manifests are the tenants' own input. One that cannot be used is reported and changes nothing else: a workload
that was valid keeps its last valid settings for as long as its object exists. Nothing here does I/O; followers feed it.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final

from scaler.adapters.kubernetes.events import Subject
from scaler.adapters.kubernetes.gpus import Raise, TemplateGpus
from scaler.adapters.kubernetes.objects import Key, Object, count, part, text, time_of
from scaler.adapters.kubernetes.targets import TargetRef, target_ref
from scaler.config.findings import Severity
from scaler.config.live import LiveWorkload
from scaler.config.models import DecisionSettings, HpaRules, Policy, WorkloadSettings
from scaler.config.platform import ANNOTATIONS, KEDA_ANNOTATIONS
from scaler.core.values import WorkloadId
from scaler.ports import Notice

Read = Callable[[Mapping[str, Any]], LiveWorkload | None]

_OUR_BUSINESS: Final = (ANNOTATIONS, KEDA_ANNOTATIONS)
MAX_NOTICES: Final = 1000  # that wait to be posted
_SHOWN_PROBLEMS: Final = 5
_MAX_MESSAGE_CHARS: Final = 1000


class Origin(IntEnum):
    """What made a workload; the smaller one has the say where two want the same name or the same target."""

    DECIDED = 0  # a ScaledObject that names this scaler
    OBSERVED = 1  # a ScaledObject of other triggers, annotated
    HPA = 2  # annotated


@dataclass(frozen=True, slots=True)
class Manifest:
    """An object that makes a workload, as it was read."""

    uid: str
    created_s: float
    seen: object  # equal as long as nothing that matters has changed
    origin: Origin
    live: LiveWorkload

    @property
    def subject(self) -> Subject:
        """The object, as an Event refers to it."""
        if self.origin is Origin.HPA:
            return Subject("autoscaling/v2", "HorizontalPodAutoscaler", self.uid)
        return Subject(uid=self.uid)


@dataclass(frozen=True, slots=True)
class Claim:
    """A workload's manifest, with what still holds of earlier ones."""

    manifest: Manifest
    settings: WorkloadSettings | None  # the last valid ones; None: there never were any

    @property
    def id(self) -> WorkloadId:
        """Whose it is."""
        return WorkloadId(self.manifest.live.namespace, self.manifest.live.name)

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with the newest manifest."""
        return tuple(str(note.problem) for note in self.manifest.live.notes if note.severity is Severity.ERROR)


@dataclass(frozen=True, slots=True)
class Claims:
    """All workloads of one moment. `refused` says why a manifest has no say, or only what it said before."""

    policy: Policy = field(default_factory=Policy)
    targets: Mapping[WorkloadId, TargetRef] = field(default_factory=dict)
    refused: Mapping[WorkloadId, tuple[str, ...]] = field(default_factory=dict)
    subjects: Mapping[WorkloadId, Subject] = field(default_factory=dict)  # what a workload's Events are about


class Workloads:
    """Follows the manifests. It is the PolicySource of a cluster."""

    def __init__(self, decision: DecisionSettings, settings_of: Read, observed_workload: Read) -> None:
        """Read ScaledObjects with `settings_of`, and what that does not take with `observed_workload`."""
        self._decision = decision
        self._settings_of = settings_of
        self._observed_workload = observed_workload
        self._lock = threading.Lock()
        self._claims: dict[tuple[str, Key], Claim] = {}
        self._gpus = TemplateGpus()
        self._tolerance_dropped = False
        self._resolved: Claims | None = Claims(Policy(decision=decision))
        self._notices: deque[Notice] = deque(maxlen=MAX_NOTICES)
        self.scaled_objects = _Sink(self, "ScaledObject")
        self.autoscalers = _Sink(self, "HorizontalPodAutoscaler")

    def current(self) -> Policy:
        """Return the policy of this tick."""
        return self.claims().policy

    def claims(self) -> Claims:
        """Return all workloads as they are now; the same object as long as nothing has changed."""
        with self._lock:
            if self._resolved is None:
                self._resolved = _resolve(self._decision, self._claims.values(), self._as_in_force)
                self._gpus.keep(self._resolved.targets.keys())
            return self._resolved

    def learn_gpus(self, gpus: Mapping[WorkloadId, int | None]) -> None:
        """Take what the pod templates of some workloads ask for; None where nothing is known of it.

        From the next tick on a replica costs that much at least: of what its manifest says only more than that counts.
        """
        with self._lock:
            if self._gpus.learn(gpus):
                self._resolved = None

    def learn_tolerance(self, dropped: bool) -> None:  # noqa: FBT001  # the one thing that there is to say
        """Take whether the cluster drops the tolerance that ScaledObjects ask of their HPAs."""
        with self._lock:
            if dropped is not self._tolerance_dropped:
                self._tolerance_dropped, self._resolved = dropped, None

    def asking_tolerance(self) -> list[tuple[Key, str]]:
        """Return the HPAs whose ScaledObjects ask for a tolerance, each with the uid of its ScaledObject."""
        with self._lock:
            manifests = [claim.manifest for claim in self._claims.values() if _asks_tolerance(claim.settings)]
        return [((it.live.namespace, it.live.hpa), it.uid) for it in manifests if it.live.hpa]

    def _as_in_force(self, key: WorkloadId, settings: WorkloadSettings) -> WorkloadSettings:
        """Return what a manifest's settings come to in this cluster."""
        raised = self._gpus.raised(key, settings)
        if not (self._tolerance_dropped and _asks_tolerance(raised)):
            return raised
        upper = raised.hpa.max_replicas if raised.hpa else None
        return raised.model_copy(update={"hpa": HpaRules(max_replicas=upper)})

    def subject_of(self, workload: WorkloadId) -> Subject:
        """Return the object that made a workload; of one that is gone, a ScaledObject that no uid is known of."""
        return self.claims().subjects.get(workload, Subject())

    def take_notices(self) -> tuple[Notice, ...]:
        """Return what has happened to manifests since the last call."""
        with self._lock:
            notices = tuple(self._notices)
            self._notices.clear()
        return notices

    def read_scaled_object(self, it: Object) -> Manifest | None:
        """Read a ScaledObject; None where it is no workload."""
        return self._read("ScaledObject", it)

    def read_autoscaler(self, it: Object) -> Manifest | None:
        """Read a HorizontalPodAutoscaler; None where it is not annotated to be observed."""
        return self._read("HorizontalPodAutoscaler", it)

    def _read(self, kind: str, it: Object) -> Manifest | None:
        """Read a manifest. KEDA patches a ScaledObject's status twice a minute: that alone costs no new reading."""
        metadata = part(it, "metadata")
        seen, generation = _seen(metadata), count(metadata, "generation")
        key = (text(metadata, "namespace"), text(metadata, "name"))
        held = self._claims.get((kind, key))
        if held is not None and generation and held.manifest.seen == seen:
            return held.manifest
        origin, live = Origin.HPA, None
        if kind == "ScaledObject":
            origin, live = Origin.DECIDED, self._settings_of(it)
        if live is None:
            origin = Origin.OBSERVED if kind == "ScaledObject" else Origin.HPA
            live = self._observed_workload(it)
        if live is None:
            return None
        return Manifest(text(metadata, "uid"), time_of(metadata, "creationTimestamp") or 0.0, seen, origin, live)

    # What the sinks do.

    def replace(self, kind: str, manifests: Mapping[Key, Manifest], namespace: str) -> None:
        """Take a list over."""
        with self._lock:
            for held_kind, key in tuple(self._claims):
                if held_kind == kind and (not namespace or key[0] == namespace) and key not in manifests:
                    self._drop(kind, key)
            for key, manifest in manifests.items():
                self._take(kind, key, manifest)

    def put(self, kind: str, key: Key, manifest: Manifest) -> None:
        """Take a new or changed manifest."""
        with self._lock:
            self._take(kind, key, manifest)

    def remove(self, kind: str, key: Key) -> None:
        """Forget a manifest, and with it the workload."""
        with self._lock:
            self._drop(kind, key)

    def _take(self, kind: str, key: Key, manifest: Manifest) -> None:
        held = self._claims.get((kind, key))
        if held is not None and held.manifest is manifest:
            return
        same = held is not None and held.manifest.uid == manifest.uid and held.manifest.origin == manifest.origin
        last = held.settings if held is not None and same else None
        claim = Claim(manifest, manifest.live.settings or last)
        self._claims[kind, key] = claim
        self._resolved = None
        self._notices.extend(_notices(held if same else None, claim))

    def _drop(self, kind: str, key: Key) -> None:
        if self._claims.pop((kind, key), None) is not None:
            self._resolved = None


class _Sink:
    """One kind's way into the workloads."""

    def __init__(self, workloads: Workloads, kind: str) -> None:
        self._workloads = workloads
        self._kind = kind

    def replace(self, objects: Mapping[Key, Manifest], namespace: str) -> None:
        """Take a list over."""
        self._workloads.replace(self._kind, objects, namespace)

    def put(self, key: Key, it: Manifest) -> None:
        """Take a new or changed manifest."""
        self._workloads.put(self._kind, key, it)

    def remove(self, key: Key) -> None:
        """Forget a manifest."""
        self._workloads.remove(self._kind, key)


def _asks_tolerance(settings: WorkloadSettings | None) -> bool:
    hpa = None if settings is None else settings.hpa
    return hpa is not None and not (hpa.tolerance_up is None and hpa.tolerance_down is None)


def _seen(metadata: Object) -> object:
    """Return what changes when a manifest's meaning may have: the generation of its spec, and annotations."""
    annotations = part(metadata, "annotations")
    ours = frozenset((k, v) for k, v in annotations.items() if k.startswith(_OUR_BUSINESS) and isinstance(v, str))
    return text(metadata, "uid"), count(metadata, "generation"), ours


def _resolve(decision: DecisionSettings, claims: Iterable[Claim], raised: Raise) -> Claims:
    """Say who has the say.

    Two objects on one target would move it in turn: the older one keeps it, and the other is refused. So it is with
    names: the HPA and the ScaledObject of one name are one workload, the ScaledObject's.
    """
    settings: dict[WorkloadId, WorkloadSettings] = {}
    targets: dict[WorkloadId, TargetRef] = {}
    refused: dict[WorkloadId, tuple[str, ...]] = {}
    taken: dict[tuple[str, str, str, str], WorkloadId] = {}
    named: dict[WorkloadId, Claim] = {}
    for claim in sorted(claims, key=_precedence):
        named.setdefault(claim.id, claim)
    for key, claim in named.items():
        problems, target = claim.problems, target_ref(claim.manifest.live.target, key.namespace)
        if target is None:
            problems += ("spec.scaleTargetRef must name what is scaled",)
        elif claim.settings is not None and (rival := taken.setdefault(target.resource, key)) != key:
            problems += (f"spec.scaleTargetRef must be nobody else's, was {target}, which {rival} scales",)
        elif claim.settings is not None:
            settings[key], targets[key] = raised(key, claim.settings), target
        if problems:
            refused[key] = problems
    ordered = tuple(settings[key] for key in sorted(settings))
    subjects = {key: claim.manifest.subject for key, claim in named.items()}
    return Claims(Policy(decision=decision, workloads=ordered), targets, refused, subjects)


def _precedence(claim: Claim) -> tuple[int, float, WorkloadId]:
    return claim.manifest.origin, claim.manifest.created_s, claim.id


def _notices(before: Claim | None, after: Claim) -> Iterator[Notice]:
    """Yield what a person should see of a manifest's change."""
    if before is not None and before.problems == after.problems:
        return
    if not after.problems:
        if before is not None:
            yield Notice(after.id, "SettingsAccepted", "the settings are valid again")
        return
    kept = "the last valid settings stay" if after.settings is not None else "Headway does not scale it"
    more = len(after.problems) - _SHOWN_PROBLEMS
    shown = "; ".join(after.problems[:_SHOWN_PROBLEMS]) + (f"; and {more} more" if more > 0 else "")
    if after.manifest.live.settings is None:
        yield Notice(after.id, "SettingsRefused", f"{kept}: {shown}"[:_MAX_MESSAGE_CHARS], warning=True)
    else:
        yield Notice(after.id, "Misconfigured", shown[:_MAX_MESSAGE_CHARS], warning=True)
