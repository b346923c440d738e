"""TLS between KEDA's real client and Headway's scalers: whom each trusts, and certificates that change meanwhile."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.cluster.conftest import Tenant
from tests.cluster.headway import SETTLED_S, Headway, Role, installed
from tests.cluster.keda_reports import KedaReports, hpa_active, with_labels
from tests.cluster.pki import Authority, KeyPair
from tests.cluster.processes import until
from tests.cluster.relay import Relay, relaying
from tests.cluster.tls_files import (
    KEDA_NAME,
    MountedSecret,
    authentication,
    client_parameters,
    secret,
    server_files,
)
from tests.cluster.watching import lasts, stays, unchanged
from tests.cluster.workloads import deployment, scaled_object, with_authentication

_MANY = 4  # replicas that the load of a test needs


@dataclass(frozen=True)
class Secured:
    """A Headway whose scaler speaks TLS, behind a relay whose connections a test can cut."""

    tenant: Tenant
    headway: Headway
    scaler: Role
    relay: Relay
    mounted: MountedSecret
    folder: Path

    @property
    def reports(self) -> KedaReports:
        """What KEDA says of its calls."""
        return KedaReports(self.tenant.cluster.keda)

    @property
    def handed_out(self) -> str:
        """The name of what hands KEDA's own certificate to every namespace."""
        return self.tenant.headway

    def authority(self, name: str) -> Authority:
        """Make an authority."""
        return Authority(self.folder / name)

    def give_keda(self, parameters: Mapping[str, bytes]) -> None:
        """Put these into the Secret in KEDA's namespace that a ClusterTriggerAuthentication hands out."""
        self.tenant.cluster.objects.apply(
            secret(self.handed_out, parameters), authentication(self.handed_out, parameters)
        )

    def give_tenant(self, name: str, parameters: Mapping[str, bytes]) -> None:
        """Put these into a Secret of the tenant's own, with its TriggerAuthentication."""
        namespace = self.tenant.namespace
        self.tenant.cluster.objects.apply(
            secret(name, parameters, namespace), authentication(name, parameters, namespace)
        )

    def trigger(self, name: str, by: str, kind: str = "ClusterTriggerAuthentication", *, least: int = 1) -> None:
        """Make the ScaledObject of a workload authenticate itself so."""
        whole = scaled_object(self.tenant.namespace, name, self.headway.address, least=least, enableTLS="true")
        self.tenant.cluster.objects.apply(with_authentication(whole, by, kind))

    def load_for(self, replicas: int, *names: str) -> None:
        """Set the load that needs so many replicas."""
        for name in names:
            self.tenant.engines.load_for(self.tenant.namespace, name, replicas)

    def replicas(self, name: str = "chat") -> int:
        """Return how many replicas a Deployment is told to have."""
        return self.tenant.cluster.deployments(self.tenant.namespace).replicas(name)

    def reaches(self, replicas: int, name: str = "chat") -> None:
        """Wait until a Deployment has exactly so many replicas, all ready."""
        where = self.tenant.cluster.deployments(self.tenant.namespace)
        until(lambda: self.replicas(name) == replicas == where.ready(name), f"{replicas} ready replicas of {name}")

    def more_is_recommended(self, *names: str) -> None:
        """Wait until workloads have a target above what they have."""
        for name in names:
            until(partial(self._more_is_recommended, name), f"a target of {name} above its replicas")

    def _more_is_recommended(self, name: str) -> bool:
        return (self.target(name) or 0) > self.replicas(name)

    def target(self, name: str) -> int | None:
        """Return what is recommended for a workload now."""
        found = self.headway.recommendation(self.tenant.namespace, name)
        return None if found is None else found["target"]

    def hpa_active(self) -> bool:
        """Whether the HPA of the workload gets its metric."""
        return hpa_active(self.tenant.cluster.objects, self.tenant.namespace, "chat")

    def refusals(self) -> float:
        """Return how many calls were refused for the certificate that the client showed."""
        return self._counted("headway_scaler_rpcs_total", code="PERMISSION_DENIED")

    def open_streams(self) -> float:
        """Return how many push streams KEDA holds open."""
        return self._counted("headway_scaler_open_streams", rpc="StreamIsActive")

    def _counted(self, name: str, **labels: str) -> float:
        return sum(each.value for each in with_labels(self.headway.metrics(self.scaler), name, **labels))

    def reloads(self) -> int:
        """Return how often the scaler has taken up new files."""
        return self.scaler.program.log.read_text().count("tls_reloaded")

    def reconnects(self) -> None:
        """Cut KEDA's connections, and wait until it has a new one and three more answers over it."""
        accepted = self.relay.accepted
        self.relay.cut()
        until(lambda: self.relay.accepted > accepted, "a new connection")
        answered = self.reports.answered(self.tenant.namespace)
        until(lambda: self.reports.answered(self.tenant.namespace) >= answered + 3, "three more answers")


@contextmanager
def secured(tenant: Tenant, folder: Path, files: Mapping[str, bytes], *names: str) -> Iterator[Secured]:
    """Run a Headway whose scaler has these files, and Deployments of one replica each, which nothing scales yet."""
    mounted = MountedSecret(folder / "mounted")
    mounted.put(**files)
    section: dict[str, Any] = {"certFile": str(mounted.folder / "tls.crt"), "keyFile": str(mounted.folder / "tls.key")}
    if "ca_crt" in files:
        section |= {"clientCaFile": str(mounted.folder / "ca.crt"), "allowedClientNames": [KEDA_NAME]}
    watches = (tenant.namespace,)
    with (
        relaying() as relay,
        installed(
            tenant.cluster,
            folder,
            tenant.engines,
            namespace=tenant.headway,
            watches=watches,
            address=f"127.0.0.1:{relay.port}",
        ) as headway,
    ):
        headway.configuration["scaler"]["tls"] = section
        headway.controller()
        scaler = headway.scaler("127.0.0.1:0")
        relay.to_port = int(scaler.addresses["grpc"].rpartition(":")[2])
        tenant.cluster.objects.apply(*(deployment(tenant.namespace, name) for name in names))
        yield Secured(tenant, headway, scaler, relay, mounted, folder)


def _server(authority: Authority, name: str = "server") -> KeyPair:
    return authority.server(name, "127.0.0.1")


def test_keda_trusts_the_ca_that_a_tenant_names(tenant: Tenant, tmp_path: Path) -> None:
    """A workload whose TriggerAuthentication holds the server's CA scales; one that trusts another CA does not."""
    servers, strangers = Authority(tmp_path / "servers"), Authority(tmp_path / "strangers")
    with secured(tenant, tmp_path, server_files(_server(servers)), "chat", "misled") as secure:
        secure.load_for(_MANY, "chat", "misled")
        for name, trusted in (("chat", servers), ("misled", strangers)):
            secure.give_tenant(name, client_parameters(trusted))
            secure.trigger(name, name, "TriggerAuthentication")
        secure.reaches(_MANY)
        secure.more_is_recommended("misled")
        stays(lambda: secure.replicas("misled"), 1, for_s=3)


def test_only_keda_may_ask(tenant: Tenant, tmp_path: Path) -> None:
    """KEDA's own certificate scales; a tenant's of the same issuer is refused and none is not let in: nothing moves."""
    servers, clients = Authority(tmp_path / "servers"), Authority(tmp_path / "clients")
    own = client_parameters(servers, pair=clients.server("own", f"scaler.{tenant.namespace}.svc"))
    with secured(tenant, tmp_path, server_files(_server(servers), clients), "chat", "intruder", "bare") as secure:
        secure.give_keda(client_parameters(servers, pair=clients.server("keda", KEDA_NAME)))
        secure.give_tenant("own", own)
        secure.give_tenant("none", client_parameters(servers))
        for name in ("chat", "intruder", "bare"):
            secure.load_for(2, name)
            secure.trigger(name, secure.handed_out)
            secure.reaches(2, name)
        secure.trigger("intruder", "own", "TriggerAuthentication")
        until(secure.refusals, "a refusal of the tenant's own certificate")
        secure.trigger("bare", "none", "TriggerAuthentication")
        secure.load_for(_MANY, "chat", "intruder", "bare")
        with unchanged(lambda: (secure.replicas("intruder"), secure.replicas("bare")), (2, 2)):
            secure.reaches(_MANY)
            secure.more_is_recommended("intruder", "bare")
            refused = secure.refusals()
            until(lambda: secure.refusals() > refused + 3, "more refusals")


@contextmanager
def _scaled(secure: Secured, parameters: Mapping[str, bytes]) -> Iterator[None]:
    """Run what changes certificates while a workload is under load, and hold that nothing shows of it.

    Its replicas never change, its HPA stays active, and KEDA counts no look at it that failed.
    """
    secure.give_keda(parameters)
    secure.trigger("chat", secure.handed_out)
    secure.load_for(_MANY, "chat")
    secure.reaches(_MANY)
    until(secure.hpa_active, "the HPA to be active")
    lasts(lambda: (secure.target("chat"), secure.replicas()), (_MANY, _MANY), for_s=SETTLED_S)
    failed = secure.reports.failed_polls(secure.tenant.namespace)
    with unchanged(secure.replicas, _MANY), unchanged(secure.hpa_active, True):
        yield
    assert secure.reports.failed_polls(secure.tenant.namespace) == failed


def test_a_new_server_certificate_is_taken_up(tenant: Tenant, tmp_path: Path) -> None:
    """The scaler shows the new certificate at the next connection, without a restart, and no answer is missing."""
    servers = Authority(tmp_path / "servers")
    with secured(tenant, tmp_path, server_files(_server(servers)), "chat") as secure:
        with _scaled(secure, client_parameters(servers)):
            secure.mounted.put(**server_files(_server(servers, "next")))
            secure.reconnects()
            assert secure.reloads() == 1
            secure.reconnects()
        assert secure.reloads() == 1


def test_the_authority_of_the_server_can_change(tenant: Tenant, tmp_path: Path) -> None:
    """Both authorities in KEDA's Secret, then the server's certificate of the new one, then the old one taken away.

    KEDA reads the Secret again when a call fails, and asks again at once: the change costs no answer.
    """
    old, new = Authority(tmp_path / "old"), Authority(tmp_path / "new")
    with (
        secured(tenant, tmp_path, server_files(_server(old)), "chat") as secure,
        _scaled(secure, client_parameters(old)),
    ):
        secure.give_keda(client_parameters(old, new))
        secure.mounted.put(**server_files(_server(new)))
        secure.reconnects()
        assert secure.reloads() == 1
        secure.give_keda(client_parameters(new))
        secure.reconnects()


def test_the_client_and_its_authority_can_change(tenant: Tenant, tmp_path: Path) -> None:
    """The scaler trusts both authorities, then KEDA's Secret gets the new certificate, then the old one is taken away.

    From then on only the new certificate is let in, so the answers show that KEDA uses it.
    """
    servers, old, new = (Authority(tmp_path / name) for name in ("servers", "old", "new"))
    pair = _server(servers)
    first = client_parameters(servers, pair=old.server("keda", KEDA_NAME))
    with secured(tenant, tmp_path, server_files(pair, old), "chat") as secure, _scaled(secure, first):
        secure.mounted.put(**server_files(pair, old, new))
        secure.reconnects()
        secure.give_keda(client_parameters(servers, pair=new.server("keda", KEDA_NAME)))
        secure.mounted.put(**server_files(pair, new))
        secure.reconnects()
        assert secure.reloads() == 2


def test_a_push_goes_on_after_the_secret_has_changed(tenant: Tenant, tmp_path: Path) -> None:
    """KEDA's polls use the new certificate at once; its streams come back when the ScaledObject changes.

    KEDA 2.21 opens streams for the certificate with which the ScaledObject was last read, and for no later one.
    """
    servers, old, new = (Authority(tmp_path / name) for name in ("servers", "old", "new"))
    pair = _server(servers)
    with secured(tenant, tmp_path, server_files(pair, old), "chat") as secure:
        secure.give_keda(client_parameters(servers, pair=old.server("keda", KEDA_NAME)))
        secure.trigger("chat", secure.handed_out, least=0)
        secure.load_for(2, "chat")
        secure.reaches(2)
        secure.give_keda(client_parameters(servers, pair=new.server("keda", KEDA_NAME)))
        secure.mounted.put(**server_files(pair, new))
        secure.reconnects()
        secure.load_for(_MANY, "chat")
        secure.reaches(_MANY)
        change = {"spec": {"cooldownPeriod": 3}}
        tenant.cluster.objects.patch("ScaledObject", "keda.sh/v1alpha1", tenant.namespace, "chat", change)
        until(lambda: secure.open_streams() == 1, "the stream to be opened anew")
