"""What a sick node gives to its pods: foreign GPUs, what others left behind, devices that close, other versions.

Owns these actions' shape and how they are carried out. It must not know which check notices.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from simcluster.node.context import NodeContext

_NODE_INFO = {
    "kernel_version": "kernelVersion",
    "container_runtime": "containerRuntimeVersion",
    "kubelet_version": "kubeletVersion",
    "os_image": "osImage",
}


class _Action(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    node: str


class ChangeSystem(_Action):
    """A node runs another kernel, container runtime, kubelet or system image than its pool."""

    do: Literal["change-system"]
    kernel_version: str | None = None
    container_runtime: str | None = None
    kubelet_version: str | None = None
    os_image: str | None = None


class ChangeImage(_Action):
    """A node has an older copy of an image under the same name: what it sets in the environment differs."""

    do: Literal["change-image"]
    image: str
    env: dict[str, str]


class RemoveBoard(_Action):
    """A GPU is not enumerated at boot: bus, driver, device plugin and labels agree that it is not there."""

    do: Literal["remove-board"]
    gpu: int


class ShowAllGpus(_Action):
    """The container runtime shows all GPUs to every container that was granted any."""

    do: Literal["show-all-gpus"]


class ObeyVisibleDevices(_Action):
    """The container runtime gives GPUs to whoever says NVIDIA_VISIBLE_DEVICES=all, asked for or not."""

    do: Literal["obey-visible-devices"]


class ForgetGrants(_Action):
    """The kubelet does not remember which GPUs its pods hold: it hands out the first ones again."""

    do: Literal["forget-grants"]


class CloseDevices(_Action):
    """Running containers can no longer open their GPUs: error codes are those of NVML's and CUDA's initialisation."""

    do: Literal["close-devices"]
    nvml_error: Annotated[int, Field(gt=0)]
    init_error: Annotated[int, Field(gt=0)]


class KeepGpuMemory(_Action):
    """What a program leaves in a GPU's memory is there for the next one."""

    do: Literal["keep-gpu-memory"]


class KeepScratch(_Action):
    """An emptyDir is handed out again as the pod before left it."""

    do: Literal["keep-scratch"]


Exposure = (
    ChangeSystem
    | ChangeImage
    | RemoveBoard
    | ShowAllGpus
    | ObeyVisibleDevices
    | ForgetGrants
    | CloseDevices
    | KeepGpuMemory
    | KeepScratch
)


def expose(node: NodeContext, action: Exposure) -> None:
    """Do it to one node."""
    match action:
        case ChangeSystem():
            node.system |= {_NODE_INFO[key]: value for key, value in action if key in _NODE_INFO and value is not None}
        case ChangeImage():
            node.images.carried.setdefault(action.image, {}).update(action.env)
        case ForgetGrants():
            node.devices.forgetful = True
        case RemoveBoard() | CloseDevices():
            _change_gpus(node, action)
        case _:
            _change_runtime(node, action)


def _change_gpus(node: NodeContext, action: RemoveBoard | CloseDevices) -> None:
    gpus = node.gpus
    if gpus is None:
        return
    if isinstance(action, CloseDevices):
        gpus.refuse(action.nvml_error, action.init_error)
        return
    gpus.remove_board(action.gpu)
    node.devices.units |= gpus.units()
    node.labels["nvidia.com/gpu.count"] = str(len(gpus.gpus))


def _change_runtime(node: NodeContext, action: ShowAllGpus | ObeyVisibleDevices | KeepGpuMemory | KeepScratch) -> None:
    match action:
        case ShowAllGpus():
            node.troubles.shows_all_gpus = True
        case ObeyVisibleDevices():
            node.troubles.obeys_visible_devices = True
        case KeepGpuMemory():
            node.troubles.keeps_gpu_memory = True
        case KeepScratch():
            node.troubles.keeps_scratch = True
