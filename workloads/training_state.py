"""The state of a training as named tensors, whole or in pieces: their checksums and their copies.

It must not know files, or what the tensors are for. Python 3.9 syntax; torch.
"""

from __future__ import annotations

import ctypes
import hashlib
from typing import Any, Dict, Mapping

from torch.distributed.tensor import DTensor

Tensors = Dict[str, Any]
"""Name to torch.Tensor."""


def checksums(state: Mapping[str, Any]) -> Dict[str, str]:
    """Tensor name to the checksum of its bytes, shape and type: the first 16 hex digits of SHA-256. Where ranks hold
    pieces of a tensor it is that of the whole, and every rank calls this."""
    found = {}
    for name, tensor in state.items():
        content = _whole(tensor.detach()).cpu().contiguous()
        digest = hashlib.sha256(("%s %s " % (tuple(content.shape), content.dtype)).encode("ascii"))
        # Straight from memory: numpy, which would hand the bytes out, need not be in the image.
        digest.update(ctypes.string_at(content.data_ptr(), content.numel() * content.element_size()))
        found[name] = digest.hexdigest()[:16]
    return found


def by_part(sums: Mapping[str, str]) -> Dict[str, str]:
    """One checksum for each part of the state: weights, optimizer, rank-0.random and so on; names count too."""
    parts: Dict[str, Any] = {}
    for name, sum_ in sorted(sums.items()):
        words = name.split(".")
        part = ".".join(words[:2]) if words[0].startswith("rank-") else words[0]
        parts.setdefault(part, hashlib.sha256()).update(("%s=%s " % (name, sum_)).encode("utf-8"))
    return {part: digest.hexdigest()[:16] for part, digest in parts.items()}


def copied(state: Mapping[str, Any]) -> Tensors:
    """The tensors as they are now, in the host's memory."""
    return {name: _copied(tensor.detach()) for name, tensor in state.items()}


def in_pieces(state: Mapping[str, Any]) -> bool:
    """Whether ranks hold pieces of its weights and no rank a whole one."""
    weights = [tensor for name, tensor in state.items() if name.startswith("weights.")]
    return all(isinstance(tensor, DTensor) for tensor in weights)


def _copied(tensor: Any) -> Any:
    if not isinstance(tensor, DTensor):
        return tensor.to("cpu", copy=True)
    mine = tensor.to_local().to("cpu", copy=True)
    whole, strides = tensor.shape, tensor.stride()
    return DTensor.from_local(mine, tensor.device_mesh, tensor.placements, run_check=False, shape=whole, stride=strides)


def _whole(tensor: Any) -> Any:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def of_rank(own: Mapping[str, Any], rank: int) -> Tensors:
    """A rank's own tensors by the names that they have among those of all."""
    return {"rank-%d.%s" % (rank, name): tensor for name, tensor in own.items()}
