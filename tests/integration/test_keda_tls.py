"""TLS on the scaler's port: who is let in, and certificates that change while it serves."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
import trustme
from grpc import aio
from prometheus_client import CollectorRegistry

from external_scaler_proto.externalscaler_pb2_grpc import ExternalScalerStub
from scaler.adapters.keda.holder import PlanHolder
from scaler.adapters.keda.server import ScalerServer, ServerSettings
from scaler.adapters.keda.tls import TlsFiles
from tests.scaler_rig import (
    CHANNEL_OPTIONS,
    CHAT,
    LOOPBACK,
    ManualClock,
    accept_anything,
    answer,
    read,
    reference,
    stored,
    value,
)

KEDA = "keda-operator.keda.svc"


class Pki:
    """A CA for servers, a dedicated one for clients, and the files that the scaler reads."""

    def __init__(self, folder: Path) -> None:
        self.servers = trustme.CA()
        self.clients = trustme.CA()
        self.files = TlsFiles(
            certificate=folder / "tls.crt",
            key=folder / "tls.key",
            client_ca=folder / "ca.crt",
            client_names=frozenset({KEDA}),
        )
        self.write_server(self.servers.issue_cert("localhost"))
        self.write_client_ca(self.clients)

    def write_server(self, issued: trustme.LeafCert) -> None:
        self.files.key.write_bytes(issued.private_key_pem.bytes())
        self.files.certificate.write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))

    def write_client_ca(self, ca: trustme.CA) -> None:
        assert self.files.client_ca is not None
        self.files.client_ca.write_bytes(ca.cert_pem.bytes())

    def client(self, issued: trustme.LeafCert | None, trusts: trustme.CA | None = None) -> grpc.ChannelCredentials:
        """Return what a client connects with: its own certificate, and the servers that it trusts."""
        trusted = (trusts or self.servers).cert_pem.bytes()
        if issued is None:
            return grpc.ssl_channel_credentials(trusted)
        chain = b"".join(pem.bytes() for pem in issued.cert_chain_pems)
        return grpc.ssl_channel_credentials(trusted, issued.private_key_pem.bytes(), chain)


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    return Pki(tmp_path)


@asynccontextmanager
async def serving_tls(files: TlsFiles) -> AsyncIterator[ScalerServer]:
    """Serve a plan behind TLS."""
    holder = PlanHolder(ManualClock())
    holder.accept(stored({CHAT: answer(7)}))
    settings = ServerSettings(LOOPBACK, tls=files)
    async with ScalerServer(holder, settings, CollectorRegistry(), validate=accept_anything) as server:
        yield server


@asynccontextmanager
async def connected(server: ScalerServer, credentials: grpc.ChannelCredentials) -> AsyncIterator[ExternalScalerStub]:
    """Open a connection of its own."""
    target = f"localhost:{server.port}"
    async with aio.secure_channel(target, credentials, options=CHANNEL_OPTIONS) as channel:
        yield ExternalScalerStub(channel)


async def ask(server: ScalerServer, credentials: grpc.ChannelCredentials) -> float | grpc.StatusCode:
    """Return what a new connection is told: the value, or the status that it fails with."""
    async with connected(server, credentials) as stub:
        try:
            return await value(stub)
        except aio.AioRpcError as error:
            return error.code()


async def test_keda_is_recognised(pki: Pki) -> None:
    """A client whose certificate names KEDA, among others, is answered."""
    async with serving_tls(pki.files) as server:
        assert await ask(server, pki.client(pki.clients.issue_cert("other.test", KEDA))) == 7


async def test_another_name_of_the_right_ca(pki: Pki) -> None:
    """It is refused everything, streams too: a CA may have issued certificates to others."""
    async with (
        serving_tls(pki.files) as server,
        connected(server, pki.client(pki.clients.issue_cert("tenant.test"))) as stub,
    ):
        for call in (stub.GetMetricSpec(reference()), stub.IsActive(reference()), value(stub)):
            with pytest.raises(aio.AioRpcError) as caught:
                await call
            assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
        for reading in (read(stub.StreamIsActive(reference())), read(stub.StreamMetricSpec(reference()))):
            with pytest.raises(aio.AioRpcError) as caught:
                await reading
            assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED


async def test_the_right_name_of_another_ca(pki: Pki) -> None:
    """Anybody can write a name into a certificate; the CA is what makes it count."""
    async with serving_tls(pki.files) as server:
        forged = pki.client(trustme.CA().issue_cert(KEDA))
        assert await ask(server, forged) is grpc.StatusCode.UNAVAILABLE
        assert await ask(server, pki.client(None)) is grpc.StatusCode.UNAVAILABLE


async def test_plain_text_is_not_answered(pki: Pki) -> None:
    """A client without TLS gets nothing."""
    async with (
        serving_tls(pki.files) as server,
        aio.insecure_channel(f"localhost:{server.port}", options=CHANNEL_OPTIONS) as channel,
    ):
        with pytest.raises(aio.AioRpcError):
            await value(ExternalScalerStub(channel))


async def test_tls_without_client_certificates(pki: Pki) -> None:
    """Without a client CA the port is private to whoever trusts its certificate, and asks for none."""
    files = TlsFiles(pki.files.certificate, pki.files.key)
    async with serving_tls(files) as server:
        assert await ask(server, pki.client(None)) == 7


async def test_certificates_are_read_again(pki: Pki) -> None:
    """A renewed certificate and a replaced client CA count from the next connection on; open ones stay."""
    keda = pki.client(pki.clients.issue_cert(KEDA))
    async with serving_tls(pki.files) as server, connected(server, keda) as before:
        assert await value(before) == 7
        new_servers, new_clients = trustme.CA(), trustme.CA()
        pki.write_server(new_servers.issue_cert("localhost"))
        pki.write_client_ca(new_clients)
        renewed = pki.client(new_clients.issue_cert(KEDA), trusts=new_servers)
        assert await ask(server, renewed) == 7
        assert await ask(server, keda) is grpc.StatusCode.UNAVAILABLE
        assert await value(before) == 7


@pytest.mark.parametrize("content", [b"", b"not a certificate", None])
async def test_files_that_cannot_be_used_change_nothing(pki: Pki, content: bytes | None) -> None:
    """A renewal that is half done is waited out with the old certificate, and taken when it is whole."""
    keda = pki.clients.issue_cert(KEDA)
    async with serving_tls(pki.files) as server:
        if content is None:
            pki.files.certificate.unlink()
        else:
            pki.files.certificate.write_bytes(content)
        assert await ask(server, pki.client(keda)) == 7
        renewed = trustme.CA()
        pki.write_server(renewed.issue_cert("localhost"))
        assert await ask(server, pki.client(keda, trusts=renewed)) == 7


async def test_a_key_of_another_certificate_changes_nothing(pki: Pki) -> None:
    """Between the two writes of a renewal key and certificate do not fit; clients do not notice."""
    async with serving_tls(pki.files) as server:
        pki.files.key.write_bytes(pki.servers.issue_cert("localhost").private_key_pem.bytes())
        assert await ask(server, pki.client(pki.clients.issue_cert(KEDA))) == 7


def test_a_start_with_unusable_files_fails(pki: Pki) -> None:
    """There is nothing older to fall back to."""
    pki.files.key.write_text("not a key")
    settings = ServerSettings(LOOPBACK, tls=pki.files)
    with pytest.raises(ValueError, match="TLS files cannot be used"):
        ScalerServer(PlanHolder(ManualClock()), settings, CollectorRegistry(), validate=accept_anything)


@pytest.mark.parametrize("names", [frozenset(), frozenset({KEDA})])
def test_a_ca_and_names_go_together(pki: Pki, names: frozenset[str]) -> None:
    """A CA without names would let in everybody that it vouches for; names without a CA nobody checks."""
    with pytest.raises(ValueError, match="client_ca and client_names must be set together"):
        TlsFiles(pki.files.certificate, pki.files.key, None if names else pki.files.client_ca, names)
