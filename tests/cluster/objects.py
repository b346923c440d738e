"""Reading and writing a test cluster's objects, whatever their kind."""

import json
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic import DynamicClient

from tests.cluster import programs
from tests.cluster.processes import until

_MERGE = "application/merge-patch+json"
Manifest = Mapping[str, Any]


class Objects:
    """A client of a cluster, for any kind. Each thread talks over a connection of its own."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self._of_thread = threading.local()

    @property
    def _dynamic(self) -> DynamicClient:
        found: DynamicClient | None = getattr(self._of_thread, "client", None)
        if found is None:
            found = DynamicClient(_api_client(self.kubeconfig))  # type: ignore[no-untyped-call]
            self._of_thread.client = found
        return found

    def _resource(self, manifest: Manifest) -> Any:
        return self.kind(manifest["kind"], manifest["apiVersion"])

    def kind(self, kind: str, api_version: str) -> Any:
        """Return the dynamic client's handle of a kind."""
        return self._dynamic.resources.get(api_version=api_version, kind=kind)

    def apply(self, *manifests: Manifest) -> None:
        """Create these objects, or make them what is said, as `kubectl apply --server-side` does."""
        for manifest in manifests:
            metadata = manifest["metadata"]
            self._resource(manifest).server_side_apply(
                body=dict(manifest),
                name=metadata["name"],
                namespace=metadata.get("namespace"),
                field_manager="tests",
                force_conflicts=True,
            )

    def get(self, path: str) -> dict[str, Any] | None:
        """Return what the server has at a path (`/api/v1/nodes/a`), None if nothing."""
        try:
            answer = self._dynamic.request("get", path, serialize=False)
        except ApiException as error:
            if error.status == 404:
                return None
            raise
        return dict(json.loads(answer.data))

    def items(self, path: str) -> list[dict[str, Any]]:
        """Return the objects of a collection."""
        found = self.get(path)
        return [] if found is None else list(found["items"])

    def patch(self, kind: str, api_version: str, namespace: str | None, name: str, change: Manifest) -> None:
        """Change an object by a merge patch."""
        self.kind(kind, api_version).patch(body=dict(change), name=name, namespace=namespace, content_type=_MERGE)

    def patch_status(self, kind: str, api_version: str, namespace: str | None, name: str, change: Manifest) -> None:
        """Change an object's status, as the controller of its kind does."""
        status = self.kind(kind, api_version).status
        status.patch(body=dict(change), name=name, namespace=namespace, content_type=_MERGE)

    def delete(self, kind: str, api_version: str, namespace: str | None, name: str) -> None:
        """Delete an object, if it is there."""
        try:
            self.kind(kind, api_version).delete(name=name, namespace=namespace)
        except ApiException as error:
            if error.status != 404:
                raise

    def established(self, definition: str) -> bool:
        """Whether the server serves the kind of this CustomResourceDefinition."""
        return _condition(
            self.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{definition}"), "Established"
        )

    def available(self, service: str) -> bool:
        """Whether an aggregated API answers."""
        return _condition(self.get(f"/apis/apiregistration.k8s.io/v1/apiservices/{service}"), "Available")

    def namespace(self, name: str) -> None:
        """Create a namespace, and wait for its default service account, without which no pod is admitted."""
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        until(lambda: self.get(f"/api/v1/namespaces/{name}/serviceaccounts/default"), f"{name}'s service account")

    def token(self, namespace: str, account: str, seconds: int = 7200) -> str:
        """Ask for a token of a service account, as the kubelet does for a pod."""
        api = client.CoreV1Api(self._dynamic.client)
        request = client.AuthenticationV1TokenRequest(
            spec=client.V1TokenRequestSpec(audiences=[], expiration_seconds=seconds)
        )
        answer = api.create_namespaced_service_account_token(account, namespace, request)
        assert answer.status is not None
        return str(answer.status.token)

    def kubectl(self, *arguments: str) -> str:
        """Run the real kubectl, and return what it prints."""
        command = [str(programs.path("kubectl")), f"--kubeconfig={self.kubeconfig}", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout


def _condition(found: Manifest | None, kind: str) -> bool:
    conditions = ((found or {}).get("status") or {}).get("conditions") or []  # null in what was just created
    return any(each["type"] == kind and each["status"] == "True" for each in conditions)


def _api_client(kubeconfig: Path) -> client.ApiClient:
    made: client.ApiClient = config.new_client_from_config(config_file=str(kubeconfig))  # type: ignore[no-untyped-call]
    return made


class Deployments:
    """What tests look at most: the Deployments of one namespace."""

    def __init__(self, objects: Objects, namespace: str) -> None:
        self.objects = objects
        self.namespace = namespace

    def _path(self, name: str) -> str:
        return f"/apis/apps/v1/namespaces/{self.namespace}/deployments/{name}"

    def replicas(self, name: str) -> int:
        """Return how many replicas are asked for."""
        return int(self._found(name)["spec"]["replicas"])

    def ready(self, name: str) -> int:
        """Return how many replicas are ready."""
        return int(self._found(name)["status"].get("readyReplicas", 0))

    def _found(self, name: str) -> dict[str, Any]:
        found = self.objects.get(self._path(name))
        assert found is not None, f"no Deployment {self.namespace}/{name}"
        return found
