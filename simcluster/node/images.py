"""Which images a node has or can pull, and what it says when it cannot (golden 11).

Owns image names and pull outcomes. It must not know pods; nothing is ever downloaded.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Collection
from dataclasses import dataclass, field

PYTHON_IMAGE = "simcluster.local/python:3"
TORCH_IMAGE = "simcluster.local/torch:2"
EXPORTER_IMAGE = "simcluster.local/dcgm-exporter:4"
KNOWN_IMAGES = (PYTHON_IMAGE, TORCH_IMAGE, EXPORTER_IMAGE)

CARRIED = {TORCH_IMAGE: {"CUDA_VERSION": "13.0.2", "NVIDIA_VISIBLE_DEVICES": "all"}}
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
    """The images of one node: `present` those preloaded, `refused` those that the registry will not give (a fault)."""

    present: set[str] = field(default_factory=lambda: set(KNOWN_IMAGES))
    available: Collection[str] = KNOWN_IMAGES
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

    def pull(self, image: Image) -> str:
        """The error of an attempt to pull, or "" where it worked and the image is present now."""
        name = image.full
        prefix = f'failed to pull and unpack image "{name}": failed to resolve reference "{name}": '
        if name in self.refused:
            return (
                prefix + "pull access denied, repository does not exist or may require authorization: "
                "authorization failed: no basic auth credentials"
            )
        if name in self.available or name in self.present:
            self.present.add(name)
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
