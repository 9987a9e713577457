"""A run's trainings: made from the profile when the first check asks to kill one, in the run's namespace.

It must not know a limit, a verdict or pytest.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuproof.admission import KUEUE
from gpuproof.claims import make_claims
from gpuproof.cluster.port import CONFIG_MAPS, LOCAL_QUEUES, Cluster, ClusterError, Resource
from gpuproof.inventory import Node
from gpuproof.manifests import Renderer, TrainingJob
from gpuproof.node_loss import CHECK, read_node_loss
from gpuproof.pod_shape import read_shape
from gpuproof.profile import Profile
from gpuproof.training_choice import PARAMETERS, read_choice, refuse_unserved
from gpuproof.training_kills import WORKLOAD, Shape
from gpuproof.trainings import Setup, Trainings

PARAMETERS_OF = "checkpoint_killed_pod"
"""All kills share one training, so its parameters are those of one check: `[workload.checkpoint_killed_pod]`."""


def training_setup(
    profile: Profile,
    nodes: Mapping[str, Node],
    folders: Sequence[Path],
    environment: Mapping[str, str] | None = None,
) -> Setup:
    """What the profile says of its training; `environment` is for the command that takes a node away."""
    given: dict[str, Any] = {**profile.workloads.get(PARAMETERS_OF, {}), "device": profile.cluster.device}
    lost = profile.workloads.get(CHECK, {})
    pod = read_shape(WORKLOAD, folders)
    limits = profile.deadlines
    choice = read_choice(given, limits.scheduling_s)
    given = {key: value for key, value in given.items() if key not in PARAMETERS}
    start_s = limits.scheduling_s + limits.pulling_s + limits.starting_s + limits.running_s
    shape = Shape(
        pods=int(given.get("pods", 2)),
        ranks_per_pod=int(given.get("ranks_per_pod", 1)),
        save_every=int(given.get("save_every", 3)),
        start_within_s=float(given.pop("start_within_s", start_s)),
        recover_within_s=float(given.pop("recover_within_s", start_s)),
        python=str(profile.pod.get("python", "python3")),
    )
    return Setup(
        params={"pods": shape.pods, "save_every": shape.save_every, **given},
        shape=shape,
        grace_s=int(given.pop("grace_s", 30)),
        gpus=pod.gpus_of(profile.cluster.gpus_per_node),
        pod=pod,
        hostnames={name: node.hostname for name, node in nodes.items()},
        check=PARAMETERS_OF,
        loss=read_node_loss(lost, environment) if lost else None,
        choice=choice,
    )


def begin_trainings(
    cluster: Cluster,
    renderer: Renderer,
    setup: Setup,
    stop: threading.Event,
    pending: Callable[[], Sequence[str]],
    on_job: Callable[[TrainingJob], None],
) -> Trainings:
    """Put the program, its claims and its queue into the namespace, which is there; raises `ClusterError`."""
    refuse_unserved(cluster, renderer.namespace, setup.choice)
    _make(cluster, CONFIG_MAPS, renderer.sources(WORKLOAD), renderer.namespace)
    queue = setup.choice.queue
    if queue is not None and queue.kind is KUEUE:
        _make(cluster, LOCAL_QUEUES, renderer.local_queue(queue.name), renderer.namespace)
    make_claims(cluster, renderer, setup.pod.claims, set())
    return Trainings(cluster, renderer, setup, stop, on_job, pending)


def _make(cluster: Cluster, resource: Resource, body: Mapping[str, Any], namespace: str) -> None:
    try:
        cluster.create(resource, body, namespace=namespace)
    except ClusterError as error:
        if error.status != 409:
            raise
