"""Does a pod come up whose image its node has not had before?

It only says that it ran; how the image came to the node is the kubelet's to tell.
"""

from __future__ import annotations

import platform

from workloads.contract import Measurement, emit, leave_on_sigterm, of_one_pod

PARAMETERS = ("image",)
POD = {"gpus": "none", "image": True}


def measure(name: str) -> Measurement:
    """That this image's Python runs here."""
    return of_one_pod(name, environment={"python": platform.python_version()})


if __name__ == "__main__":
    leave_on_sigterm()
    emit(measure("image_first"))
