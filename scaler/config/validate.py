"""From a parsed document to a process configuration, and from there to the policy of the decision. Pure.

Every problem is found in one pass: those of the file's own keys, of each workload's metadata, of workloads that occur
twice, and of what the process's role needs and the file does not have.
"""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from scaler.config.metadata import ENGINES, MetadataErrors, parse_metadata, sees_demand_at_zero, workload_settings
from scaler.config.models import DecisionSettings, Policy, WorkloadSettings
from scaler.config.problems import ConfigurationError, Problem, plain, problems_of
from scaler.config.process import ProcessConfig, Role, WorkloadSection, texts
from scaler.config.scaled_objects import mapping
from scaler.config.sections import rule_problems

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
        found += _workload_problems(document.get("workloads"), timezones)
        found += _role_problems({*supplied, *(key for key in document if document[key] is not None)}, role)
    if config is None or found:
        raise ConfigurationError(dict.fromkeys(found))  # a broken rule may have been found twice
    return config


def policy_of(config: ProcessConfig) -> Policy:
    """Return what steers the decision: the platform's settings and each workload's own, metadata included."""
    decision = DecisionSettings.model_validate(config.decision.model_dump())
    return Policy(decision=decision, workloads=tuple(_settings(workload) for workload in config.workloads))


def _settings(workload: WorkloadSection, timezones: Collection[str] | None = None) -> WorkloadSettings:
    return workload_settings(
        workload.namespace,
        workload.name,
        parse_metadata(workload.metadata, timezones=timezones),
        min_replicas=workload.min_replicas,
        max_replicas=workload.max_replicas,
        mode=workload.mode,
    )


def _role_problems(given: Collection[str], role: Role | None) -> Iterator[Problem]:
    for key in NEEDED[role] if role else ():
        if key not in given:
            yield Problem((key,), f"must be given for headway {role}")


def _workload_problems(workloads: Any, timezones: Collection[str] | None) -> Iterator[Problem]:
    """Look into each workload by itself, whatever is wrong elsewhere. What is malformed was reported already."""
    seen: dict[tuple[str, str], int] = {}
    for index, raw in enumerate(workloads if isinstance(workloads, list) else ()):
        if not isinstance(raw, Mapping):
            continue
        yield from (problem.under("workloads", index) for problem in _problems_of_one(raw, timezones))
        yield from (problem.under("workloads", index) for problem in _asleep_for_ever(raw))
        key = (raw.get("namespace"), raw.get("name"))
        if not (isinstance(key[0], str) and isinstance(key[1], str)):
            continue
        first = seen.setdefault((key[0], key[1]), index)
        if first != index:
            message = f"must be unique within its namespace, was {plain(key[1])} as in workloads[{first}]"
            yield Problem(("workloads", index, "name"), message)


def _asleep_for_ever(raw: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield that a workload may go to zero although nothing would see that it is wanted there."""
    metadata = mapping(texts(raw.get("metadata")))
    engine = metadata.get("engine")
    unseen = engine is None or (engine in ENGINES and not sees_demand_at_zero(engine))
    if raw.get("minReplicas") == 0 and unseen and metadata.get("minReplicas", "0") == "0":
        message = "must be >= 1 where no source sees demand at zero replicas (engine rabbitmq does), was 0"
        yield Problem(("minReplicas",), message)


def _problems_of_one(raw: Mapping[str, Any], timezones: Collection[str] | None) -> tuple[Problem, ...]:
    """Return what is wrong with a workload's metadata, alone and against its bounds."""
    metadata = texts(raw.get("metadata") or {})
    if not isinstance(metadata, Mapping):
        return ()
    found: list[Problem] = []
    good = {key: value for key, value in metadata.items() if isinstance(value, str)}
    try:
        parse_metadata(good, timezones=timezones)
    except MetadataErrors as errors:
        found += errors.details
        bad = {problem.path[0] for problem in errors.details if problem.path}
        good = {key: value for key, value in good.items() if key not in bad} if bad else {}
    try:
        _settings(WorkloadSection.model_validate({**raw, "metadata": good}), timezones)
    except MetadataErrors as errors:
        found += errors.details
    except ValidationError:
        pass  # the workload's own keys: reported with the whole document
    return tuple(problem.under("metadata") for problem in found)
