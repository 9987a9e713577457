"""What a kubelet says of the image of one pod: pulled or already there, in what time, how large; from its events.

Owns reading these events. It must not know a limit, a verdict or which image ought to be new to a node.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable

from gpuproof.cluster import raw
from gpuproof.cluster.port import EVENTS, Cluster
from gpuproof.cluster.raw import Raw
from gpuproof.failure import JobFailure, Reason
from gpuproof.manifests import MEASURE
from gpuproof.visits import Visited
from workloads.contract import Fact, Measurement, Sample

WORKLOAD = "kubelet"
"""Who says it, of which pod (`kubelet-first`); no program of that name runs in a pod. The record keeps one measurement
a name, check and subject, so pods of one check must not share it."""

_FACTS = {"first": "image_of_first_pod", "second": "image_of_second_pod"}
HERE, PULLED = "already present", "pulled"
_GB = 1e9
_DURATION = r"(?:[0-9.]+(?:h|ms|m|µs|us|ns|s))+"
_PULLED = re.compile(
    rf'Successfully pulled image "(?P<image>[^"]+)" in (?P<took>{_DURATION})'
    rf"(?: \((?P<waited>{_DURATION}) including waiting\))?(?:\. Image size: (?P<size>\d+) bytes\.?)?"
)
"""The words of kubelets: 1.26 and older say one time, 1.27 adds the second, 1.30 the size (pkg/kubelet/images)."""

_PRESENT = re.compile(r'Container image "(?P<image>[^"]+)" already present on machine')
_PART = re.compile(r"([0-9.]+)(h|ms|m|µs|us|ns|s)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "µs": 1e-6, "us": 1e-6, "ns": 1e-9}


def pull_of(
    cluster: Cluster, namespace: str, visited: Visited, which: str, within_s: float
) -> Measurement | JobFailure:
    """What the kubelet says of the image of a pod that has measured; `which` names the pod (first, second).

    Waits at most `within_s` for the events, which may come after the pod's own end. Raises `ClusterError`.
    """
    said = _messages(cluster, namespace, visited.pod, within_s)
    return read_pull(said, visited, which)


def read_pull(said: Iterable[str], visited: Visited, which: str) -> Measurement | JobFailure:
    """The measurement in the messages of a pod's Pulled events; a failure where they say nothing of an image."""
    pulled, present = None, None
    for message in said:
        pulled = pulled or _PULLED.match(message)
        present = present or _PRESENT.match(message)
    found = pulled or present
    if found is None:
        text = (
            f"no event of {visited.pod} says how it came to its image; expected Pulled by the kubelet of "
            f"{visited.node}: look whether events are kept in the run's namespace"
        )
        return JobFailure(Reason.NO_MEASUREMENT, text)
    image = found["image"]
    at = {"start": which}
    timings = visited.timings
    samples = [Sample("pod_started", max(timings.started_s - timings.scheduled_s, 0.0), "s", at)]
    if pulled is not None:
        took_s = seconds(pulled["took"])
        samples.append(Sample("pull", took_s, "s", at))
        if pulled["waited"]:
            samples.append(Sample("pull_with_waiting", seconds(pulled["waited"]), "s", at))
        if pulled["size"]:
            size = int(pulled["size"])
            samples.append(Sample("image_size", float(size), "bytes", at))
            # What takes no time that the kubelet writes was no transfer.
            samples += [Sample("pull_rate", size / took_s / _GB, "GB/s", at)] if took_s else []
    facts: dict[str, Fact] = {_FACTS[which]: PULLED if pulled is not None else HERE}
    measured = visited.measurement
    return Measurement(
        f"{WORKLOAD}-{which}",
        measured.run_id,
        visited.node,
        visited.pod,
        1,
        1,
        samples=tuple(samples),
        facts=facts,
        environment={f"{which}_image": image, f"{which}_registry": _registry(image)},
    )


def seconds(duration: str) -> float:
    """A duration as Go writes it, e.g. "1m2.5s"."""
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(duration))


def _registry(image: str) -> str:
    first = image.partition("/")[0]
    return first if "/" in image and ("." in first or ":" in first or first == "localhost") else "docker.io"


def _messages(cluster: Cluster, namespace: str, pod: str, within_s: float) -> list[str]:
    """What the pod's Pulled events say, up to the one about `measure`, which is the first to be started."""
    watch = cluster.watch(EVENTS, namespace=namespace, field_selector=f"involvedObject.name={pod},reason=Pulled")
    alarm = threading.Timer(within_s, watch.close)
    alarm.daemon = True
    alarm.start()
    said = []
    try:
        for event in watch:
            if event.type != "DELETED":
                said.append(raw.text(event.object, "message"))
                if _about(event.object) == MEASURE:
                    break
    finally:
        alarm.cancel()
        watch.close()
    return said


def _about(event: Raw) -> str:
    return raw.text(event, "involvedObject", "fieldPath").removeprefix("spec.containers{").removesuffix("}")
