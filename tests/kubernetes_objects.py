"""Kubernetes objects as an API server returns them, for tests and the bench: `full_pod` has all that real pods have."""

from typing import Any

Json = dict[str, Any]
CREATED = "2026-01-01T00:00:00Z"
SCHEDULED = "2026-01-01T00:00:05Z"
READY = "2026-01-01T00:01:30Z"


def pod(
    name: str,
    *,
    namespace: str = "tenant",
    app: str = "engine",
    template: str = "7d9f8c6b5",
    owner: str | None = "ReplicaSet",
    phase: str = "Running",
    ready: bool = True,
    gated: bool = False,
    unschedulable: bool = False,
    terminating: bool = False,
    created: str = CREATED,
    node: str = "node-1",
    labels: dict[str, str] | None = None,
    gpus: int | None = None,
) -> Json:
    """Return a pod of the Deployment `app`, or controlled by something else, or (None) by nothing."""
    scheduled = not (gated or unschedulable)
    held = "SchedulingGated" if gated else "Unschedulable"
    metadata: Json = {
        "name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}", "creationTimestamp": created,
        "labels": {"app": app, "pod-template-hash": template, **(labels or {})},
    }  # fmt: skip
    if owner is not None:
        owner_name = f"{app}-{template}" if owner == "ReplicaSet" else app
        metadata["ownerReferences"] = [
            {"apiVersion": "apps/v1", "kind": owner, "name": owner_name, "uid": f"uid-{owner_name}", "controller": True}
        ]
    if terminating:
        metadata["deletionTimestamp"] = READY
    conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": SCHEDULED}]
    if not scheduled:
        conditions = [{"type": "PodScheduled", "status": "False", "reason": held, "lastTransitionTime": CREATED}]
    conditions.append({"type": "Ready", "status": str(ready and scheduled), "lastTransitionTime": READY})
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": {
            "containers": [_engine(gpus)],
            **({"nodeName": node} if scheduled else {}),
            **({"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]} if gated else {}),
        },
        "status": {"phase": phase if scheduled else "Pending", "podIP": "10.0.0.7", "conditions": conditions},
    }  # fmt: skip


def _engine(gpus: int | None) -> Json:
    limits = {"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}} if gpus is not None else {}
    return {"name": "engine", "ports": [{"containerPort": 8000, "protocol": "TCP"}], **limits}


def full_pod(workload: int, number: int, *, namespaces: int = 200) -> Json:
    """Return a pod as it comes from a big cluster: about 8 KB, most of it of no use to Headway."""
    app = f"model-{workload:05d}"
    name = f"{app}-7d9f8c6b5-{number:05d}"
    it = pod(
        name,
        namespace=f"team-{workload % namespaces:03d}",
        app=app,
        node=f"gpu-node-{(workload * 7 + number) % 2000:04d}",
    )
    it["metadata"] |= {"generateName": f"{app}-7d9f8c6b5-", "resourceVersion": str(10_000_000 + number)}
    it["metadata"]["labels"] |= {f"app.kubernetes.io/{key}": app for key in ("name", "instance", "version", "part-of")}
    it["metadata"]["annotations"] = {
        "kubectl.kubernetes.io/restartedAt": CREATED,
        "prometheus.io/scrape": "true",
        "sidecar.istio.io/status": '{"initContainers":["istio-init"],"containers":["istio-proxy"]}',
    }
    it["metadata"]["managedFields"] = [_managed(manager) for manager in ("kube-controller-manager", "kubelet")]
    it["spec"] |= {
        "containers": [_container(app, 8000), _container("istio-proxy", 15090)],
        "volumes": [{"name": f"volume-{n}", "persistentVolumeClaim": {"claimName": f"{app}-{n}"}} for n in range(6)],
        "tolerations": [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "nvidia.com/gpu", "dedicated")
        ],
        "serviceAccountName": app, "schedulerName": "default-scheduler", "restartPolicy": "Always", "priority": 100,
        "terminationGracePeriodSeconds": 120, "dnsPolicy": "ClusterFirst", "enableServiceLinks": True,
    }  # fmt: skip
    it["status"] |= {
        "hostIP": "10.1.2.3", "podIP": f"10.{workload % 250}.{number % 250}.7", "qosClass": "Burstable",
        "startTime": SCHEDULED, "containerStatuses": [_status(app), _status("istio-proxy")],
    }  # fmt: skip
    it["status"]["conditions"] += [
        {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": READY}
        for kind in ("PodReadyToStartContainers", "Initialized", "ContainersReady")
    ]
    return it


def _container(name: str, port: int) -> Json:
    return {
        "name": name, "image": f"registry.example.com/models/{name}:v1.2.3", "imagePullPolicy": "IfNotPresent",
        "args": ["--model", "/models/weights", "--max-model-len", "8192", "--gpu-memory-utilization", "0.92"],
        "ports": [{"containerPort": port, "name": "http", "protocol": "TCP"}],
        "env": [{"name": f"ENGINE_SETTING_{n}", "value": f"a value of the usual length {n}"} for n in range(8)],
        "resources": {"limits": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1"}, "requests": {"cpu": "4"}},
        "volumeMounts": [{"name": f"volume-{n}", "mountPath": f"/mnt/volume-{n}", "readOnly": True} for n in range(6)],
        "livenessProbe": {"httpGet": {"path": "/health", "port": port, "scheme": "HTTP"}, "periodSeconds": 10},
        "readinessProbe": {"httpGet": {"path": "/health", "port": port, "scheme": "HTTP"}, "periodSeconds": 5},
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
    }  # fmt: skip


def _status(name: str) -> Json:
    return {
        "name": name, "ready": True, "started": True, "restartCount": 0, "state": {"running": {"startedAt": READY}},
        "image": f"registry.example.com/models/{name}:v1.2.3", "lastState": {},
        "imageID": f"registry.example.com/models/{name}@sha256:{'ab' * 32}", "containerID": f"containerd://{'cd' * 32}",
    }  # fmt: skip


def _managed(manager: str) -> Json:
    fields: Json = {f'k:{{"type":"Condition{n}"}}': {".": {}, "f:status": {}, "f:type": {}} for n in range(8)}
    return {
        "manager": manager, "operation": "Update", "apiVersion": "v1", "time": READY, "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:app": {}}}, "f:status": {"f:conditions": fields}},
    }  # fmt: skip


def deployment(
    name: str,
    *,
    namespace: str = "tenant",
    replicas: int = 1,
    labels: dict[str, str] | None = None,
    gpus: int | None = None,
) -> Json:
    """Return a Deployment that selects `app: name`, or these labels."""
    return _workload_resource("Deployment", name, namespace, replicas, labels, gpus)


def stateful_set(name: str, *, namespace: str = "tenant", replicas: int = 1) -> Json:
    """Return a StatefulSet that selects `app: name`."""
    return _workload_resource("StatefulSet", name, namespace, replicas, None, None)


def _workload_resource(
    kind: str, name: str, namespace: str, replicas: int, labels: dict[str, str] | None, gpus: int | None
) -> Json:
    selected = labels or {"app": name}
    template = {"metadata": {"labels": selected}, "spec": {"containers": [_engine(gpus)]}}
    return {
        "apiVersion": "apps/v1", "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "creationTimestamp": CREATED},
        "spec": {"replicas": replicas, "selector": {"matchLabels": selected}, "template": template},
    }  # fmt: skip


def scaled_object(
    name: str,
    *,
    namespace: str = "tenant",
    target: dict[str, str] | None = None,
    uid: str | None = None,
    created: str = CREATED,
    annotations: dict[str, str] | None = None,
    address: str = "headway.headway:6000",
    least: int = 1,
    most: int = 10,
    **metadata: str,
) -> Json:
    """Return a ScaledObject whose one trigger asks Headway, about the Deployment of its own name."""
    return {
        "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject",
        "metadata": {
            "name": name, "namespace": namespace, "uid": uid or f"uid-so-{name}", "creationTimestamp": created,
            **({"annotations": annotations} if annotations else {}),
        },
        "spec": {
            "scaleTargetRef": target or {"name": name}, "minReplicaCount": least, "maxReplicaCount": most,
            "triggers": [{"type": "external", "metadata": {"scalerAddress": address, **metadata}}],
        },
    }  # fmt: skip


def node(
    name: str,
    *,
    ready: bool = True,
    gpus: str | None = "8",
    cordoned: bool = False,
    taints: tuple[str, ...] = (),
    labels: dict[str, str] | None = None,
) -> Json:
    """Return a GPU node; `gpus` None: its device plugin has not reported yet."""
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-{name}", "creationTimestamp": CREATED, "labels": labels or {}},
        "spec": {
            "taints": [{"key": key, "effect": "NoSchedule"} for key in taints],
            "providerID": f"cloud:///{name}", **({"unschedulable": True} if cordoned else {}),
        },
        "status": {
            "allocatable": {"cpu": "64", **({"nvidia.com/gpu": gpus} if gpus is not None else {})},
            "conditions": [{"type": "Ready", "status": str(ready), "lastTransitionTime": READY}],
        },
    }  # fmt: skip
