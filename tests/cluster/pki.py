"""The certificates of a test cluster, made when it starts."""

import base64
from dataclasses import dataclass
from pathlib import Path

import trustme


@dataclass(frozen=True)
class KeyPair:
    """PEM files of a certificate and its key."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority whose files are in a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._authority = trustme.CA()
        self.certificate = folder / "ca.crt"
        self._authority.cert_pem.write_to_path(str(self.certificate))

    @property
    def bundle(self) -> str:
        """The authority's certificate as manifests carry it."""
        return base64.b64encode(self.certificate.read_bytes()).decode()

    def server(self, name: str, *hosts: str) -> KeyPair:
        """Issue a certificate for these host names and addresses."""
        return self._written(name, self._authority.issue_cert(*hosts))

    def client(self, user: str, group: str | None = None) -> KeyPair:
        """Issue a certificate that makes its holder this user of this group."""
        # Go refuses the empty list of alternative names that trustme would write.
        leaf = self._authority.issue_cert("client.test", common_name=user, organization_name=group)
        return self._written(user.replace(":", "-"), leaf)

    def _written(self, name: str, leaf: trustme.LeafCert) -> KeyPair:
        pair = KeyPair(self.folder / f"{name}.crt", self.folder / f"{name}.key")
        pair.certificate.write_bytes(b"".join(each.bytes() for each in leaf.cert_chain_pems))
        leaf.private_key_pem.write_to_path(str(pair.key))
        return pair
