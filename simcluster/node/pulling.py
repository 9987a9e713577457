"""Getting a container's image, with the states and events of a real kubelet that cannot (golden 11).

Owns the pull policy and the back-off. It must not know processes.
"""

from __future__ import annotations

from typing import Protocol

from simcluster.api.port import Object
from simcluster.node import images
from simcluster.node.context import NodeContext

_LONGEST_BACKOFF_S = 300.0
_RETRY_S = 12.0


class Waiter(Protocol):
    """The container that waits for its image."""

    def emit(self, kind: str, reason: str, message: str) -> None:
        """Report an event about the container."""
        ...

    def wait_as(self, reason: str, message: str = "") -> None:
        """Show why the container waits."""
        ...

    async def sleep(self, delay_s: float) -> None:
        """Sleep until the time is over or the container is stopped."""
        ...

    def stopped(self) -> bool:
        """The container will not be started any more."""
        ...


async def have_image(spec: Object, node: NodeContext, waiter: Waiter) -> bool:
    """Wait until the image is on the node; False where the container was stopped before."""
    name = str(spec["image"])
    policy = spec.get("imagePullPolicy") or images.default_policy(name)
    backoff_s = node.site.timing.image_backoff_s
    while not waiter.stopped():
        try:
            image = images.parse_image(name)
        except images.InvalidImageError as invalid:
            await _trouble(node, waiter, "InvalidImageName", str(invalid), "InspectFailed")
            continue
        if node.images.has(image) and policy != "Always":
            text = f'Container image "{name}" already present on machine and can be accessed by the pod'
            waiter.emit("Normal", "Pulled", text)
            return True
        if policy == "Never":
            text = f'Container image "{name}" is not present with pull policy of Never'
            await _trouble(node, waiter, "ErrImageNeverPull", text, "ErrImageNeverPull")
            continue
        error = _pull(name, image, node, waiter)
        if not error:
            return True
        await _back_off(name, error, backoff_s, waiter)
        backoff_s = min(backoff_s * 2, node.site.timing.s(_LONGEST_BACKOFF_S))
    return False


async def _trouble(node: NodeContext, waiter: Waiter, reason: str, text: str, event: str) -> None:
    waiter.emit("Warning", event, text)
    waiter.emit("Warning", "Failed", f"Error: {reason}")
    waiter.wait_as(reason, text)
    await waiter.sleep(node.site.timing.s(_RETRY_S))


def _pull(name: str, image: images.Image, node: NodeContext, waiter: Waiter) -> str:
    waiter.emit("Normal", "Pulling", f'Pulling image "{name}"')
    error = node.images.pull(image)
    if error:
        waiter.emit("Warning", "Failed", f'Failed to pull image "{name}": {error}')
        waiter.emit("Warning", "Failed", "Error: ErrImagePull")
        return error
    took = "in 12ms (12ms including waiting). Image size: 169134827 bytes."
    waiter.emit("Normal", "Pulled", f'Successfully pulled image "{name}" {took}')
    return ""


async def _back_off(name: str, error: str, backoff_s: float, waiter: Waiter) -> None:
    """A real kubelet shows the attempt's error first, and the back-off when it next looks at the pod."""
    waiter.wait_as("ErrImagePull", error)
    await waiter.sleep(backoff_s / 2)
    if waiter.stopped():
        return
    waiter.emit("Normal", "BackOff", f'Back-off pulling image "{name}"')
    waiter.emit("Warning", "Failed", "Error: ImagePullBackOff")
    waiter.wait_as("ImagePullBackOff", f'Back-off pulling image "{name}": ErrImagePull: {error}')
    await waiter.sleep(backoff_s / 2)
