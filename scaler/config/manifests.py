"""What is to be said about Kubernetes manifests, one after the other: each by itself, and against those before it."""

from collections.abc import Iterator, Mapping
from typing import Any

from scaler.config.guards import scaled_job_notes, scaled_object_notes
from scaler.config.keda_version import is_keda_operator, keda_version_note, keda_version_of
from scaler.config.notes import Note, NoteReason, warning
from scaler.config.observed import made_by_keda, mode_oddity, read_observed
from scaler.config.platform import Platform
from scaler.config.problems import plain
from scaler.config.rivals import Rivals
from scaler.config.scaled_objects import mapping


class Manifests:
    """The manifests of one check. Kinds that have nothing to do with Headway are passed over."""

    def __init__(self, platform: Platform) -> None:
        """Read them against what the platform says."""
        self._platform = platform
        self._rivals = Rivals()
        self._seen: dict[tuple[str, str], str] = {}

    def notes(self, manifest: Mapping[str, Any], where: str) -> Iterator[Note]:
        """Yield what is to be said about a manifest; `where` is its file and line."""
        match manifest.get("kind"):
            case "ScaledObject":
                yield from scaled_object_notes(manifest, self._platform)
                yield from self._autoscaler(manifest, where)
                yield from self._twin(manifest, where)
            case "HorizontalPodAutoscaler":
                if not made_by_keda(manifest):
                    yield from self._autoscaler(manifest, where)
            case "ScaledJob":
                yield from scaled_job_notes(manifest, self._platform)
            case "Deployment" if is_keda_operator(manifest):
                note = keda_version_note(keda_version_of(manifest))
                yield from (note.under("spec", "template", "spec", "containers"),) if note else ()

    def _autoscaler(self, manifest: Mapping[str, Any], where: str) -> Iterator[Note]:
        yield from mode_oddity(manifest)
        observed = read_observed(manifest, self._platform)
        yield from observed.notes if observed else ()
        rival = self._rivals.note(manifest, self._platform, where)
        yield from (rival,) if rival else ()

    def _twin(self, manifest: Mapping[str, Any], where: str) -> Iterator[Note]:
        """Two manifests of one name: the one applied last wins. It may be meant (one file per cluster), so it warns."""
        metadata = mapping(manifest.get("metadata"))
        if "name" not in metadata:
            return
        key = (str(metadata.get("namespace", "")), str(metadata["name"]))
        if key in self._seen:
            message = f"must be unique within its namespace, was {plain(key[1])} as in {self._seen[key]}"
            yield warning(NoteReason.NAME, ("metadata", "name"), message)
        self._seen.setdefault(key, where)
