"""Does a pod come up whose image its node has not had before?

It only says that it ran; how the image came to the node is the kubelet's to tell.
"""

from __future__ import annotations

import platform

from workloads.contract import Measurement, emit, identity, leave_on_sigterm

PARAMETERS = ("image",)
POD = {"gpus": "none", "image": True}


def measure(name: str) -> Measurement:
    """That this image's Python runs here."""
    who = identity()
    return Measurement(
        name, who["run_id"], who["node"], who["pod"], 1, 1, environment={"python": platform.python_version()}
    )


if __name__ == "__main__":
    leave_on_sigterm()
    emit(measure("image_first"))
