"""A small whole profile as text, and ways to change it: what a person would write, not what a parser returns."""

import datetime as dt
from collections.abc import Mapping
from pathlib import Path

from gpuproof.limits import Asks
from gpuproof.profile import Profile, ProfileError, load_profile

TODAY = dt.date(2026, 11, 30)
KNOWN = {"speed": Asks(cluster=False, nodes=True), "words": Asks(cluster=True, nodes=True)}

LIMIT = """\
[[limit]]
check      = "speed"
metric     = "busbw"
unit       = "GB/s"
per        = "gpu"
at         = { bytes = 1024, statistic = "median" }
min        = 400
severity   = "fail"
provenance = { kind = "derived", formula = "by the test" }
"""

WORDS = """\
[[limit]]
check      = "words"
fact       = "driver"
expected   = "gpu_driver"
severity   = "fail"
provenance = { kind = "derived", formula = "by the test" }
"""

HEAD = """\
schema  = 1
profile = "test"

[cluster]
gpu_product   = "SIMULATED-GPU"
gpus_per_node = 2
nodes         = 4
gpu_resource  = "nvidia.com/gpu"
gpu_driver    = "550.107.02"
device        = "cpu"
rdma          = { resource = "rdma/ib", per_node = 8, rate_gbps = 400, link_layer = "InfiniBand" }

[scope]
pool  = { "node-pool" = "train" }
cover = "all"

[pod]
image = "registry.example/torch:2"

[checks]
speed = "required"
words = "required"

[workload.speed]
sizes = [1024, 2048]

[deadlines]
scheduling_s = 1
pulling_s    = 2
starting_s   = 3
running_s    = 4
run_s        = 10

"""

GOOD = HEAD + LIMIT + "\n" + WORDS

WAIVER = """
[[waiver]]
check   = "speed"
subject = "gpu-01"
owner   = "the network team"
reason  = "cable on order"
expires = 2026-12-24
"""


def load(directory: Path, text: str, **others: str) -> Profile:
    """Load a profile from this text; `others` are further files beside it, by name without ending."""
    for name, content in others.items():
        (directory / f"{name}.toml").write_text(content)
    path = directory / "profile.toml"
    path.write_text(text)
    return load_profile(path, known_checks=KNOWN, today=TODAY)


def changed(old: str, new: str, text: str = GOOD) -> str:
    """The profile with one passage replaced; the passage must be there once."""
    assert text.count(old) == 1, f"{old!r} is {text.count(old)} times in the profile"
    return text.replace(old, new)


def refused(directory: Path, text: str, others: Mapping[str, str] | None = None) -> ProfileError:
    """The refusal of this text; fails if it loads."""
    try:
        load(directory, text, **(others or {}))
    except ProfileError as error:
        return error
    message = "the profile was loaded"
    raise AssertionError(message)
