"""What is in a cluster from the first moment besides its nodes: other people's pods, as the topology says.

Owns these objects. It must not know how anything runs them: it creates them as any client would.
"""

from __future__ import annotations

from simcluster.api.port import ApiError, Client, Object
from simcluster.node.images import EXPORTER_IMAGE, PYTHON_IMAGE
from simcluster.node.runtime import GATEWAY
from simcluster.operators.kueue.site import TENANT, holder_objects, queue_objects
from simcluster.topology import Pool, Prometheus, Topology, node_names

OPERATOR_NAMESPACE = "gpu-operator"
STORE_NAMESPACE = "simcluster"
MONITORING_NAMESPACE = "monitoring"
DEFAULT_INTERVAL_MS = 500
PROMETHEUS_PORT = 9090
OBJECT_STORE_PORT = 9000
_EXPORTER = "nvidia-dcgm-exporter"


async def install(client: Client, topology: Topology) -> None:
    """Create everything the topology asks for. Raises `ApiError`."""
    if topology.dcgm and all(pool.mode == "full" for pool in topology.pools if pool.gpu is not None):
        await ensure_namespace(client, OPERATOR_NAMESPACE)
        await client.create("services", exporter_service(), OPERATOR_NAMESPACE)
        await client.create("daemonsets.apps", exporter(topology.dcgm_interval_ms), OPERATOR_NAMESPACE)
        if topology.second_exporter:
            await _install_second_exporter(client, topology.second_exporter)
        if topology.prometheus is not None and topology.control_plane:
            await ensure_namespace(client, MONITORING_NAMESPACE)
            for resource, obj in prometheus(topology.prometheus):
                await client.create(resource, obj, MONITORING_NAMESPACE)
    if topology.object_store:
        await ensure_namespace(client, STORE_NAMESPACE)
        for resource, obj in object_store():
            await client.create(resource, obj, STORE_NAMESPACE)
    if "kueue" in topology.operators:
        await _install_queue(client, topology)
    for pool in topology.pools:
        for pod in busy_pods(pool):
            await ensure_namespace(client, pod["metadata"]["namespace"])
            await client.create("pods", pod, pod["metadata"]["namespace"])


async def _install_queue(client: Client, topology: Topology) -> None:
    """A ClusterQueue with the quota of all GPU nodes, and who holds all of it where nothing is to be admitted."""
    pools = [pool for pool in topology.pools if pool.gpu is not None]
    labels = dict(set.intersection(*(set(pool.labels.items()) for pool in pools))) if pools else {}
    names = {name for pool in pools for name in node_names(pool)}
    nodes = [node for node in (await client.list("nodes")).items if node["metadata"]["name"] in names]
    objects = queue_objects(labels, [node["status"]["allocatable"] for node in nodes])
    if topology.operator_troubles.kueue == "never-admits":
        await ensure_namespace(client, TENANT)
        objects += holder_objects(objects[-1][1])
    for resource, obj in objects:
        await client.create(resource, obj, obj["metadata"].get("namespace"))


async def ensure_namespace(client: Client, name: str) -> None:
    """Create a namespace where it is absent."""
    try:
        await client.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise


def object_store() -> list[tuple[str, Object]]:
    """The name of the object store, which runs outside any pod: a Service without selector, and its endpoints."""
    metadata = {"name": "object-store", "namespace": STORE_NAMESPACE}
    port = {"name": "http", "port": OBJECT_STORE_PORT, "protocol": "TCP"}
    service: Object = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [port]}}
    subset = {"addresses": [{"ip": GATEWAY}], "ports": [port]}
    return [
        ("services", service),
        ("endpoints", {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": [subset]}),
    ]


def exporter_service() -> Object:
    """Where a monitoring system finds the exporter."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": _EXPORTER, "namespace": OPERATOR_NAMESPACE, "labels": {"app": _EXPORTER}},
        "spec": {
            "selector": {"app": _EXPORTER},
            "ports": [{"name": "gpu-metrics", "port": 9400, "targetPort": 9400, "protocol": "TCP"}],
        },
    }


async def _install_second_exporter(client: Client, node: str) -> None:
    """Somebody else's exporter on one node, beside the operator's."""
    await ensure_namespace(client, MONITORING_NAMESPACE)
    labels = {"app.kubernetes.io/name": "dcgm-exporter"}
    spec = {**exporter(DEFAULT_INTERVAL_MS)["spec"]["template"]["spec"], "nodeName": node}
    metadata = {"name": f"dcgm-exporter-{node}", "namespace": MONITORING_NAMESPACE, "labels": labels}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    await client.create("pods", pod, MONITORING_NAMESPACE)


def prometheus(settings: Prometheus) -> list[tuple[str, Object]]:
    """A Prometheus on the control plane's node, where no GPU node's trouble reaches it, and its Service."""
    labels = {"app.kubernetes.io/name": "prometheus"}
    metadata = {"name": "prometheus", "namespace": MONITORING_NAMESPACE, "labels": labels}
    environment = {
        "TARGETS_HOST": f"{_EXPORTER}.{OPERATOR_NAMESPACE}.svc.cluster.local",
        "SCRAPE_INTERVAL_S": f"{settings.interval_s:g}",
        "HONOR_LABELS": "1" if settings.honor_labels else "0",
        "DROP_HOSTNAME": settings.leaves_out,
    }
    container = {
        "name": "prometheus",
        "image": EXPORTER_IMAGE,
        "command": ["/opt/simcluster/monitoring/prometheus"],
        "env": [{"name": name, "value": value} for name, value in environment.items()],
        "ports": [{"name": "web", "containerPort": PROMETHEUS_PORT}],
    }
    spec = {"nodeName": "control-plane", "terminationGracePeriodSeconds": 1, "containers": [container]}
    port = {"name": "web", "port": PROMETHEUS_PORT, "targetPort": PROMETHEUS_PORT, "protocol": "TCP"}
    return [
        (
            "services",
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": metadata,
                "spec": {"selector": labels, "ports": [port]},
            },
        ),
        ("pods", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}),
    ]


def exporter(interval_ms: int) -> Object:
    """The metrics exporter on each GPU node, where the GPU operator's own names put it."""
    host = {"state": "/run/simcluster", "pod-resources": "/var/lib/kubelet/pod-resources"}
    container = {
        "name": _EXPORTER,
        "image": EXPORTER_IMAGE,
        "command": ["dcgm-exporter"],
        "env": [
            {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "DCGM_EXPORTER_INTERVAL", "value": str(interval_ms)},
        ],
        "readinessProbe": {"httpGet": {"path": "/health", "port": 9400}, "periodSeconds": 1},
        "ports": [{"name": "metrics", "containerPort": 9400}],
        "volumeMounts": [
            {"name": name, "mountPath": "/host/gpu" if name == "state" else path, "readOnly": True}
            for name, path in host.items()
        ],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": _EXPORTER, "namespace": OPERATOR_NAMESPACE, "labels": {"app": _EXPORTER}},
        "spec": {
            "selector": {"matchLabels": {"app": _EXPORTER}},
            "template": {
                "metadata": {"labels": {"app": _EXPORTER}},
                "spec": {
                    "nodeSelector": {"nvidia.com/gpu.deploy.dcgm-exporter": "true"},
                    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
                    "terminationGracePeriodSeconds": 1,
                    "containers": [container],
                    "volumes": [{"name": name, "hostPath": {"path": path}} for name, path in host.items()],
                },
            },
        },
    }


def busy_pods(pool: Pool) -> list[Object]:
    """The pods that hold GPUs of a pool before anybody else comes."""
    if pool.busy is None:
        return []
    limits = {"nvidia.com/gpu": str(pool.busy.gpus)}
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"training-{node}",
                "namespace": pool.busy.namespace,
                "labels": {"app": "training"},
                "annotations": {"simcluster.local/duration-s": "1e9"},
            },
            "spec": {
                "nodeName": node,
                "tolerations": [{"operator": "Exists"}],
                "terminationGracePeriodSeconds": 1,
                "containers": [
                    {
                        "name": "train",
                        "image": PYTHON_IMAGE,
                        "command": ["sleep", "infinity"],
                        "resources": {"limits": limits},
                    }
                ],
            },
        }
        for node in node_names(pool)[: pool.busy.nodes]
    ]
