"""Claims in a running cluster: real file systems with sizes, rates, credit and faults, seen by ordinary programs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from simcluster.faults.file import FaultError, read_fault
from simcluster.hardware.storage import PREFIX, SettingError, Settings, from_parameters
from tests.simcluster.node.cluster_process import (
    Json,
    Namespace,
    RefusedError,
    SimulatedCluster,
    running,
    terminated,
    wait_for,
)

_numbers = itertools.count(1)
FAULT = """
id = "stale-storage"
title = "t"
mechanism = "m"
source = "this test"
at = { event = "measuring", node = "gpu-01", container = "strike" }
[[action]]
do = "trouble-storage"
storage_class = "local-rwo"
settings = { stale = true }
[[expects]]
check = "c"
subject = "all"
verdict = "FAIL"
"""


WRITES = """
import errno, os
try:
    open('a', 'w').write('x' * 70000)
except OSError as error:
    print(errno.errorcode[error.errno])
"""
READS = """
data = open('a', 'rb').read(70000)
print(len(data), data.count(b'x'))
"""
ONE_NODE = """
id = "one-node"
title = "t"
mechanism = "m"
source = "this test"
[[action]]
do = "trouble-storage"
storage_class = "shared-faulty"
node = "gpu-02"
settings = { flip_every = 1 }
[[action]]
do = "trouble-storage"
storage_class = "shared-faulty"
node = "gpu-04"
settings = { full_after_bytes = 65536 }
[[expects]]
check = "c"
subject = "all"
verdict = "FAIL"
"""


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedCluster]:
    folder = tmp_path_factory.mktemp("storage")
    (folder / "stale-storage.toml").write_text(FAULT)
    (folder / "one-node.toml").write_text(ONE_NODE)
    arguments = ["--time-scale", "0.05", "--fault", str(folder / "stale-storage.toml")]
    arguments += ["--fault", str(folder / "one-node.toml")]
    with running(folder / "run", *arguments) as started:
        yield started


@pytest.fixture
def ns(cluster: SimulatedCluster) -> Namespace:
    return Namespace(cluster, f"s{next(_numbers)}")


def claim(
    ns: Namespace, name: str = "data", size: str = "64Mi", storage_class: str = "shared-rwx", **settings: str
) -> None:
    annotations = {PREFIX + key.replace("_", "-"): value for key, value in settings.items()}
    mode = "ReadWriteOnce" if storage_class.startswith("local") else "ReadWriteMany"
    ns.create(
        "persistentvolumeclaims",
        {
            "metadata": {"name": name, "annotations": annotations},
            "spec": {
                "storageClassName": storage_class,
                "accessModes": [mode],
                "resources": {"requests": {"storage": size}},
            },
        },
    )


def user(ns: Namespace, name: str, program: str, node: str = "gpu-01", container: str = "c", wait: bool = True) -> Json:
    words = ["python3", "-c", program] if "\n" in program or "import" in program else ["sh", "-c", program]
    mounted: dict[str, Any] = {
        "name": container,
        "command": words,
        "volumeMounts": [{"name": "v", "mountPath": "/data"}],
        "workingDir": "/data",
    }
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    ns.pod(name, mounted, volumes=volumes, nodeSelector={"kubernetes.io/hostname": node})
    return ns.ended(name) if wait else {}


def test_two_nodes_share_one_file_system_of_the_size_that_was_asked_for(ns: Namespace) -> None:
    claim(ns, size="8Mi")
    user(ns, "writer", "echo hello > a; mv a b; ln b c; df -k --output=size . | tail -1")
    assert ns.log("writer").split() == ["8192"]
    user(ns, "reader", "cat b; stat -c %h c; head -c 9000000 /dev/zero > big; echo $?", node="gpu-02")
    assert ns.log("reader").split()[:2] == ["hello", "2"]
    assert "No space left on device" in ns.log("reader")


def test_a_bound_claim_grows_where_its_class_allows_it(ns: Namespace) -> None:
    def ask(name: str, size: str) -> str:
        body = {"spec": {"resources": {"requests": {"storage": size}}}}
        kind = "application/merge-patch+json"
        try:
            ns.api.call("PATCH", ns.path("persistentvolumeclaims", name), body, kind)
        except RefusedError as refused:
            return f"{refused.status['code']} {refused}"
        return ""

    def has(name: str, holds: Callable[[Json], bool]) -> Json:
        def found() -> Json | None:
            got = ns.get("persistentvolumeclaims", name)
            return got if got is not None and holds(got["status"]) else None

        return wait_for(found, f"{name} as it should be")

    claim(ns, size="8Mi")
    claim(ns, name="fixed", size="8Mi", storage_class="shared-faulty")
    user(ns, "before", "df -k --output=size . | tail -1")
    has("fixed", lambda status: status.get("phase") == "Bound")
    assert ask("fixed", "16Mi").startswith(
        '403 persistentvolumeclaims "fixed" is forbidden: only dynamically provisioned'
    )
    assert ask("data", "16Mi") == ""
    grown = has("data", lambda status: status["capacity"]["storage"] == "16Mi")
    assert not grown["status"].get("conditions")
    volume = ns.api.call("GET", f"/api/v1/persistentvolumes/{grown['spec']['volumeName']}")
    assert volume["spec"]["capacity"]["storage"] == "16Mi"
    assert "can not be less than status.capacity" in ask("data", "8Mi")
    user(ns, "after", "df -k --output=size . | tail -1")
    assert [ns.log(name).strip() for name in ("before", "after")] == ["8192", "16384"]


def test_a_fault_of_one_node_leaves_the_others_their_rates_and_their_data(ns: Namespace) -> None:
    claim(ns, storage_class="shared-faulty", visible_after_s="0", lose_every="0")
    user(ns, "writer", WRITES, node="gpu-01")
    user(ns, "right", READS, node="gpu-03")
    user(ns, "damaged", READS, node="gpu-02")
    assert ns.log("right").split() == ["70000", "70000"]
    assert ns.log("damaged").split() == ["70000", "69999"], "one bit on the way, for this node alone"
    user(ns, "full", WRITES.replace("'a'", "'b'"), node="gpu-04")
    assert ns.log("full").strip() == "ENOSPC"


def test_a_rate_holds_and_idle_time_earns_credit(ns: Namespace) -> None:
    claim(ns, write_mib_per_s="8", burst_mib="4", read_mib_per_s="8")
    program = """
import os, time
def write(mib):
    start = time.monotonic()
    with open("/data/f", "wb", buffering=0) as file:
        for _ in range(mib): file.write(bytes(1 << 20))
    return time.monotonic() - start
write(8)
slow = write(4)
time.sleep(0.6)
print(slow, write(4))
start = time.monotonic()
data = open("/data/f", "rb", buffering=0).read()
for _ in range(3): open("/data/f", "rb", buffering=0).read()
print(time.monotonic() - start)
"""
    assert terminated(user(ns, "p", program))["exitCode"] == 0
    slow, fast, reading = (float(word) for word in ns.log("p").split())
    assert slow > 0.45, "4 MiB at 8 MiB/s without credit"
    assert fast < slow / 2, "the credit of the pause"
    assert reading > 1.3, "16 MiB less 4 MiB of credit"


@pytest.mark.parametrize(
    ("settings", "program", "told"),
    [
        ({"no_rename": "true"}, "import os\nopen('a', 'w').close()\nos.rename('a', 'b')", "Operation not supported"),
        ({"no_lock": "true"}, "import fcntl\nfcntl.flock(open('a', 'w'), fcntl.LOCK_EX)", "No locks available"),
        ({"no_lock": "true"}, "import fcntl\nfcntl.lockf(open('a', 'w'), fcntl.LOCK_EX)", "No locks available"),
        ({"full": "true"}, "import os\nopen('a', 'w').write('x')", "No space left on device"),
        ({"stale": "true"}, "import os\nopen('a', 'w')", "Stale file handle"),
    ],
)
def test_faults_give_the_errors_of_real_file_systems(
    ns: Namespace, settings: dict[str, str], program: str, told: str
) -> None:
    claim(ns, **settings)
    assert terminated(user(ns, "p", program))["exitCode"] != 0
    assert told in ns.log("p")


def test_what_excludes_others_can_stay_on_its_node(ns: Namespace) -> None:
    claim(ns, local_lock="true", local_create="true")
    program = """
import fcntl, os, sys, time
def attempt(name, act):
    try: act()
    except OSError as error: print(name, "refused")
    else: print(name, "granted")
held = open("locked", "a")
attempt("new", lambda: os.open("new", os.O_CREAT | os.O_EXCL | os.O_RDWR))
attempt("again", lambda: os.open("new", os.O_CREAT | os.O_EXCL | os.O_RDWR))
attempt("flock", lambda: fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB))
attempt("twice", lambda: fcntl.flock(open("locked"), fcntl.LOCK_EX | fcntl.LOCK_NB))
attempt("record", lambda: fcntl.lockf(held, fcntl.LOCK_EX | fcntl.LOCK_NB))
"""
    first = program + "sys.stdout.flush()\ntime.sleep(3600)"
    user(ns, "one", first, wait=False)
    ns.until("one", lambda pod: pod["status"]["phase"] == "Running", "runs")
    wait_for(lambda: len(ns.log("one").splitlines()) == 5, "the first pod holds what it could have")
    assert terminated(user(ns, "two", program, node="gpu-02"))["exitCode"] == 0
    told = ["new granted", "again refused", "flock granted", "twice refused", "record granted"]
    assert ns.log("one").splitlines() == ns.log("two").splitlines() == told


def test_a_shell_meets_them_too(ns: Namespace) -> None:
    claim(ns, no_rename="true")
    user(ns, "p", "echo x > a; mv a b; cat a; echo y > /tmp/y; mv /tmp/y /tmp/z; cat /tmp/z")
    assert "x\n" not in ns.log("p") or "not supported" in ns.log("p")
    assert ns.log("p").endswith("y\n"), "other file systems are left alone"


def test_a_lossy_volume_reports_success_and_has_nothing(ns: Namespace) -> None:
    claim(ns, storage_class="shared-faulty")
    program = (
        "import os\nfor i in range(6):\n  with open(f'f{i}', 'w') as f: f.write('x')\nprint(sorted(os.listdir('.')))"
    )
    assert terminated(user(ns, "p", program))["exitCode"] == 0
    assert ns.log("p").strip() == "['f0', 'f1', 'f3', 'f4']"
    user(ns, "sh", "for i in 1 2 3; do echo x > g$i; done; ls | grep -c g")
    assert ns.log("sh").strip() == "2"


def test_a_file_shows_late_on_another_node_but_at_once_on_its_own(ns: Namespace) -> None:
    claim(ns, visible_after_s="2")
    wait = "import os, time\nstart = time.time()\nwhile not os.path.exists('/data/f'): time.sleep(0.01)\n"
    look = wait + "print(time.time() - os.stat('/data/f').st_mtime, 'f' in os.listdir('/data'))"
    user(ns, "far", look, node="gpu-02", wait=False)
    ns.until("far", lambda pod: pod["status"]["phase"] == "Running", "runs")
    user(ns, "near", "echo x > f; ls; sync; cat f", node="gpu-01")
    assert ns.log("near").split() == ["f", "x"]
    ns.ended("far")
    age, listed = ns.log("far").split()
    assert float(age) >= 2
    assert listed == "True"


def test_a_volume_may_go_bad_under_its_users(ns: Namespace) -> None:
    claim(ns, storage_class="local-rwo")
    program = (
        "import time\nf = open('/data/f', 'w+b', buffering=0)\nf.write(b'x')\nprint('written', flush=True)\n"
        "while True:\n  f.seek(0); f.read(1); time.sleep(0.02)"
    )
    user(ns, "p", program, wait=False)
    ns.until("p", lambda pod: pod["status"]["phase"] == "Running", "runs")
    wait_for(lambda: "written" in ns.log("p"), "the volume works")
    ns.pod("trigger", {"name": "strike", "command": ["true"]}, nodeName="gpu-01")
    ns.ended("p")
    assert "Stale file handle" in ns.log("p")


def test_parameters_and_annotations_become_settings() -> None:
    settings = from_parameters({"read-mib-per-s": "2", "stale": "true"}, {PREFIX + "stale": "false", "other": "1"})
    assert settings == Settings(read_bps=2.0 * 2**20)
    with pytest.raises(SettingError, match="burst-mib"):
        from_parameters({"burst-mib": "much"}, {})


def test_a_fault_with_an_unknown_setting_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "stale-storage.toml"
    path.write_text(FAULT.replace("stale = true", "stole = true"))
    with pytest.raises(FaultError, match="unknown: stole"):
        read_fault(path)
