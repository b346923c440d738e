"""The parts of the file on what is outside: the cluster view, the plan store, leadership, and what is remembered."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field, WithJsonSchema

from scaler.config.durations import parse_duration
from scaler.config.fields import DNS_LABEL, Namespace, PositiveDuration, camel_key
from scaler.config.places import FilePath
from scaler.config.problems import Problem
from scaler.config.sections import Section, exactly_one

OWN_NAMESPACE = "headway"
JITTER_FACTOR = 1.2  # of client-go's leader election: a retry waits up to this much longer
MAX_SHARDS = 64

# Room is left for what Headway appends to it.
ObjectName = Annotated[
    str,
    Field(max_length=200, pattern=r"^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?$"),
    WithJsonSchema({"type": "string", "allowed": "the name of an object: at most 200 of a-z, 0-9 and '-'"}),
]

# As kubectl names a kind: its plural, and its group where it has one.
GroupResource = Annotated[
    str,
    Field(max_length=253, pattern=rf"^{DNS_LABEL}(?:\.{DNS_LABEL})*$"),
    WithJsonSchema({"type": "string", "allowed": "a kind as PLURAL.GROUP, such as rollouts.argoproj.io"}),
]
MAX_OTHER_TARGETS = 100


class KubernetesSection(Section):
    """The API server, and what is watched there. Without `kubeconfig` the process is a pod of that cluster."""

    kubeconfig: FilePath | None = None
    context: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    namespaces: tuple[Namespace, ...] = ()  # empty: all
    # Kinds that may be scaled besides Deployments and StatefulSets. None: whatever has a scale; empty: no others.
    other_targets: (
        Annotated[
            tuple[GroupResource, ...],
            Field(
                max_length=MAX_OTHER_TARGETS,
                json_schema_extra={"allowed": f"a list of at most {MAX_OTHER_TARGETS} kinds"},
            ),
        ]
        | None
    ) = None
    page_size: Annotated[int, Field(ge=1, le=10_000)] = 500  # objects of one page of a list
    connect_timeout_s: PositiveDuration = 5.0
    request_timeout_s: PositiveDuration = 30.0  # of one request that is no watch
    watch_timeout_s: PositiveDuration = 300.0  # after it a watch is opened anew; the server is asked to end it then

    @classmethod
    def rules(cls, given: Mapping[str, Any]) -> Iterator[str | Problem]:
        """Yield that a context is one of a kubeconfig file."""
        if "context" in given and "kubeconfig" not in given:
            yield "must give kubeconfig with context: the context is one of that file"


class ClusterSection(Section):
    """Which replicas exist: a file that something else keeps current, or the cluster itself."""

    file: FilePath | None = None
    kubernetes: KubernetesSection | None = None

    @classmethod
    def rules(cls, given: Mapping[str, Any]) -> Iterator[str | Problem]:
        """Yield that there must be one view."""
        yield from exactly_one(given, ("file", "kubernetes"))


class ConfigMapSection(Section):
    """The plan as ConfigMaps: an index, with the heartbeat in it, and shards, whose names begin with `name`."""

    namespace: Namespace = OWN_NAMESPACE
    name: ObjectName = "headway-plan"
    shards: Annotated[int, Field(ge=1, le=MAX_SHARDS)] = 8


class PlanStoreSection(Section):
    """Where the plan travels from controller to scalers."""

    file: FilePath | None = None
    config_map: ConfigMapSection | None = None

    @classmethod
    def rules(cls, given: Mapping[str, Any]) -> Iterator[str | Problem]:
        """Yield that there must be one store."""
        yield from exactly_one(given, ("file", "configMap"))


class LeaseSection(Section):
    """The Lease that one of several controllers holds. The durations mean what they mean to client-go."""

    namespace: Namespace = OWN_NAMESPACE
    name: ObjectName = "headway-controller"
    duration_s: PositiveDuration = 15.0  # a lease that was not renewed for this long may be taken
    renew_deadline_s: PositiveDuration = 10.0  # a holder that could not renew for this long leads no more
    retry_period_s: PositiveDuration = 2.0

    @classmethod
    def rules(cls, given: Mapping[str, Any]) -> Iterator[str | Problem]:
        """Yield that the durations are out of order: a holder must give up before another may take over."""
        duration_s, deadline_s, retry_s = (
            cls._seconds_of(given, name) for name in ("duration_s", "renew_deadline_s", "retry_period_s")
        )
        if deadline_s >= duration_s:
            yield Problem(("renewDeadline",), f"must be < duration ({duration_s:g}s), was {deadline_s:g}s")
        if retry_s * JITTER_FACTOR >= deadline_s:
            yield Problem(
                ("retryPeriod",),
                f"must be < renewDeadline / {JITTER_FACTOR} ({deadline_s / JITTER_FACTOR:.3g}s), was {retry_s:g}s",
            )

    @classmethod
    def _seconds_of(cls, given: Mapping[str, Any], name: str) -> float:
        """Return a duration of the file, or the default; that of one that is no duration was reported already."""
        default: float = cls.model_fields[name].default
        value = given.get(camel_key(name), default)
        try:
            return parse_duration(value) if isinstance(value, str | int | float) else default
        except ValueError:
            return default


class LeadershipSection(Section):
    """How several controllers agree on one. Without it a controller takes itself for the only one."""

    lease: LeaseSection


class HistorySection(Section):
    """What was, read back from the metrics' Prometheus; what had to be backfilled is kept in a folder."""

    folder: FilePath
    lookback_s: PositiveDuration = 14 * 86_400.0
    backfill: bool = True  # ask kube-state-metrics for what Headway has not yet exported itself
    samples_per_minute: Annotated[int, Field(ge=1_000, le=1_000_000_000)] = 2_000_000  # of the backfill
    max_bytes: Annotated[int, Field(ge=2**20)] = 2 * 2**30  # of the folder
