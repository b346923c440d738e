"""Query profiles: how the platform tells Headway, in PromQL, what an engine or a queue of its own exposes.

A profile of kind `pod` gives the signals of a replica, one of kind `queue` those of a queue. The names of the signals
are the fields of `ReplicaReading` and `QueueReading`, as camelCase words without their units: rates are per second,
times are seconds, shares are 0 .. 1. PromQL comes from the platform's file alone, never from a ScaledObject.
"""

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, Field, WithJsonSchema

from scaler.config.fields import LABEL_NAME, NamespacePattern, camel_key
from scaler.config.problems import KeyPath, Problem, plain, shown
from scaler.config.sections import Section, keys_given

PREFIX = "profile:"  # `engine: profile:<name>` in trigger metadata
MAX_QUERY_CHARS = 4096
MAX_PROFILES = 100  # each signal of a profile in use is a query of every tick
PROFILE_NAME = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
OWNER_LABELS = ("namespace", "pod")

_GROUPING = re.compile(r"\bby\s*\(([^()]*)\)", re.IGNORECASE)
_QUOTED = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`""")
_COMMENT = re.compile(r"#[^\n]*")
_CLOSING = {")": "(", "]": "[", "}": "{"}


class ProfileKind(StrEnum):
    """What a profile's rows are about."""

    POD = "pod"
    QUEUE = "queue"


def _query(text: str) -> str:
    """Refuse what cannot be a query. Whether it is the right one only its answer shows."""
    text = text.strip()
    if not text:
        raise ValueError("must be a query in PromQL, was empty")
    if not text.replace("\n", "").replace("\t", "").isprintable():
        raise ValueError(f"must be printable text, was {shown(text)}")
    if not _balanced(bare(text)):
        raise ValueError(f"must close every bracket that it opens, was {shown(text)}")
    return text


def bare(query: str) -> str:
    """Return a query without what is quoted in it, and without its comments."""
    return _COMMENT.sub("", _QUOTED.sub("''", query))


def _balanced(text: str) -> bool:
    opened: list[str] = []
    for char in text:
        if char in _CLOSING.values():
            opened.append(char)
        elif char in _CLOSING and not (opened and opened.pop() == _CLOSING[char]):
            return False
    return not opened


QueryText = Annotated[
    str,
    Field(max_length=MAX_QUERY_CHARS),
    AfterValidator(_query),
    WithJsonSchema({"type": "string", "allowed": f"a query in PromQL of at most {MAX_QUERY_CHARS} characters"}),
]
LabelPair = Annotated[
    tuple[Annotated[str, Field(pattern=f"^{LABEL_NAME}$")], Annotated[str, Field(pattern=f"^{LABEL_NAME}$")]],
    WithJsonSchema(
        {
            "type": "array",
            "items": {"type": "string", "allowed": "the name of a label"},
            "minItems": 2,
            "maxItems": 2,
            "allowed": "the names of two labels",
        }
    ),
]
ProfileName = Annotated[
    str,
    Field(pattern=f"^{PROFILE_NAME}$"),
    WithJsonSchema({"type": "string", "allowed": "a name: at most 63 of a-z, 0-9 and '-'"}),
]


class ProfileSignal(Section):
    """One signal: an instant vector with one row for each owner. `scale` turns its unit into Headway's."""

    query: QueryText
    scale: Annotated[float, Field(gt=0, le=1e12)] = 1.0


# From the words of the file to the fields of the readings.
POD_FIELDS: Mapping[str, str] = {
    "running": "running",
    "waiting": "waiting",
    "kvUsage": "kv_usage",
    "completions": "completions_rps",
    "promptTokens": "prompt_tokens_rps",
    "outputTokens": "output_tokens_rps",
    "preemptions": "preemptions_rps",
    "rejections": "rejections_rps",
    "queueTime": "queue_time_s",
    "gpuActivity": "gpu_activity",
    "slots": "slots",
    "still": "still_s",
}
QUEUE_FIELDS: Mapping[str, str] = {
    "waiting": "waiting",
    "unacked": "unacked",
    "consumers": "consumers",
    "prefetch": "prefetch",
    "arrivals": "arrivals_rps",
    "completions": "completions_rps",
}
FIELDS: Mapping[ProfileKind, Mapping[str, str]] = {ProfileKind.POD: POD_FIELDS, ProfileKind.QUEUE: QUEUE_FIELDS}
# Without it nothing of an owner is known: a pod that is not among its rows is silent, a queue is out of sight.
NEEDED: Mapping[ProfileKind, str] = {ProfileKind.POD: "running", ProfileKind.QUEUE: "waiting"}


class ProfileSignals(Section):
    """A query for each signal; which of them a profile may give depends on its kind."""

    running: ProfileSignal | None = None  # requests in flight
    waiting: ProfileSignal | None = None  # requests that wait for capacity; messages ready for delivery
    kv_usage: ProfileSignal | None = None  # 0 .. 1
    completions: ProfileSignal | None = None  # per second, as all rates
    prompt_tokens: ProfileSignal | None = None
    output_tokens: ProfileSignal | None = None
    preemptions: ProfileSignal | None = None
    rejections: ProfileSignal | None = None  # requests refused
    queue_time: ProfileSignal | None = None  # seconds
    gpu_activity: ProfileSignal | None = None  # 0 .. 1
    slots: ProfileSignal | None = None  # requests that a replica works on at once, at most
    still: ProfileSignal | None = None  # seconds since any counter of the engine last moved
    unacked: ProfileSignal | None = None  # messages delivered and not yet acknowledged
    consumers: ProfileSignal | None = None
    prefetch: ProfileSignal | None = None  # messages that one consumer may hold
    arrivals: ProfileSignal | None = None


class QueryProfile(Section):
    """What an engine, or a kind of queue, exposes.

    `labels` are the two labels of each query's rows that name the owner: of kind `pod` the pod's namespace and name; of
    kind `queue` those whose values the source of a workload gives. `sampledAt` may give the Unix time in seconds of
    each owner's newest sample: the server evaluates a query over samples of up to five minutes ago without a word.
    """

    name: ProfileName
    kind: ProfileKind
    namespaces: tuple[NamespacePattern, ...] = ()  # that may use it
    labels: LabelPair = OWNER_LABELS
    signals: ProfileSignals
    sampled_at: QueryText | None = None

    @property
    def preset(self) -> str:
        """The name that `engine` and `SourceRef.preset` have for it."""
        return f"{PREFIX}{self.name}"

    @property
    def readings(self) -> Mapping[str, ProfileSignal]:
        """The signals that it gives, by the field of `ReplicaReading` or `QueueReading` that each fills."""
        signals = {camel_key(name): getattr(self.signals, name) for name in ProfileSignals.model_fields}
        return {field: signals[word] for word, field in FIELDS[self.kind].items() if signals[word] is not None}

    @classmethod
    def rules(cls, given: Mapping[str, Any]) -> Iterator[str | Problem]:
        """Yield which signals do not belong to the kind or are lacking, and which queries cannot name their owners."""
        words = keys_given(given.get("signals"))
        kind = given.get("kind")
        if isinstance(kind, str) and kind in FIELDS and isinstance(given.get("signals"), Mapping | ProfileSignals):
            yield from _signals_of(ProfileKind(kind), words)
        labels = given.get("labels", OWNER_LABELS)
        if not _are_two_texts(labels):
            return  # reported as of the wrong kind
        for path, query in [*_queries(words), (("sampledAt",), given.get("sampledAt"))]:
            if isinstance(query, str) and query.strip() and not _groups_by(query, labels):
                both = ", ".join(map(plain, labels))
                yield Problem(path, f"must group by both labels, such as sum by ({both}) (...), was {shown(query)}")


def _queries(words: Mapping[str, Any]) -> Iterator[tuple[KeyPath, Any]]:
    for name in ProfileSignals.model_fields:
        word = camel_key(name)
        yield ("signals", word, "query"), keys_given(words.get(word)).get("query")


def _signals_of(kind: ProfileKind, words: Mapping[str, Any]) -> Iterator[Problem]:
    known = {camel_key(name) for name in ProfileSignals.model_fields}
    for word in words:
        if word in known and word not in FIELDS[kind]:
            message = f"must be left out with kind {kind}, which has {', '.join(FIELDS[kind])}"
            yield Problem(("signals", word), message)
    if NEEDED[kind] not in words:
        yield Problem(("signals", NEEDED[kind]), f"must be given with kind {kind}")


def _are_two_texts(labels: Any) -> bool:
    return isinstance(labels, list | tuple) and [isinstance(label, str) for label in labels] == [True, True]


def _groups_by(query: str, labels: tuple[str, ...] | list[str]) -> bool:
    """Return whether some part of a query groups by all the labels: else its rows name no owner, or one twice."""
    groups = ({label.strip() for label in group.split(",")} for group in _GROUPING.findall(bare(query)))
    return any(group.issuperset(labels) for group in groups)
