"""What the API alone says about a subject, as a measurement: no pod is needed to see that a GPU is not offered.

Pure: values in, values out. It must not know what was expected of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuproof.inventory import Node
from workloads.contract import Fact, Measurement, Sample

WORKLOAD = "inventory"
"""The name under which the API's own answers are recorded; no program of that name runs in a pod."""


def observe_cluster(pool_size: int, run_id: str) -> Measurement:
    """How many nodes the profile's pool has. Unit: count."""
    return Measurement(
        workload=WORKLOAD,
        run_id=run_id,
        node="",
        pod="",
        world_size=1,
        hosts=pool_size,
        samples=(Sample("nodes", float(pool_size), "count"),),
    )


def observe_node(node: Node, run_id: str, gpu_resource: str) -> Measurement:
    """What the node object offers of the GPU resource (unit: count), and its labels for product and driver as facts."""
    labels = {"gpu_product": node.product, "gpu_driver": node.driver}
    facts: dict[str, Fact] = {name: value for name, value in labels.items() if value}
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
        ),
        facts=facts,
        environment={"gpu_resource": gpu_resource},
    )


def merge(measurements: Sequence[Measurement]) -> Measurement:
    """Several measurements of one subject as one: samples side by side, facts together.

    Raises ValueError where two of them report the same fact, or the same metric at the same operating point: one source
    must not overwrite another without a word.
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
            if name in facts:
                raise ValueError(f"the fact {name} was reported twice for {first.node or 'the cluster'}")
            facts[name] = fact
        environment |= measurement.environment
    last = measurements[-1]
    return Measurement(
        last.workload, last.run_id, last.node, last.pod, last.world_size, last.hosts, tuple(samples), facts, environment
    )


def _point(at: Mapping[str, object]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(at.items()))
