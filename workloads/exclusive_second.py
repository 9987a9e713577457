"""Which GPU does the second of two pods on a node get, while the first one keeps its own?"""

from __future__ import annotations

from workloads.contract import emit, leave_on_sigterm
from workloads.exclusive_first import measure

PARAMETERS = ("nvidia_smi_timeout_s",)
POD = {"gpus": 1, "beside": True}


if __name__ == "__main__":
    leave_on_sigterm()
    emit(measure("exclusive_second", "second"))
