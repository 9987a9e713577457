"""Getting a container's image, with the states and events of a real kubelet that cannot (golden 11).

Owns the pull policy and the back-off. It must not know processes.
"""

from __future__ import annotations

import time
from typing import Protocol

from simcluster.api.port import Object
from simcluster.node import images
from simcluster.node.context import NodeContext

_LONGEST_BACKOFF_S = 300.0
_RETRY_S = 12.0


class Waiter(Protocol):
    """The container that waits for its image."""

    @property
    def pod_uid(self) -> str:
        """Whose container it is."""
        ...

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
        if policy == "Never" and not node.images.has(image):
            text = f'Container image "{name}" is not present with pull policy of Never'
            await _trouble(node, waiter, "ErrImageNeverPull", text, "ErrImageNeverPull")
            continue
        if _is_here(name, image, policy, node, waiter):
            return True
        asked = time.monotonic()
        async with node.images.pulling:
            # Another container may have got it meanwhile.
            if _is_here(name, image, policy, node, waiter):
                return True
            error = await _pull(name, image, node, waiter, asked)
        if not error:
            node.images.use(image, waiter.pod_uid)
            return True
        await _back_off(name, error, backoff_s, waiter)
        backoff_s = min(backoff_s * 2, node.site.timing.s(_LONGEST_BACKOFF_S))
    return False


def _is_here(name: str, image: images.Image, policy: str, node: NodeContext, waiter: Waiter) -> bool:
    if not node.images.has(image) or policy == "Always":
        return False
    text = f'Container image "{name}" already present on machine and can be accessed by the pod'
    waiter.emit("Normal", "Pulled", text)
    node.images.use(image, waiter.pod_uid)
    return True


async def _trouble(node: NodeContext, waiter: Waiter, reason: str, text: str, event: str) -> None:
    waiter.emit("Warning", event, text)
    waiter.emit("Warning", "Failed", f"Error: {reason}")
    waiter.wait_as(reason, text)
    await waiter.sleep(node.site.timing.s(_RETRY_S))


async def _pull(name: str, image: images.Image, node: NodeContext, waiter: Waiter, asked: float) -> str:
    waiter.emit("Normal", "Pulling", f'Pulling image "{name}"')
    began = time.monotonic()
    transfer_s = node.images.transfer_s(image)
    error = node.images.refusal(image)
    if error:
        waiter.emit("Warning", "Failed", f'Failed to pull image "{name}": {error}')
        waiter.emit("Warning", "Failed", "Error: ErrImagePull")
        return error
    if transfer_s:
        await waiter.sleep(transfer_s)
    node.images.add(image)
    now = time.monotonic()
    took = f"in {go_duration(now - began)} ({go_duration(now - asked)} including waiting)"
    size = f"Image size: {images.IMAGE_BYTES} bytes."
    waiter.emit("Normal", "Pulled", f'Successfully pulled image "{name}" {took}. {size}')
    return ""


def go_duration(seconds: float) -> str:
    """A duration as Go writes it, in whole milliseconds: 812ms, 1.5s, 2m3.04s."""
    milliseconds = max(int(seconds * 1000), 1)
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, rest = divmod(milliseconds, 60_000)
    shown = f"{rest / 1000:.3f}".rstrip("0").rstrip(".") + "s"
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{shown}"
    return f"{minutes}m{shown}" if minutes else shown


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
