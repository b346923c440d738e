"""KEDA's operator, metrics adapter and admission webhooks as processes, with the manifests of their release."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.cluster import programs
from tests.cluster.control_plane import ControlPlane, answers
from tests.cluster.objects import Objects
from tests.cluster.processes import Program, free_port, until

NAMESPACE = "keda"
_USER = "system:serviceaccount:keda:keda-operator"
_ENVIRONMENT = {"WATCH_NAMESPACE": "", "KEDA_CLUSTER_OBJECT_NAMESPACE": NAMESPACE, "POD_NAMESPACE": NAMESPACE}
# Manifests of the release that say who may do what; its Deployments are the processes below.
_MANIFESTS = ("crd/bases", "general", "service_account", "rbac", "metrics-server")
_KINDS = frozenset(
    (
        "CustomResourceDefinition",
        "Namespace",
        "ServiceAccount",
        "Role",
        "ClusterRole",
        "RoleBinding",
        "ClusterRoleBinding",
    )
)


@dataclass(frozen=True)
class Keda:
    """The three programs."""

    operator: Program
    adapter: Program
    webhooks: Program
    metrics_url: str  # what the operator exports about its scalers


def start(plane: ControlPlane, objects: Objects) -> Keda:
    """Apply the manifests, start the programs, and wait until the HPA can ask for external metrics."""
    objects.apply(*_manifests(programs.keda_manifests()))
    until(lambda: objects.established("scaledobjects.keda.sh"), "the ScaledObject's definition")
    certificates = _certificates(plane)
    config = plane.kubeconfig(_USER)
    operator, metrics_url, service = _start_operator(plane, config, certificates)
    adapter = _start_adapter(plane, objects, config, certificates, service)
    webhooks = _start_webhooks(plane, objects, config, certificates)
    return Keda(operator, adapter, webhooks, metrics_url)


def _manifests(folder: Path) -> Iterator[dict[str, Any]]:
    for part in _MANIFESTS:
        for path in sorted((folder / part).glob("*.yaml")):
            for document in yaml.safe_load_all(path.read_text()):
                if document and document.get("kind") in _KINDS:
                    yield document


def _certificates(plane: ControlPlane) -> Path:
    """Lay out one folder of certificates for the three, as their Secret does in a cluster."""
    folder = plane.folder / "keda-certs"
    folder.mkdir()
    hosts = (
        f"{name}.{NAMESPACE}.svc" for name in ("keda-operator", "keda-metrics-apiserver", "keda-admission-webhooks")
    )
    pair = plane.authority.server("keda", *hosts, "127.0.0.1", "localhost")
    (folder / "tls.crt").write_bytes(pair.certificate.read_bytes())
    (folder / "tls.key").write_bytes(pair.key.read_bytes())
    (folder / "ca.crt").write_bytes(plane.authority.certificate.read_bytes())
    return folder


def _start_operator(plane: ControlPlane, config: Path, certificates: Path) -> tuple[Program, str, str]:
    service, metrics, probes = (f"127.0.0.1:{free_port()}" for _ in range(3))
    program = plane.programs.start(
        "keda-operator",
        [
            programs.path("keda-operator"),
            f"--kubeconfig={config}",
            f"--cert-dir={certificates}",
            f"--metrics-service-bind-address={service}",
            f"--metrics-bind-address={metrics}",
            f"--health-probe-bind-address={probes}",
            "--kube-api-qps=200",  # hundreds of ScaledObjects are made at once here
            "--kube-api-burst=300",
            "--enable-high-cardinality-metrics-labels",  # its counters of calls then tell the namespaces apart
            "--zap-log-level=info",
        ],
        environment=_ENVIRONMENT,
        ready=answers(f"http://{probes}/readyz"),
    )
    return program, f"http://{metrics}/metrics", service


def _start_adapter(plane: ControlPlane, objects: Objects, config: Path, certificates: Path, service: str) -> Program:
    port = free_port()
    program = plane.programs.start(
        "keda-adapter",
        [
            programs.path("keda-adapter"),
            f"--kubeconfig={config}",
            f"--lister-kubeconfig={config}",
            f"--authentication-kubeconfig={config}",
            f"--authorization-kubeconfig={config}",
            f"--client-ca-file={plane.authority.certificate}",
            f"--cert-dir={certificates}",
            f"--tls-cert-file={certificates / 'tls.crt'}",
            f"--tls-private-key-file={certificates / 'tls.key'}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--port={free_port()}",
            f"--metrics-service-address={service}",
        ],
        environment={**_ENVIRONMENT, "KUBECONFIG": str(config)},
        ready=answers(
            f"https://127.0.0.1:{port}/readyz", plane.authority, plane.authority.client("prober", "system:masters")
        ),
    )
    objects.apply(_service("keda-metrics-apiserver"), _api_service(port, plane.authority.bundle))
    until(lambda: objects.available("v1beta1.external.metrics.k8s.io"), "the external metrics API to be available")
    return program


def _start_webhooks(plane: ControlPlane, objects: Objects, config: Path, certificates: Path) -> Program:
    port = free_port()
    probes = f"127.0.0.1:{free_port()}"
    program = plane.programs.start(
        "keda-webhooks",
        [
            programs.path("keda-webhooks"),
            f"--kubeconfig={config}",
            f"--cert-dir={certificates}",
            f"--port={port}",
            "--metrics-bind-address=0",
            f"--health-probe-bind-address={probes}",
        ],
        environment=_ENVIRONMENT,
        ready=answers(f"http://{probes}/readyz"),
    )
    path = programs.keda_manifests() / "webhooks" / "validation_webhooks.yaml"
    registration = yaml.safe_load(path.read_text())
    for webhook in registration["webhooks"]:
        webhook["failurePolicy"] = "Fail"  # the release ignores failures; here one must not pass unseen
        webhook["clientConfig"]["service"]["port"] = port
        webhook["clientConfig"]["caBundle"] = plane.authority.bundle
    objects.apply(_service("keda-admission-webhooks"), registration)
    return program


def _service(name: str) -> dict[str, Any]:
    """Return a Service that stands for a process of this machine: Endpoints must not point at loopback, names may."""
    spec = {"type": "ExternalName", "externalName": "localhost"}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def _api_service(port: int, bundle: str) -> Mapping[str, Any]:
    spec = {
        "service": {"name": "keda-metrics-apiserver", "namespace": NAMESPACE, "port": port},
        "group": "external.metrics.k8s.io",
        "version": "v1beta1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "caBundle": bundle,
    }
    metadata = {"name": "v1beta1.external.metrics.k8s.io"}
    return {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": metadata, "spec": spec}
