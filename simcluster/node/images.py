"""Which images a node has or can pull, and what it says when it cannot (golden 11).

Owns image names and pull outcomes. It must not know pods; nothing is ever downloaded.
"""

from __future__ import annotations

import asyncio
import copy
import re
from collections.abc import Collection
from dataclasses import dataclass, field

PYTHON_IMAGE = "simcluster.local/python:3"
TORCH_IMAGE = "simcluster.local/torch:2"
EXPORTER_IMAGE = "simcluster.local/dcgm-exporter:4"
KNOWN_IMAGES = (PYTHON_IMAGE, TORCH_IMAGE, EXPORTER_IMAGE)
"""What every node has from the beginning and never lets go of."""

RELEASED_IMAGE = "simcluster.local/torch:2-released"
"""The registry has it, no node does: what a team's next release is to a cluster."""

IMAGE_BYTES = 169_134_827
"""Of every image there is (golden 29)."""

CARRIED = {name: {"CUDA_VERSION": "13.0.2", "NVIDIA_VISIBLE_DEVICES": "all"} for name in (TORCH_IMAGE, RELEASED_IMAGE)}
"""What an image sets in its containers' environment, as NVIDIA's CUDA images and all that are made from them do."""

_RESOLVER = ("10.250.0.1:40753", "10.96.0.10:53")
"""A node's and its name server's address in the words of a look-up that nobody answers."""

_REPOSITORY = re.compile(r"^[a-z0-9]+(?:[._-]+[a-z0-9]+)*$")


@dataclass(frozen=True)
class Image:
    """A name as a runtime understands it: registry, repository path, tag or digest."""

    registry: str
    repository: str
    reference: str

    @property
    def full(self) -> str:
        """With its registry and tag."""
        separator = "@" if self.reference.startswith("sha256:") else ":"
        return f"{self.registry}/{self.repository}{separator}{self.reference}"


class InvalidImageError(Exception):
    """Not an image name; the text is the kubelet's."""


def parse_image(text: str) -> Image:
    """Split a name; `InvalidImageError` where a real kubelet would say InvalidImageName."""
    name, _, digest = text.partition("@")
    head, _, tail = name.rpartition("/")
    last, _, tag = tail.partition(":")
    path = f"{head}/{last}" if head else last
    first, _, rest = path.partition("/")
    if rest and ("." in first or ":" in first or first == "localhost"):
        registry, repository = first, rest
    else:
        registry, repository = "docker.io", path if rest else f"library/{path}"
    for part in repository.split("/"):
        if not _REPOSITORY.match(part):
            # A first component in capitals is taken for a host, and only what follows it is told.
            shown = rest if rest and first != first.lower() else repository
            told = f"repository name ({shown}) must be lowercase" if part != part.lower() else ""
            raise InvalidImageError(
                f'Failed to apply default image tag "{text}": couldn\'t parse image name "{text}": '
                f"invalid reference format{': ' + told if told else ''}"
            )
    return Image(registry, repository, digest or tag or "latest")


def default_policy(text: str) -> str:
    """imagePullPolicy where a pod names none: Always for :latest or no tag."""
    tag = text.rpartition("/")[2].partition("@")[0].partition(":")[2]
    return "Always" if tag in ("", "latest") and "@" not in text else "IfNotPresent"


@dataclass
class ImageStore:
    """The images of one node: `present` those it has, `refused` those that the registry will not give (a fault).

    `registry_bps` is what the path from the registry brings, in bytes/s. `collects`: an image that no pod uses any more
    is removed at once, as a kubelet short of disk does with those that are not pinned.
    """

    present: set[str] = field(default_factory=lambda: set(KNOWN_IMAGES))
    available: Collection[str] = (*KNOWN_IMAGES, RELEASED_IMAGE)
    registry_bps: float = 340e6
    collects: bool = False
    users: dict[str, set[str]] = field(default_factory=dict)
    """By image the uids of the pods that use it."""
    pulling: asyncio.Lock = field(default_factory=asyncio.Lock)
    """A kubelet pulls one image after another (serializeImagePulls)."""
    refused: set[str] = field(default_factory=set)
    carried: dict[str, dict[str, str]] = field(default_factory=lambda: copy.deepcopy(CARRIED))
    """The environment that this node's copy of an image sets: copies of one tag may differ."""

    def has(self, image: Image) -> bool:
        """Whether the image is on the node."""
        return image.full in self.present

    def refuse(self, name: str) -> None:
        """From now on the registry refuses this image and the node's copy is gone."""
        self.refused.add(name)
        self.present.discard(name)

    def use(self, image: Image, pod: str) -> None:
        """A pod has a container of this image."""
        self.users.setdefault(image.full, set()).add(pod)

    def let_go(self, pod: str) -> None:
        """A pod has ended; a node that collects removes what nobody uses now."""
        for name, pods in self.users.items():
            pods.discard(pod)
            if self.collects and not pods and name not in KNOWN_IMAGES:
                self.present.discard(name)

    def transfer_s(self, image: Image) -> float:
        """How long its content takes to come; nothing where all of it is here."""
        return 0.0 if self.has(image) else IMAGE_BYTES / self.registry_bps

    def add(self, image: Image) -> None:
        """Its content has come."""
        self.present.add(image.full)

    def refusal(self, image: Image) -> str:
        """The error of an attempt to pull, or "" where the registry gives the image."""
        name = image.full
        prefix = f'failed to pull and unpack image "{name}": failed to resolve reference "{name}": '
        if name in self.refused:
            return (
                prefix + "pull access denied, repository does not exist or may require authorization: "
                "authorization failed: no basic auth credentials"
            )
        if name in self.available or name in self.present:
            return ""
        if any(known.startswith(image.registry + "/") for known in self.available):
            return prefix + f"{name}: not found"
        scheme = "http" if image.registry.startswith("localhost") else "https"
        url = f"{scheme}://{image.registry}/v2/{image.repository}/manifests/{image.reference}"
        request = f'failed to do request: Head "{url}": '
        if image.registry.startswith("localhost"):
            return prefix + request + "dial tcp 127.0.0.1:80: connect: connection refused"
        query = f"read udp {_RESOLVER[0]}->{_RESOLVER[1]}"
        return prefix + request + f"dial tcp: lookup {image.registry} on {_RESOLVER[1]}: {query}: i/o timeout"
