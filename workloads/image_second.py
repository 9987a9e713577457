"""Does a second pod come up with the image that the first one brought to its node?"""

from __future__ import annotations

from workloads.contract import emit, leave_on_sigterm
from workloads.image_first import measure

PARAMETERS = ("image",)
POD = {"gpus": "none", "image": True}


if __name__ == "__main__":
    leave_on_sigterm()
    emit(measure("image_second"))
