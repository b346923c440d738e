"""TLS of the scaler as a configuration file sets it: whom the real process answers."""

from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
import trustme
import yaml
from grpc import aio

from tests.roles_rig import Keda, rig_in, until_answer

KEDA = "keda-operator.keda.svc"


class Certificates:
    """A CA of the scaler's and a dedicated one of KEDA's, as files for the configuration."""

    def __init__(self, folder: Path) -> None:
        self.servers, self.clients = trustme.CA(), trustme.CA()
        issued = self.servers.issue_cert("localhost")
        issued.private_key_pem.write_to_path(folder / "tls.key")
        for pem in issued.cert_chain_pems:
            pem.write_to_path(folder / "tls.crt", append=True)
        self.clients.cert_pem.write_to_path(folder / "ca.crt")
        self.section = {
            "certFile": "tls.crt",
            "keyFile": "tls.key",
            "clientCaFile": "ca.crt",
            "allowedClientNames": [KEDA],
        }

    def of_client(self, name: str | None) -> grpc.ChannelCredentials:
        """Return what a client connects with that shows a certificate of that name, or none."""
        trusted = self.servers.cert_pem.bytes()
        if name is None:
            return grpc.ssl_channel_credentials(trusted)
        issued = self.clients.issue_cert(name)
        chain = b"".join(pem.bytes() for pem in issued.cert_chain_pems)
        return grpc.ssl_channel_credentials(trusted, issued.private_key_pem.bytes(), chain)


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[tuple[Certificates, str]]:
    """Run a controller, and a scaler with TLS from the file; give the certificates and where the scaler listens."""
    certificates = Certificates(tmp_path)
    async with rig_in(tmp_path) as rig:
        config = yaml.safe_load(rig.config.read_text())
        config["scaler"]["tls"] = certificates.section
        rig.config.write_text(yaml.safe_dump(config))
        await rig.start("controller")
        _, addresses = await rig.start("scaler")
        yield certificates, f"localhost:{addresses['grpc'].rpartition(':')[2]}"


async def test_the_file_says_who_may_ask(served: tuple[Certificates, str]) -> None:
    """The named client is answered; another name of the same CA, no certificate and plain text are refused."""
    certificates, target = served
    async with aio.secure_channel(target, certificates.of_client(KEDA)) as channel:
        assert await until_answer(Keda(channel).replicas, lambda a: a == 2, "the named client's answer") == 2
    async with aio.secure_channel(target, certificates.of_client("tenant.test")) as channel:
        assert await Keda(channel).replicas() is grpc.StatusCode.PERMISSION_DENIED
    async with aio.secure_channel(target, certificates.of_client(None)) as channel:
        assert await Keda(channel).replicas() is grpc.StatusCode.UNAVAILABLE
    async with aio.insecure_channel(target) as channel:
        assert await Keda(channel).replicas() is grpc.StatusCode.UNAVAILABLE
