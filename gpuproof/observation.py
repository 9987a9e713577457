"""What the API alone says about a subject, as a measurement: no pod is needed to see that a GPU is not offered.

Pure: values in, values out. It must not know what was expected of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from gpuproof.inventory import Node
from workloads.contract import Fact, Measurement, Sample

WORKLOAD = "inventory"
"""The name under which the API's own answers are recorded; no program of that name runs in a pod."""


LABEL_FACT = "label:"
"""A fact of this name and a label's key is the node's value of that label."""

NO_LABEL = "(no such label)"
"""No label's value: brackets and blanks are not allowed there."""

MAX_NAMES = 4


def observe_cluster(pool_size: int, run_id: str, nodes: Collection[Node] = ()) -> Measurement:
    """How many nodes the profile's pool has, and how many of them have which version of what. Unit: count."""
    return Measurement(
        workload=WORKLOAD,
        run_id=run_id,
        node="",
        pod="",
        world_size=1,
        hosts=pool_size,
        samples=(Sample("nodes", float(pool_size), "count"), *_table_of(nodes)),
    )


def _table_of(nodes: Collection[Node]) -> list[Sample]:
    """One sample for every value of every property of the nodes, what most of them have first."""
    samples = []
    for name in _properties(next(iter(nodes))) if nodes else ():
        having: defaultdict[str, list[str]] = defaultdict(list)
        for node in sorted(nodes, key=lambda node: node.name):
            having[_properties(node)[name] or "(not told)"].append(node.name)
        for value, names in sorted(having.items(), key=lambda item: (-len(item[1]), item[0])):
            more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
            at = {"property": name, "value": value, "on": ", ".join(names[:MAX_NAMES]) + more}
            samples.append(Sample("nodes_with", float(len(names)), "count", at))
    return samples


def _properties(node: Node) -> dict[str, str]:
    """What nodes of one pool should have in common, '' where the API does not tell."""
    return {
        "gpu_product": node.product,
        "gpu_driver": node.driver,
        "gpu_sharing": node.sharing,
        "gpu_offers": "; ".join(node.offers) or "none",
        "kernel_version": node.kernel_version,
        "os_image": node.os_image,
        "container_runtime": node.container_runtime,
        "kubelet_version": node.kubelet_version,
        "taints": node.standing_taints,
    }


RDMA_OFFER = "rdma_allocatable"
"""The metric of what a node offers of the profile's RDMA resource."""


def observe_node(
    node: Node, run_id: str, gpu_resource: str, labels: Collection[str] = (), rdma_resource: str = ""
) -> Measurement:
    """
    What the node object offers of the GPU resource (unit: count), and as facts its versions, taints and labels.

    `labels` are the keys of labels that somebody wants to know beside those with a fact of their own. `rdma_resource`
    is given where somebody wants to know what the node offers of it.
    """
    offered = [Sample(RDMA_OFFER, float(node.rdma_offers.get(rdma_resource, 0)), "count")] if rdma_resource else []
    facts: dict[str, Fact] = {name: value for name, value in _properties(node).items() if value}
    facts |= {LABEL_FACT + key: node.labels.get(key, NO_LABEL) for key in labels}
    return Measurement(
        workload=WORKLOAD,
        run_id=run_id,
        node=node.name,
        pod="",
        world_size=1,
        hosts=1,
        samples=(
            Sample("gpus_capacity", float(node.gpu_capacity), "count"),
            Sample("gpus_allocatable", float(node.gpu_allocatable), "count"),
            *offered,
        ),
        facts=facts,
        environment={"gpu_resource": gpu_resource},
    )


def merge(measurements: Sequence[Measurement]) -> Measurement:
    """Several measurements of one subject as one: samples side by side, facts together.

    Lists of one fact are joined. Raises ValueError where two of them report the same single fact, or the same metric at
    the same operating point: one source must not overwrite another without a word.
    """
    first = measurements[0]
    samples: list[Sample] = []
    facts: dict[str, Fact] = {}
    environment: dict[str, str] = {}
    taken: set[tuple[str, str]] = set()
    for measurement in measurements:
        for sample in measurement.samples:
            key = (sample.metric, _point(sample.at))
            if key in taken:
                raise ValueError(
                    f"{sample.metric} {_point(sample.at)} was measured twice for {first.node or 'the cluster'}"
                )
            taken.add(key)
            samples.append(sample)
        for name, fact in measurement.facts.items():
            before = facts.get(name, [])
            if not isinstance(before, list) or (name in facts and not isinstance(fact, list)):
                raise ValueError(f"the fact {name} was reported twice for {first.node or 'the cluster'}")
            facts[name] = before + fact if isinstance(fact, list) else fact
        environment |= measurement.environment
    last = measurements[-1]
    return Measurement(
        last.workload, last.run_id, last.node, last.pod, last.world_size, last.hosts, tuple(samples), facts, environment
    )


def _point(at: Mapping[str, object]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(at.items()))
