"""Certificates where Headway and KEDA look for them: a mounted Secret, and one that a trigger authenticates with."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster import keda
from tests.cluster.pki import Authority, KeyPair

KEDA_NAME = "keda-operator.keda.svc"  # in the certificate of KEDA's client


@dataclass
class MountedSecret:
    """A Secret as a kubelet shows it to a pod: its files change all at once, by one symbolic link."""

    folder: Path
    _versions: int = 0

    def put(self, **files: bytes) -> None:
        """Replace the contents; names are written with `_` for `.`."""
        self._versions += 1
        version = self.folder / f"..{self._versions}"
        version.mkdir(parents=True)
        for name, content in files.items():
            dotted = name.replace("_", ".")
            (version / dotted).write_bytes(content)
            if not (self.folder / dotted).is_symlink():
                (self.folder / dotted).symlink_to(Path("..data", dotted))
        swapped = self.folder / "..data_tmp"
        swapped.symlink_to(version.name)
        swapped.replace(self.folder / "..data")


def server_files(pair: KeyPair, *clients: Authority) -> dict[str, bytes]:
    """Return the files of a scaler with this certificate that trusts the clients of these authorities."""
    files = {"tls_crt": pair.certificate.read_bytes(), "tls_key": pair.key.read_bytes()}
    return files | ({"ca_crt": bundle(*clients)} if clients else {})


def bundle(*authorities: Authority) -> bytes:
    """Return the certificates of authorities, all of which are to be trusted."""
    return b"".join(each.certificate.read_bytes() for each in authorities)


def client_parameters(*servers: Authority, pair: KeyPair | None = None) -> dict[str, bytes]:
    """Return what KEDA's client takes: whom it trusts, and the certificate that it shows."""
    shown = (
        {} if pair is None else {"tlsClientCert": pair.certificate.read_bytes(), "tlsClientKey": pair.key.read_bytes()}
    )
    return {"caCert": bundle(*servers), **shown}


def secret(name: str, parameters: Mapping[str, bytes], namespace: str = keda.NAMESPACE) -> dict[str, Any]:
    """Return a Secret of these parameters; without a namespace it is KEDA's own, which tenants cannot read."""
    data = {key: base64.b64encode(value).decode() for key, value in parameters.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}, "data": data}


def authentication(name: str, parameters: Mapping[str, bytes], namespace: str | None = None) -> dict[str, Any]:
    """Return what hands out the Secret of the same name: to a namespace, or to all of the cluster without one."""
    kind, scope = (
        ("ClusterTriggerAuthentication", {})
        if namespace is None
        else ("TriggerAuthentication", {"namespace": namespace})
    )
    references = [{"parameter": key, "name": name, "key": key} for key in parameters]
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, **scope},
        "spec": {"secretTargetRef": references},
    }
