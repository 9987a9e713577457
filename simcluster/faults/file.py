"""Fault files: one TOML a fault, what it changes, when, and what must come of it.

Owns the files' shape and their reading. It must not know how an action is carried out.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from simcluster.faults.exposure import Exposure
from simcluster.faults.handing_out import HandingOut
from simcluster.faults.outages import Outage
from simcluster.hardware.storage import Settings
from simcluster.objectstore import Trouble

_FOLDER = Path(__file__).resolve().parent
EVERY_NODE = "*"
WHERE_IT_STRIKES = "@"
"""As an action's node: the one on which the container runs that the fault has waited for."""


class FaultError(Exception):
    """A fault cannot be found or read; the text names file and key."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class OfferGpus(_Strict):
    """The device plugin of a node offers `count` GPUs, and the node's labels agree."""

    do: Literal["offer-gpus"]
    node: str
    count: Annotated[int, Field(ge=0)]


class BreakGpu(_Strict):
    """The hardware of a node fails behind the device plugin's back: error codes are the driver API's."""

    do: Literal["break-gpu"]
    node: str
    gpu: int | None = None
    init_error: int = 0
    context_error: int = 0
    compute_error: int = 0
    flips_bits: bool = False
    hangs: bool = False


class HideGpus(_Strict):
    """A container sees `count` GPUs fewer than it was granted."""

    do: Literal["hide-gpus"]
    node: str
    count: Annotated[int, Field(gt=0)]


class SetDriver(_Strict):
    """A node runs another driver version, and its labels say so."""

    do: Literal["set-driver"]
    node: str
    version: str


class RejectPods(_Strict):
    """The kubelet refuses each pod at admission, or those that carry these labels."""

    do: Literal["reject-pods"]
    node: str
    labels: dict[str, str] = {}
    reason: str
    message: str


class BreakSandbox(_Strict):
    """The container runtime cannot create pod sandboxes."""

    do: Literal["break-sandbox"]
    node: str
    message: str


class SilentKubelet(_Strict):
    """The kubelet takes no notice of pods but keeps its node ready."""

    do: Literal["silent-kubelet"]
    node: str


class RemoveGpuNodes(_Strict):
    """The cluster has no GPU nodes."""

    do: Literal["remove-gpu-nodes"]


class RefuseImage(_Strict):
    """The registry refuses an image, and no node has a copy."""

    do: Literal["refuse-image"]
    node: str
    image: str


class TroubleImages(_Strict):
    """A node pulls images at another rate than the others, or keeps none that no pod uses."""

    do: Literal["trouble-images"]
    node: str
    registry_mb_per_s: Annotated[float, Field(gt=0)] | None = None
    collects: bool = False


class LimitMemory(_Strict):
    """Something (a webhook, a default) sets a memory limit on a container of pods that ask for GPUs."""

    do: Literal["limit-memory"]
    container: str
    memory: str


class ForbidPods(_Strict):
    """The API refuses pods that a Job creates."""

    do: Literal["forbid-pods"]
    message: str


class ExhaustQuota(_Strict):
    """Every new namespace gets a ResourceQuota without room."""

    do: Literal["exhaust-quota"]
    hard: dict[str, str]


class TruncateMessages(_Strict):
    """The kubelet keeps only the last `keep_bytes` of a termination message."""

    do: Literal["truncate-messages"]
    node: str
    keep_bytes: Annotated[int, Field(ge=0)]


class LimitPair(_Strict):
    """On the RDMA network two nodes reach each other, and nobody else, at `mbit` only: one bad path of many."""

    do: Literal["limit-pair"]
    node: str
    other: str
    mbit: Annotated[int, Field(gt=0)]


class VanishNode(_Strict):
    """A node goes: its processes die, its kubelet falls silent, its Node object is deleted."""

    do: Literal["vanish-node"]
    node: str


class TroubleStorage(_Strict):
    """All volumes of a storage class behave otherwise, on one node or on all of them.

    `settings` are fields of `hardware.storage.Settings`.
    """

    do: Literal["trouble-storage"]
    node: str = EVERY_NODE
    storage_class: str
    settings: dict[str, float | bool]

    @field_validator("settings")
    @classmethod
    def _known(cls, given: dict[str, float | bool]) -> dict[str, float | bool]:
        unknown = set(given) - {each.name for each in fields(Settings)}
        if unknown:
            raise ValueError(f"unknown: {', '.join(sorted(unknown))}")
        return given


class ChangeStorageClass(_Strict):
    """A storage class is made with other fields or parameters, e.g. `{ reclaimPolicy = "Retain" }`."""

    do: Literal["change-storage-class"]
    storage_class: str
    fields: dict[str, bool | str] = {}
    parameters: dict[str, str] = {}


class PatchWorkload(_Strict):
    """One text in a program's source is exchanged when its ConfigMap is made: the team's trainer has this defect, from
    the start, whenever else the fault strikes."""

    do: Literal["patch-workload"]
    file: str
    find: Annotated[str, Field(min_length=1)]
    replace: str

    def applied(self, source: str) -> str:
        """The source with its text exchanged; raises `FaultError` where the text is not there exactly once."""
        if source.count(self.find) != 1:
            raise FaultError(f"{self.file} has {source.count(self.find)} times the text {self.find!r}, expected once")
        return source.replace(self.find, self.replace)


class CapRetries(_Strict):
    """A policy engine takes the retries from every Job that has some."""

    do: Literal["cap-retries"]


class SuspendJobs(_Strict):
    """Every new Job that names no queue is suspended for good, as a queueing system may be told to do."""

    do: Literal["suspend-jobs"]


class TroubleObjectStore(_Strict):
    """The object store serves synthetic objects wrongly to one node or to all."""

    do: Literal["trouble-object-store"]
    node: str = EVERY_NODE
    settings: Trouble


class TroubleExporter(_Strict):
    """A node's metrics exporter goes wrong: fields as in `hardware.tools.dcgm_troubles.Troubles`."""

    do: Literal["trouble-exporter"]
    node: str
    labels: Literal["right", "empty", "absent"] = "right"
    mapping: Literal["now", "first", "kept", "remembered"] = "now"
    swapped: bool = False
    hung: bool = False
    missing_gpu: int | None = None
    missing_fields: tuple[str, ...] = ()
    blank_fields: tuple[str, ...] = ()
    twice: bool = False
    scale: dict[str, float] = {}
    delay_s: Annotated[float, Field(ge=0)] = 0.0
    fails: bool = False
    cut: bool = False
    extra_mib: Annotated[int, Field(ge=0)] = 0
    crash_after_s: Annotated[float, Field(ge=0)] = 0.0

    def lines(self) -> str:
        """The file that the exporter reads: only what is not sound."""
        given = self.model_dump(exclude={"do", "node"}, exclude_defaults=True)
        return "".join(f"{key}={_word(value)}\n" for key, value in given.items())


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, dict):
        return ",".join(f"{key}:{factor}" for key, factor in value.items())
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


class RemoveExporter(_Strict):
    """The operator does not deploy the metrics exporter on a node: the label that asks for it says no."""

    do: Literal["remove-exporter"]
    node: str


class SecondExporter(_Strict):
    """Somebody runs a metrics exporter of their own on a node, beside the operator's."""

    do: Literal["second-exporter"]
    node: str


class SetPrometheus(_Strict):
    """The Prometheus of the cluster is set up otherwise: fields as in `topology.Prometheus`."""

    do: Literal["set-prometheus"]
    interval_s: Annotated[float, Field(gt=0)] = 1.0
    honor_labels: bool = True
    leaves_out: str = ""


class SetExporterInterval(_Strict):
    """Every metrics exporter looks at its GPUs only once in `interval_ms`."""

    do: Literal["set-exporter-interval"]
    interval_ms: Annotated[int, Field(gt=0)]


Action = Annotated[
    OfferGpus
    | PatchWorkload
    | CapRetries
    | SuspendJobs
    | HandingOut
    | BreakGpu
    | HideGpus
    | SetDriver
    | RejectPods
    | BreakSandbox
    | SilentKubelet
    | RemoveGpuNodes
    | RefuseImage
    | TroubleImages
    | LimitMemory
    | ForbidPods
    | ExhaustQuota
    | TruncateMessages
    | LimitPair
    | VanishNode
    | TroubleStorage
    | TroubleObjectStore
    | ChangeStorageClass
    | TroubleExporter
    | RemoveExporter
    | SecondExporter
    | SetExporterInterval
    | SetPrometheus
    | Outage
    | Exposure,
    Field(discriminator="do"),
]


class When(_Strict):
    """
    The moment when a fault strikes: the `container` of a pod on `node` has begun to run (measuring), or the pod's
    annotations have changed (told), `after_s` ago (a real cluster's seconds). With `labels`, a pod that has all of
    them; with `nth`, the so manieth of such pods.
    """

    event: Literal["measuring", "told"]
    node: str
    container: str = "measure"
    labels: dict[str, str] = {}
    nth: Annotated[int, Field(gt=0)] = 1
    after_s: Annotated[float, Field(ge=0)] = 0.0


class Expectation(_Strict):
    """What a fault must cause; `subject` is a node's name, `all` nodes, `missing` ones, or the `cluster`.

    `names` is what the verdict's reasons must say, where the reason's code is not enough.
    `warns` is the metric or fact that must be shown as missed although it decides nothing.
    """

    check: str
    subject: str
    verdict: Literal["PASS", "FAIL", "ERROR", "NOT_RUN"]
    reason: str | None = None
    names: str | None = None
    warns: str | None = None


class Fault(_Strict):
    """One fault. `mechanism` is one word for the kind of defect; `source` names where such a defect was seen.

    `only_in_selftest`: it takes minutes in pods, so quick tests show it outside of them; it shares a run with no other.
    """

    id: str
    title: str
    mechanism: str
    source: str
    only_in_selftest: bool = False
    at: Literal["start"] | When = "start"
    action: Annotated[list[Action], Field(min_length=1)]
    expects: Annotated[list[Expectation], Field(min_length=1)]


def read_fault(path: Path) -> Fault:
    """One file; raises `FaultError`."""
    try:
        fault = Fault.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except tomllib.TOMLDecodeError as error:
        raise FaultError(f"{path.name}: not TOML: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise FaultError(f"{path.name}: {where}: {first['msg']}") from error
    if fault.id != path.stem:
        raise FaultError(f"{path.name}: id is {fault.id!r}, expected the file's name {path.stem!r}")
    return fault


def refuse_absent_nodes(faults: Sequence[Fault], nodes: Collection[str]) -> None:
    """Raise `FaultError` for a fault about a node that the topology does not have: it would strike nothing."""
    for fault in faults:
        named = [getattr(action, key, EVERY_NODE) for action in fault.action for key in ("node", "other")]
        named += [fault.at.node] if isinstance(fault.at, When) else []
        for node in named:
            if node == WHERE_IT_STRIKES and isinstance(fault.at, When):
                continue
            if node != EVERY_NODE and node not in nodes:
                some = ", ".join(sorted(nodes)[:5])
                raise FaultError(f"the fault {fault.id} is about the node {node!r}; the topology has {some} …")


def all_faults() -> list[Fault]:
    """Every fault that comes with the simulator, by id."""
    return [read_fault(path) for path in sorted(_FOLDER.glob("*.toml"))]


def find_faults(ids: Sequence[str]) -> list[Fault]:
    """The named ones, or those of files (names that end in .toml); raises `FaultError` for one that does not exist."""
    known = {path.stem: path for path in _FOLDER.glob("*.toml")}
    known |= {name: Path(name) for name in ids if name.endswith(".toml") and Path(name).is_file()}
    for name in ids:
        if name not in known:
            raise FaultError(f"no fault {name!r}; there are: {', '.join(sorted(known))}")
    return [read_fault(known[name]) for name in ids]
