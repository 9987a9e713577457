"""What does a container see that asked for one GPU, and what a second one of the same pod that asked for none?

The second container runs this program too, looks, and leaves what it saw in a folder that both share.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Dict

from workloads.contract import Fact, Measurement, could_not, emit, identity, leave_on_sigterm, parameters
from workloads.gpus_seen import Seen, look, samples_of

PARAMETERS = ("nvidia_smi_timeout_s", "neighbour_within_s")
POD = {"gpus": 1, "containers": ["bystander"], "tempted": True}
SHARED = Path("/gpuproof/shared")
_LOOK_EVERY_S = 0.1


def tell(folder: Path) -> None:
    """As the second container: write down what is seen here, whole or not at all."""
    seen = look(float(parameters().get("nvidia_smi_timeout_s", 30)))
    draft = folder / "bystander.part"
    draft.write_text(json.dumps({"by": seen.by, "uuids": seen.uuids}), encoding="utf-8")
    draft.rename(folder / "bystander.json")


def told(folder: Path, within_s: float) -> Seen:
    """What the second container saw; without its word nothing was measured."""
    place = folder / "bystander.json"
    deadline = time.monotonic() + within_s
    while not place.is_file():
        if time.monotonic() > deadline:
            could_not("the pod's second container has not told within %g s what it sees" % within_s)
        time.sleep(_LOOK_EVERY_S)
    found = json.loads(place.read_text(encoding="utf-8"))
    return Seen(found["by"], found["uuids"])


def measure(folder: Path = SHARED) -> Measurement:
    """Both looks."""
    options = parameters()
    seen = look(float(options.get("nvidia_smi_timeout_s", 30)))
    other = told(folder, float(options.get("neighbour_within_s", 60)))
    samples = [*samples_of(seen, 1, "measure"), *samples_of(other, 0, "bystander")]
    facts: Dict[str, Fact] = {
        "uuids_seen_asking_one": list(seen.uuids) or ["none"],
        "uuids_seen_beside": list(other.uuids) or ["none"],
    }
    return Measurement(
        "isolation_one", world_size=1, hosts=1, samples=tuple(samples), facts=facts, environment={}, **identity()
    )


if __name__ == "__main__":
    leave_on_sigterm()
    if os.environ.get("GPUPROOF_CONTAINER"):
        tell(SHARED)
    else:
        emit(measure())
