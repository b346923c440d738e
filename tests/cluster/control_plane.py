"""etcd, kube-apiserver, kube-controller-manager and kube-scheduler on loopback, as a cluster has them.

What differs from a cluster of users is said where it is set: the HPA's period, mostly, so that tests need not wait.
"""

import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.cluster import programs
from tests.cluster.pki import Authority, KeyPair
from tests.cluster.processes import Program, Programs, free_port

HPA_PERIOD_S = 1  # 15 in a cluster of users
_AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


@dataclass(frozen=True)
class ControlPlane:
    """A control plane that runs."""

    folder: Path
    programs: Programs
    authority: Authority
    url: str
    admin: Path
    audit_log: Path
    api_server: Program
    controllers: Program

    def kubeconfig(self, user: str, group: str | None = None) -> Path:
        """Write a kubeconfig of this user, known by a certificate."""
        return kubeconfig(self.folder, self.url, self.authority, user, group)

    def kubeconfig_with_token(self, name: str, token: str) -> Path:
        """Write a kubeconfig whose user is known by a token, as a pod's service account is."""
        return _written(self.folder, name, self.url, self.authority, {"token": token})


def start(folder: Path, started: Programs, feature_gates: Mapping[str, bool] | None = None) -> ControlPlane:
    """Start the four programs, and wait until each says that it is ready."""
    authority = Authority(folder / "pki")
    gates = ",".join(f"{name}={str(on).lower()}" for name, on in (feature_gates or {}).items())
    etcd = _start_etcd(folder, started)
    url = f"https://127.0.0.1:{free_port()}"
    api_server = _start_api_server(folder, started, authority, url, etcd, gates)
    admin = kubeconfig(folder, url, authority, "admin", "system:masters")
    controllers = _start_controllers(folder, started, authority, url, gates)
    _start_scheduler(folder, started, authority, url)
    return ControlPlane(folder, started, authority, url, admin, folder / "audit.log", api_server, controllers)


def kubeconfig(folder: Path, url: str, authority: Authority, user: str, group: str | None = None) -> Path:
    """Write a kubeconfig of a user, known by a certificate."""
    pair = authority.client(user, group)
    known_by = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
    return _written(folder, user.replace(":", "-"), url, authority, known_by)


def _written(folder: Path, name: str, url: str, authority: Authority, known_by: Mapping[str, str]) -> Path:
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": url, "certificate-authority": str(authority.certificate)}}],
        "users": [{"name": name, "user": dict(known_by)}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
    }
    path = folder / f"{name}.kubeconfig"
    path.write_text(yaml.safe_dump(document))
    return path


def _start_etcd(folder: Path, started: Programs) -> str:
    client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    started.start(
        "etcd",
        [
            programs.path("etcd"),
            f"--data-dir={folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",  # a test's data need not survive the machine
            "--watch-progress-notify-interval=5s",  # as kubeadm sets it: bookmarks for kinds without events
            "--log-level=warn",
        ],
        ready=answers(f"{client}/health"),
    )
    return client


def _start_api_server(
    folder: Path, started: Programs, authority: Authority, url: str, etcd: str, gates: str
) -> Program:
    serving = authority.server("kube-apiserver", "127.0.0.1", "localhost", "kubernetes.default.svc")
    signing = authority.client("service-account-signing")
    front = authority.client("front-proxy-client")
    policy = folder / "audit-policy.yaml"
    policy.write_text(yaml.safe_dump(_AUDIT))
    return started.start(
        "kube-apiserver",
        [
            programs.path("kube-apiserver"),
            f"--etcd-servers={etcd}",
            "--bind-address=127.0.0.1",
            f"--secure-port={url.rsplit(':', 1)[1]}",
            f"--tls-cert-file={serving.certificate}",
            f"--tls-private-key-file={serving.key}",
            f"--client-ca-file={authority.certificate}",
            f"--service-account-key-file={signing.key}",
            f"--service-account-signing-key-file={signing.key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--authorization-mode=RBAC",
            # The aggregation layer, which carries KEDA's metrics to the HPA.
            f"--requestheader-client-ca-file={authority.certificate}",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-username-headers=X-Remote-User",
            f"--proxy-client-cert-file={front.certificate}",
            f"--proxy-client-key-file={front.key}",
            f"--audit-policy-file={policy}",
            f"--audit-log-path={folder / 'audit.log'}",
            *([f"--feature-gates={gates}"] if gates else []),
        ],
        ready=answers(f"{url}/readyz", authority, authority.client("prober", "system:masters")),
    )


def _start_controllers(folder: Path, started: Programs, authority: Authority, url: str, gates: str) -> Program:
    config = kubeconfig(folder, url, authority, "system:kube-controller-manager")
    port = free_port()
    return started.start(
        "kube-controller-manager",
        [
            programs.path("kube-controller-manager"),
            *_secure(config, port, authority, "kube-controller-manager"),
            f"--root-ca-file={authority.certificate}",
            f"--service-account-private-key-file={folder / 'pki' / 'service-account-signing.key'}",
            "--use-service-account-credentials",
            f"--horizontal-pod-autoscaler-sync-period={HPA_PERIOD_S}s",
            *([f"--feature-gates={gates}"] if gates else []),
        ],
        ready=answers(f"https://127.0.0.1:{port}/healthz", authority),
    )


def _start_scheduler(folder: Path, started: Programs, authority: Authority, url: str) -> None:
    config = kubeconfig(folder, url, authority, "system:kube-scheduler")
    port = free_port()
    started.start(
        "kube-scheduler",
        [programs.path("kube-scheduler"), *_secure(config, port, authority, "kube-scheduler")],
        ready=answers(f"https://127.0.0.1:{port}/healthz", authority),
    )


def _secure(config: Path, port: int, authority: Authority, name: str) -> list[str]:
    """Return the flags that the two have in common."""
    serving = authority.server(f"{name}-serving", "127.0.0.1", "localhost")
    return [
        f"--kubeconfig={config}",
        f"--authentication-kubeconfig={config}",
        f"--authorization-kubeconfig={config}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={serving.certificate}",
        f"--tls-private-key-file={serving.key}",
        "--leader-elect=false",
    ]


def answers(url: str, authority: Authority | None = None, client: KeyPair | None = None) -> Callable[[], bool]:
    """Return a probe that tells whether this address answers 200."""
    context = None
    if authority is not None:
        context = ssl.create_default_context(cafile=str(authority.certificate))
        if client is not None:
            context.load_cert_chain(client.certificate, client.key)

    def probe() -> bool:
        try:
            with urllib.request.urlopen(url, timeout=5, context=context) as answer:  # noqa: S310  # our own address
                return bool(answer.status == 200)
        except urllib.error.HTTPError as refusal:
            refusal.close()  # its connection would otherwise stay open until the error is collected
            return False
        except (urllib.error.URLError, OSError):
            return False

    return probe
