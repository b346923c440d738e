"""`headway check`: configuration files and Kubernetes manifests looked at together, every finding at once.

`check_files` reads; `check_documents` is pure. A document with `apiVersion` and `kind` is a manifest, which
`manifests.py` looks into; any other document is taken for a Headway configuration.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scaler.config.across import doubts
from scaler.config.findings import CheckReport, Finding, Severity
from scaler.config.keda_version import keda_version_note
from scaler.config.load import ConfigErrors, ConfigProblem, located, placed, read_yaml, timezones
from scaler.config.manifests import Manifests
from scaler.config.metadata import FROM_ENV, KEDA_KEYS, KEYS, MetadataErrors, parse_metadata, unscaled
from scaler.config.platform import Platform
from scaler.config.problems import ConfigurationError, KeyPath, Problem, did_you_mean
from scaler.config.process import texts
from scaler.config.scaled_objects import mapping
from scaler.config.validate import grants_in, validate_process
from scaler.config.yaml_documents import Document

CONTROLLER_KEYS = frozenset({"cluster", "sources", "profiles", "workloads"})  # a scaler needs none of them


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """One document and the file that it is from."""

    file: Path
    document: Document

    @property
    def is_manifest(self) -> bool:
        """Return whether it is a Kubernetes object rather than a configuration."""
        value = self.document.value
        return isinstance(value, Mapping) and "apiVersion" in value and "kind" in value


def check_files(paths: Iterable[Path], *, keda_version: str | None = None) -> CheckReport:
    """Read files and return all that is to be said about them, what could not be read included.

    `keda_version` is that of the cluster, such as `2.17.1`; None: look for it in the manifests.
    """
    files = tuple(paths)
    documents: list[SourceDocument] = []
    findings: list[Finding] = []
    for path in files:
        try:
            parsed = read_yaml(path)
        except ConfigErrors as errors:
            findings += map(_finding, errors.problems)
            continue
        findings += (_finding(located(path, problem)) for problem in parsed.problems)
        documents += (SourceDocument(path, document) for document in parsed.documents)
        if not parsed.problems and all(document.value is None for document in parsed.documents):
            findings.append(Finding(Severity.WARNING, str(path), 0, "", "has nothing in it: nothing was checked"))
    findings += check_documents(documents, timezones=timezones())
    if keda_version is not None and (note := keda_version_note(keda_version)):
        findings.append(Finding(note.severity, "--keda-version", 0, "", note.problem.message))
    return CheckReport.of(map(str, files), findings)


def check_documents(
    documents: Sequence[SourceDocument], *, timezones: Collection[str] | None = None
) -> Iterator[Finding]:
    """Yield all that is to be said about parsed documents.

    Which triggers are Headway's is known from `scaler.knownAs` of the configurations; without it all external ones are.
    What is granted is known from them too; without a configuration whatever is named is taken as granted.
    """
    configurations = [item for item in documents if not item.is_manifest and item.document.value is not None]
    for item in configurations:
        yield from _check_configuration(item, timezones)
    manifests = Manifests(_platform(configurations, timezones))
    for item in documents:
        if item.is_manifest:
            for path, manifest in _objects(item.document.value, ()):
                where = f"{item.file}:{item.document.line_of((*path, 'metadata', 'name'))}"
                notes = manifests.notes(manifest, where)
                yield from (_at(item, note.severity, note.problem.under(*path)) for note in notes)


def _platform(configurations: Sequence[SourceDocument], timezones: Collection[str] | None) -> Platform:
    """Return what the configurations say together. Grants are known from the one file of a controller."""
    values = [mapping(item.document.value) for item in configurations]
    addresses = frozenset(address for value in values for address in _known_as(value))
    granting = [value for value in values if not CONTROLLER_KEYS.isdisjoint(value)]
    grants = grants_in(granting[0]) if len(granting) == 1 else None
    return Platform(addresses=addresses, grants=grants, timezones=timezones)


def _check_configuration(item: SourceDocument, timezones: Collection[str] | None) -> Iterator[Finding]:
    value = item.document.value
    if not isinstance(value, Mapping):
        message = "must be a Headway configuration or a Kubernetes manifest"
        yield Finding(Severity.ERROR, str(item.file), item.document.line, "", message)
        return
    try:
        validate_process(value, base=item.file.parent, timezones=timezones)
    except ConfigurationError as errors:
        yield from (_finding(placed(item.file, item.document, problem)) for problem in errors.details)
    yield from (_at(item, Severity.WARNING, doubt) for doubt in doubts(value))
    workloads = value.get("workloads")
    if "kubernetes" in mapping(value.get("cluster")):
        return  # they have no metadata in the file
    for index, workload in enumerate(workloads if isinstance(workloads, list) else ()):
        if isinstance(workload, Mapping):
            oddities = _odd_metadata(workload.get("metadata"), timezones)
            yield from (_at(item, Severity.WARNING, p.under("workloads", index, "metadata")) for p in oddities)


def _odd_metadata(raw: Any, timezones: Collection[str] | None) -> Iterator[Problem]:
    """Yield what is odd about a workload's metadata and no error; what is malformed was reported already."""
    metadata = mapping(texts(raw))
    for key in metadata:
        if key not in KEYS and key not in KEDA_KEYS and not key.endswith(FROM_ENV):
            yield Problem((key,), f"is not a known key{did_you_mean(key, KEYS)}")
    good = {key: value for key, value in metadata.items() if isinstance(value, str)}
    try:
        message = unscaled(parse_metadata(good, timezones=timezones))
    except MetadataErrors:
        return
    if message:
        yield Problem((), message)


def _known_as(configuration: Any) -> Iterator[str]:
    known = mapping(mapping(configuration).get("scaler")).get("knownAs")
    yield from (address for address in (known if isinstance(known, list) else ()) if isinstance(address, str))


def _objects(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, Mapping[str, Any]]]:
    """Yield a manifest, or each of the manifests in a `List`."""
    manifest = mapping(value)
    items = manifest.get("items")
    if manifest.get("kind") == "List" and isinstance(items, list):
        for index, inner in enumerate(items):
            yield from _objects(inner, (*path, "items", index))
    else:
        yield path, manifest


def _at(item: SourceDocument, severity: Severity, problem: Problem) -> Finding:
    place = placed(item.file, item.document, problem)
    return Finding(severity, place.file, place.line, place.key, place.message)


def _finding(problem: ConfigProblem) -> Finding:
    return Finding(Severity.ERROR, problem.file, problem.line, problem.key, problem.message)
