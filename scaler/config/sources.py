"""Where work is seen before it reaches a replica, and which namespaces may use what is seen there.

An entry is granted by name: a ScaledObject says `source: <name>`, and the platform's file says what that is. One name
may mean different things in different namespaces, so that every team can call its own queue `jobs`.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field, WithJsonSchema

from scaler.config.fields import LABEL_NAME, NamespacePattern
from scaler.config.gateways import ROUTE_LABELS
from scaler.config.problems import Problem, did_you_mean, plain, shown
from scaler.config.profiles import ProfileName
from scaler.config.sections import Section, exactly_one

MAX_SOURCES = 20_000
MAX_NAME_CHARS = 253

SourceName = Annotated[
    str,
    Field(pattern=rf"^[!-~]{{1,{MAX_NAME_CHARS}}}$"),
    WithJsonSchema({"type": "string", "allowed": f"a name: at most {MAX_NAME_CHARS} characters without spaces"}),
]
LabelValue = Annotated[
    str,
    Field(min_length=1, max_length=512),
    WithJsonSchema({"type": "string", "allowed": "the value of a label: text of 1 .. 512 characters"}),
]
# Named apart from `Share` of the decision's settings, whose message would say nothing of what it is a share of.
QueueShare = Annotated[float, Field(gt=0, le=1)]
Prefetch = Annotated[int, Field(ge=1, le=65_535)]
Identity = Annotated[
    Mapping[Annotated[str, Field(pattern=f"^{LABEL_NAME}$")], LabelValue],
    WithJsonSchema(
        {
            "type": "object",
            "additionalProperties": {"type": "string", "allowed": "the value of a label: text of 1 .. 512 characters"},
            "allowed": "a mapping of two labels to their values",
        }
    ),
]


class QueueSource(Section):
    """A queue of the platform's broker."""

    queue: LabelValue
    vhost: LabelValue | None = None  # None: that of `broker`
    share: QueueShare = 1.0  # of the queue's work: the part of this cluster, where several consume it
    prefetch: Prefetch | None = None  # messages that one consumer may hold; None: that of `broker`


class RouteSource(Section):
    """A route of a gateway, by the two labels that name it among the gateway's series."""

    gateway: Annotated[str, WithJsonSchema({"type": "string", "enum": list(ROUTE_LABELS)})]
    labels: Identity

    @classmethod
    def rules(cls, given: Mapping[str, Any]) -> Iterator[str | Problem]:
        """Yield that the gateway is not known, or that the labels are not those that name its routes."""
        gateway = given.get("gateway")
        if not isinstance(gateway, str):
            return
        if gateway not in ROUTE_LABELS:
            hint = did_you_mean(gateway, ROUTE_LABELS)
            yield Problem(("gateway",), f"must be one of {', '.join(ROUTE_LABELS)}, was {shown(gateway)}{hint}")
        else:
            yield from wrong_labels(given.get("labels"), ROUTE_LABELS[gateway], f"gateway {gateway}")


class ProfileSource(Section):
    """A queue that a query profile of kind `queue` sees, by the values of the profile's two labels."""

    name: ProfileName
    labels: Identity
    share: QueueShare = 1.0
    prefetch: Prefetch | None = None


class SourceSection(Section):
    """One source, and the namespaces that may use it under this name: exactly one of queue, route, profile."""

    name: SourceName
    namespaces: Annotated[
        tuple[NamespacePattern, ...],
        Field(min_length=1, json_schema_extra={"allowed": "a list of at least one namespace or pattern of namespaces"}),
    ]
    queue: QueueSource | None = None
    route: RouteSource | None = None
    profile: ProfileSource | None = None

    @classmethod
    def rules(cls, given: Mapping[str, Any]) -> Iterator[str | Problem]:
        """Yield that an entry is one source and not several."""
        yield from exactly_one(given, ("queue", "route", "profile"))


def wrong_labels(labels: Any, wanted: tuple[str, ...], whose: str) -> Iterator[Problem]:
    """Yield what keeps the labels of a source from being exactly those that name it."""
    if not isinstance(labels, Mapping):
        return  # reported as of the wrong kind
    both = " and ".join(map(plain, wanted))
    for label in labels:
        if label not in wanted:
            message = f"must be {both} with {plain(whose)}{did_you_mean(str(label), wanted)}"
            yield Problem(("labels", label), message)
    for label in wanted:
        if label not in labels:
            yield Problem(("labels", label), f"must be given with {plain(whose)}")
