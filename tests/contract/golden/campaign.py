"""Runs all wanted scenarios once a session, however many workers pytest has, and keeps what differed.

Owns which simulated cluster a scenario runs on and how many run side by side. It must not know pytest.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.contract.cluster import Cluster, open_cluster
from tests.contract.golden.compare import differences
from tests.contract.golden.replay import Replay
from tests.contract.golden.special import KNOWN, UNCLAIMED, actions, options
from tests.contract.simulator import simulated

HERE = Path(__file__).parent
IMAGE = "simcluster.local/python:3"
TIME_SCALE = 0.2
SIDE_BY_SIDE = 12
CALMLY = (4, 2, 1)
"""How many side by side in the further attempts of what differed: a real difference differs in each of them."""
PATIENCE = 2.5
_COMMON = "common"

Json = Any
Differences = dict[str, list[str]]


def scenarios() -> list[str]:
    """All recorded scenarios."""
    return sorted(path.stem for path in (HERE / "expected").glob("*.json"))


def claimed() -> list[str]:
    """The scenarios that the simulated cluster claims to replay."""
    return [name for name in scenarios() if name not in UNCLAIMED]


def once(shared: Path, wanted: Sequence[str]) -> Differences:
    """What differed, by scenario. The first caller replays; those in other processes wait for its result."""
    result = shared / "golden.json"
    with (shared / "golden.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not result.exists():
            result.write_text(json.dumps(_replay_all(shared, wanted)), encoding="utf-8")
    found: Differences = json.loads(result.read_text(encoding="utf-8"))
    return found


def _replay_all(shared: Path, wanted: Sequence[str]) -> Differences:
    groups: dict[str, list[str]] = {}
    for name in sorted(wanted, key=_length, reverse=True):  # the longest first: they decide when the last one ends
        groups.setdefault(options(name).get("cluster", _COMMON), []).append(name)
    found: Differences = {}
    with ThreadPoolExecutor(len(groups) or 1) as pool:
        for part in pool.map(lambda group: _on_one_cluster(shared / f"golden-{group}", group, groups[group]), groups):
            found |= part
    return found


def _length(name: str) -> int:
    return int(_expected(name)["length"])


def _expected(name: str) -> Json:
    return json.loads((HERE / "expected" / f"{name}.json").read_text(encoding="utf-8"))


def _on_one_cluster(directory: Path, group: str, names: Sequence[str]) -> Differences:
    width = SIDE_BY_SIDE if group == _COMMON else 1
    with _cluster(directory) as cluster:
        found = _side_by_side(cluster, names, width, 1.0)
        # On a busy machine a container's short life may be over before its first status is written: again, calmly.
        for calm in CALMLY:
            again = [name for name in names if found[name] and name not in KNOWN]
            found |= _side_by_side(cluster, again, min(width, calm), PATIENCE)
        return found


def _side_by_side(cluster: Cluster, names: Sequence[str], width: int, patience: float) -> Differences:
    with ThreadPoolExecutor(max(width, 1)) as pool:
        return dict(zip(names, pool.map(lambda name: replay(cluster, name, patience), names), strict=True))


@contextlib.contextmanager
def _cluster(directory: Path) -> Iterator[Cluster]:
    topology = str(HERE / "topology.toml")
    with simulated(directory, time_scale=TIME_SCALE, topology=topology) as kubeconfig:
        yield open_cluster(kubeconfig, IMAGE, TIME_SCALE, simulated=True, kubectl_binary=None)


def _extra(name: str) -> list[Json]:
    return [{"seen": [], **step} for step in options(name).get("extra", ())]


def replay(cluster: Cluster, name: str, patience: float = 1.0) -> list[str]:
    """Replay one scenario; where it differed, or why it broke off."""
    expected = _expected(name)
    expected["steps"] = sorted([*expected["steps"], *_extra(name)], key=lambda step: int(step["at"]))
    try:
        run = Replay(cluster, expected, actions(name), options(name), patience)
        seen = run.run()
    except Exception:  # noqa: BLE001 - one broken replay must not hide the result of the others
        return [traceback.format_exc()]
    return differences(expected, seen, run.unit, options(name), run.names)
