"""Where the ranks of a training meet: all of them, each once, in a round that nobody slips into later.

It must not know what they do together. Python 3.9 syntax; torch.
"""

from __future__ import annotations

import datetime as dt
import time
import uuid
from dataclasses import dataclass
from typing import Any, Optional

import torch.distributed as dist

_RETRY_S = 0.2
_stores: Any = dist


def prefixed(name: str, store: Any) -> Any:
    """The part of a store that is one round's."""
    return _stores.PrefixStore(name, store)


@dataclass(frozen=True)
class Place:
    """Which rank this is, of how many, and where the others meet."""

    rank: int
    world: int
    local_rank: int
    master: str
    port: int
    node: str
    pod: str


def meet(place: Place, within_s: float) -> Any:
    """(store, name of the round) once all ranks are there, each once; raises when they are not in time."""
    until = time.monotonic() + within_s
    last: Optional[BaseException] = None
    while time.monotonic() < until:
        try:
            return _one_round(place, max(1.0, until - time.monotonic()))
        except (RuntimeError, ValueError, OSError) as error:  # torch's errors of stores are RuntimeErrors
            last = error
            time.sleep(_RETRY_S)
    raise RuntimeError("rank %d did not meet the others within %g s: %s" % (place.rank, within_s, last))


def _one_round(place: Place, within_s: float) -> Any:
    first = place.rank == 0
    wait = dt.timedelta(seconds=within_s if first else min(within_s, 5.0))
    store = _stores.TCPStore(place.master, place.port, None, first, wait, wait_for_workers=False)
    if first:
        store.set("round", uuid.uuid4().hex)
    nonce = store.get("round").decode("ascii")
    if store.add("%s/%d" % (nonce, place.rank), 1) != 1:
        raise RuntimeError("rank %d has been here already: the round is over, or this is a second copy" % place.rank)
    others = ["%s/%d" % (nonce, rank) for rank in range(place.world)]
    store.wait(others, dt.timedelta(seconds=within_s))
    return store, nonce
