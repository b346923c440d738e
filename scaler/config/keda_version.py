"""Whether the KEDA of a cluster is recent enough, from the version that its operator's Deployment shows. Pure."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from scaler.config.notes import Note, NoteReason, error, warning
from scaler.config.problems import plain
from scaler.config.scaled_objects import mapping

OLDEST_KEDA = (2, 17)  # it reads the float fields of the protocol, and enableTLS
OPERATOR = "keda-operator"
_VERSION = re.compile(r"v?(?P<major>[0-9]{1,4})\.(?P<minor>[0-9]{1,4})(?:[.+-].*)?")


def keda_version_note(version: str | None) -> Note | None:
    """Return what is to be said about a version such as `2.17.1` or `v2.18.0-rc1`; None: nothing.

    A version that cannot be told (None, `main`, a digest) is a warning.
    """
    oldest = ".".join(map(str, OLDEST_KEDA))
    match = None if version is None else _VERSION.fullmatch(version.strip())
    if version is None or match is None:
        was = "is not known" if version is None else f"was {plain(version)}"
        return warning(NoteReason.KEDA_VERSION, (), f"KEDA must be {oldest} or newer, its version {was}")
    if (int(match["major"]), int(match["minor"])) >= OLDEST_KEDA:
        return None
    message = f"KEDA must be {oldest} or newer, was {plain(version)}: it drops the fractions of what Headway answers"
    return error(NoteReason.KEDA_VERSION, (), message)


def is_keda_operator(manifest: Mapping[str, Any]) -> bool:
    """Return whether a manifest is the Deployment of KEDA's operator."""
    metadata = mapping(manifest.get("metadata"))
    labels = mapping(metadata.get("labels"))
    names = {metadata.get("name"), labels.get("app.kubernetes.io/name"), labels.get("app")} - {None}
    return manifest.get("kind") == "Deployment" and OPERATOR in {str(name) for name in names}


def keda_version_of(deployment: Mapping[str, Any]) -> str | None:
    """Return the version that the operator's Deployment shows: of its image's tag, else of its label; None: neither.

    The tag is what runs; the label is the chart's, and stays when somebody sets another image.
    """
    tags = [tag for image in _images(deployment) if (tag := _tag(image))]
    label = mapping(mapping(deployment.get("metadata")).get("labels")).get("app.kubernetes.io/version")
    named = [*tags, *([label] if isinstance(label, str) else [])]
    return next((version for version in named if _VERSION.fullmatch(version)), next(iter(named), None))


def _images(deployment: Mapping[str, Any]) -> Iterator[str]:
    template = mapping(mapping(deployment.get("spec")).get("template"))
    containers = mapping(template.get("spec")).get("containers")
    for container in containers if isinstance(containers, list) else ():
        image = mapping(container).get("image")
        if isinstance(image, str) and "keda" in image:
            yield image


def _tag(image: str) -> str:
    """Return the tag of `registry:5000/keda:2.17.0@sha256:...`; empty where it has none."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[2]
