"""TLS of the scaler's port: certificates that are read again when their files change, and who a client is.

KEDA's client key lies in a Secret of KEDA's own namespace and its certificate comes from a dedicated CA, so a name in
that certificate tells KEDA from every tenant that can reach the port.
"""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import grpc
import structlog
from grpc import aio

_log = structlog.get_logger(__name__)

_SAN = "x509_subject_alternative_name"  # in grpc's authentication context: DNS names, addresses and URIs


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files. With `client_ca` a client needs a certificate of that CA which names one of `client_names` (mTLS)."""

    certificate: Path
    key: Path
    client_ca: Path | None = None
    client_names: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if (self.client_ca is None) != (not self.client_names):
            raise ValueError("client_ca and client_names must be set together: a CA alone admits all that it signs for")

    def read(self) -> "Pem":
        """Return the contents; OSError when a file cannot be read, ssl.SSLError when they do not fit together."""
        client_ca = None if self.client_ca is None else self.client_ca.read_bytes()
        pem = Pem(self.certificate.read_bytes(), self.key.read_bytes(), client_ca)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key, password="")
        if client_ca is not None:
            context.load_verify_locations(cadata=client_ca.decode("ascii"))
        return pem


@dataclass(frozen=True, slots=True)
class Pem:
    """The contents of the files at one moment."""

    certificate: bytes
    key: bytes
    client_ca: bytes | None

    def configuration(self) -> grpc.ServerCertificateConfiguration:
        """Return the form that grpc takes."""
        return grpc.ssl_server_certificate_configuration([(self.key, self.certificate)], self.client_ca)


class Certificates:
    """Follows the files. grpc asks at every handshake, from a thread of its own.

    New files that cannot be used (half written, the key of another certificate) are reported once, and the old ones
    stay in use. Connections that are open are not touched.
    """

    def __init__(self, files: TlsFiles) -> None:
        """Read the files a first time; ValueError when they cannot be used."""
        self._files = files
        self._problem = ""
        try:
            self._current = files.read()
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise ValueError(f"TLS files cannot be used: {error}") from error

    def credentials(self) -> grpc.ServerCredentials:
        """Return server credentials that follow the files."""
        mutual = self._files.client_ca is not None
        # None from the fetcher means "no change", which not every set of type stubs for grpc knows.
        fetch = cast("Callable[[], Any]", self._fetch)
        return grpc.dynamic_ssl_server_credentials(self._current.configuration(), fetch, mutual)

    def _fetch(self) -> grpc.ServerCertificateConfiguration | None:
        try:
            pem = self._files.read()
        except (OSError, ValueError) as error:
            self._failed(str(error))
            return None
        self._problem = ""
        if pem == self._current:
            return None
        self._current = pem
        _log.info("tls_reloaded", certificate=str(self._files.certificate))
        return pem.configuration()

    def _failed(self, problem: str) -> None:
        if problem != self._problem:
            _log.warning("tls_reload_failed", certificate=str(self._files.certificate), error=problem)
        self._problem = problem


def recognise(names: frozenset[str]) -> Callable[[aio.ServicerContext[Any, Any]], bool]:
    """Return a check whether the certificate of a caller names one of `names`."""
    allowed = {name.encode() for name in names}

    def named(context: aio.ServicerContext[Any, Any]) -> bool:
        return not allowed.isdisjoint(context.auth_context().get(_SAN, ()))

    return named
