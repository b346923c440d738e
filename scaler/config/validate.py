"""From a parsed document to a process configuration, and from there to the policy of the decision. Pure.

Every problem is found in one pass: those of the file's own keys, of each workload's metadata, of workloads that occur
twice, and of what the process's role needs and the file does not have.
"""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from scaler.config.across import conflicts
from scaler.config.fields import camel_key
from scaler.config.grants import Broker, Grants, grant_problems
from scaler.config.metadata import SLEEPLESS, MetadataErrors, ParsedMetadata, parse_metadata, sees_demand_at_zero
from scaler.config.models import DecisionSettings, Policy, WorkloadSettings
from scaler.config.platform import Platform
from scaler.config.problems import ConfigurationError, Problem, plain, problems_of
from scaler.config.process import ProcessConfig, Role, WorkloadSection, texts
from scaler.config.sections import keys_given, rule_problems
from scaler.config.settings import workload_settings

WORKLOAD_KEYS = frozenset(camel_key(name) for name in WorkloadSection.model_fields)
# What a role cannot do without. `serve` starts both roles, so it can give them a plan store of its own.
NEEDED: Mapping[Role, tuple[str, ...]] = {
    Role.SERVE: ("metrics", "cluster"),
    Role.CONTROLLER: ("metrics", "cluster", "planStore"),
    Role.SCALER: ("planStore",),
}


def validate_process(
    document: Any,
    *,
    base: Path,
    role: Role | None = None,
    supplied: Collection[str] = (),
    timezones: Collection[str] | None = None,
) -> ProcessConfig:
    """Return the configuration that a document holds; ConfigurationError with all that is wrong with it.

    `base` is the folder that relative paths start from. Without a role nothing is missing for one; `supplied` are
    keys that come from elsewhere, such as the command line. `timezones` are the IANA names that exist, None to check
    their form only.
    """
    document = {} if document is None else document
    found: list[Problem] = []
    config = None
    try:
        config = ProcessConfig.model_validate(document, context={"base": base})
    except ValidationError as error:
        found += problems_of(error, ProcessConfig)
    if isinstance(document, Mapping):
        found += rule_problems(ProcessConfig, document)
        found += grant_problems(document)
        found += conflicts(document)
        found += _workload_problems(document, timezones)
        found += _role_problems({*supplied, *(key for key in document if document[key] is not None)}, role)
    if config is None or found:
        raise ConfigurationError(dict.fromkeys(found))  # a broken rule may have been found twice
    return config


def policy_of(config: ProcessConfig) -> Policy:
    """Return what steers the decision: the platform's settings and each workload's own, metadata included.

    With `cluster.kubernetes` the workloads are those of the cluster, and none is in the file.
    """
    decision = DecisionSettings.model_validate(config.decision.model_dump())
    if config.cluster is not None and config.cluster.kubernetes is not None:
        return Policy(decision=decision)
    grants = grants_of(config)
    return Policy(decision=decision, workloads=tuple(_settings(workload, grants) for workload in config.workloads))


def platform_of(config: ProcessConfig, *, timezones: Collection[str] | None = None) -> Platform:
    """Return what the workloads of a cluster are read against; `timezones` are the IANA names that exist."""
    return Platform(
        addresses=frozenset(config.scaler.known_as),
        grants=grants_of(config),
        modes={(w.namespace, w.name): w.mode for w in config.workloads if w.mode is not None},
        timezones=timezones,
    )


def grants_of(config: ProcessConfig) -> Grants:
    """Return what the file grants to each namespace."""
    return Grants.of(config.sources, config.profiles, Broker(config.broker.vhost, config.broker.prefetch))


def grants_in(document: Mapping[str, Any]) -> Grants | None:
    """Return what a document grants; None while something is wrong with that, so that no error comes of another."""
    parts = {key: document[key] for key in ("sources", "profiles", "broker") if document.get(key) is not None}
    try:
        config = ProcessConfig.model_validate(parts)
    except ValidationError:
        return None
    return None if any(grant_problems(parts)) else grants_of(config)


def _settings(workload: WorkloadSection, grants: Grants, timezones: Collection[str] | None = None) -> WorkloadSettings:
    return workload_settings(
        workload.namespace,
        workload.name,
        parse_metadata(workload.metadata, timezones=timezones),
        min_replicas=workload.min_replicas,
        max_replicas=workload.max_replicas,
        mode=workload.mode,
        grants=grants,
    )


def _role_problems(given: Collection[str], role: Role | None) -> Iterator[Problem]:
    for key in NEEDED[role] if role else ():
        if key not in given:
            yield Problem((key,), f"must be given for headway {role}")


def _workload_problems(document: Mapping[str, Any], timezones: Collection[str] | None) -> Iterator[Problem]:
    """Look into each workload by itself, whatever is wrong elsewhere. What is malformed was reported already."""
    workloads = document.get("workloads")
    in_cluster = "kubernetes" in keys_given(document.get("cluster"))
    grants = grants_in(document)
    seen: dict[tuple[str, str], int] = {}
    for index, raw in enumerate(workloads if isinstance(workloads, list) else ()):
        if not isinstance(raw, Mapping):
            continue
        found = _mode_alone(raw) if in_cluster else _problems_of_one(raw, grants, timezones)
        yield from (problem.under("workloads", index) for problem in found)
        key = (raw.get("namespace"), raw.get("name"))
        if not (isinstance(key[0], str) and isinstance(key[1], str)):
            continue
        first = seen.setdefault((key[0], key[1]), index)
        if first != index:
            message = f"must be unique within its namespace, was {plain(key[1])} as in workloads[{first}]"
            yield Problem(("workloads", index, "name"), message)


def _mode_alone(raw: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what a workload of the cluster cannot have in the file: two places would say two things."""
    for key in raw:
        if key in WORKLOAD_KEYS - {"namespace", "name", "mode"}:
            message = "must be left out with cluster.kubernetes: the ScaledObject says it, the file only the mode"
            yield Problem((key,), message)
    if raw.get("mode") is None:
        yield Problem(("mode",), "must be given with cluster.kubernetes: there it is all that an entry is for")


def _problems_of_one(
    raw: Mapping[str, Any], grants: Grants | None, timezones: Collection[str] | None
) -> Iterator[Problem]:
    """Yield what is wrong with a workload's metadata, alone, against its bounds, and against what is granted."""
    metadata = texts(raw.get("metadata") or {})
    if not isinstance(metadata, Mapping):
        return
    found: list[Problem] = []
    good = {key: value for key, value in metadata.items() if isinstance(value, str)}
    try:
        parse_metadata(good, timezones=timezones)
    except MetadataErrors as errors:
        found += errors.details
        bad = {problem.path[0] for problem in errors.details if problem.path}
        good = {key: value for key, value in good.items() if key not in bad} if bad else {}
    found += _together(raw, good, None if found else grants, timezones)
    yield from (problem.under("metadata") for problem in found)
    if not found:
        yield from _asleep_for_ever(raw, parse_metadata(good))


def _together(
    raw: Mapping[str, Any], metadata: Mapping[str, str], grants: Grants | None, timezones: Collection[str] | None
) -> tuple[Problem, ...]:
    """Return what is wrong between a workload's keys. Without grants nothing is looked up among them."""
    if grants is None:
        metadata = {key: value for key, value in metadata.items() if key not in {"engine", "source"}}
    try:
        _settings(WorkloadSection.model_validate({**raw, "metadata": metadata}), grants or Grants(), timezones)
    except MetadataErrors as errors:
        return errors.details
    except ValidationError:
        pass  # the workload's own keys: reported with the whole document
    return ()


def _asleep_for_ever(raw: Mapping[str, Any], metadata: ParsedMetadata) -> Iterator[Problem]:
    """Yield that a workload may go to zero although nothing would see that it is wanted there."""
    if raw.get("minReplicas") == 0 and not metadata.min_replicas and not sees_demand_at_zero(metadata):
        yield Problem(("minReplicas",), f"{SLEEPLESS}, was 0")
