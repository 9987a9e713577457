"""The rank processes of one node in one experiment: forked, watched, killed at their time limit, and what they said.

Owns the processes; it must not know who ordered them. Python 3.9 syntax, standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional

from workloads import gang_zygote, nccl_log, nccl_tests
from workloads.all_reduce import STAGES

_START = "import runpy, sys; sys.path.insert(0, %r); runpy.run_module(%r, run_name='__main__')"
_AFTER_A_DEATH_S = 0.5
"""The ranks beside a dead one wait for it for ever: they get this long to say why they, too, must end."""
_LAST_WORDS = 300
_SECOND_HAND = re.compile(
    r"[Cc]onnection (?:was )?(?:closed|reset)|[Bb]roken pipe|[Ss]ocket closed|[Rr]emote (?:peer|process)|"
    r"ncclRemoteError|failed to recv|[Tt]imed out|[Tt]imeout|Connection refused"
)
"""Last words of a rank that ended because another one had: gloo's, the store's and NCCL's words for it."""


class Zygote:
    """The process that ranks are forked from; it starts at once and imports torch in the background."""

    def __init__(self) -> None:
        # Not resolved: a mounted ConfigMap's files are links into a folder of another name.
        place = str(Path(__file__).absolute().parent.parent)
        environment = dict(os.environ, OMP_NUM_THREADS=os.environ.get("OMP_NUM_THREADS", "1"))
        command = [sys.executable, "-c", _START % (place, gang_zygote.__name__)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self.words: "queue.Queue[Dict[str, Any]]" = queue.Queue()
        self.versions: Dict[str, str] = {}
        self.failed = ""
        self.ready = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    def fork(self, order: Mapping[str, Any]) -> None:
        """Ask for one rank; its pid and its end come as words."""
        assert self._process.stdin is not None
        self._process.stdin.write((json.dumps(order, separators=(",", ":")) + "\n").encode("utf-8"))
        self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            if "ready" in said:
                self.versions = said["ready"]
                self.ready.set()
            elif "failed" in said:
                self.failed = str(said["failed"])
                self.ready.set()
            else:
                self.words.put(said)
        self.failed = self.failed or "the process that forks ranks ended with code %s" % self._process.wait()
        self.ready.set()
        self.words.put({"over": True})


class NodeRanks:
    """One experiment on one node. `run` blocks; `abort` ends it early from another thread."""

    def __init__(self, zygote: Zygote, order: Mapping[str, Any]) -> None:
        self._zygote = zygote
        self._order = order
        self._pids: Dict[int, int] = {}
        self._codes: Dict[int, int] = {}
        self._aborted = threading.Event()
        self._first_dead: Optional[int] = None
        self._killed_from_outside: Optional[int] = None
        self._killing = False

    def abort(self) -> None:
        """Kill the ranks; `run` then returns what they had said."""
        self._aborted.set()

    def run(self) -> Dict[str, Any]:
        """Fork, wait, kill what is left at the time limit; the node's part of the result."""
        if self._order.get("tool") == "nccl-tests":
            return nccl_tests.run_node(self._order)
        folder = Path(tempfile.mkdtemp(prefix="gpuproof-ranks-"))
        try:
            return self._run(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _run(self, folder: Path) -> Dict[str, Any]:
        order = self._order
        ranks = [int(order["first_rank"]) + local for local in range(int(order["local_ranks"]))]
        if not self._zygote.ready.wait(float(order["timeout_s"])) or self._zygote.failed:
            return {"outcome": "broken", "said": self._zygote.failed or "torch is not imported after its time limit"}
        self._drain()
        for local, rank in enumerate(ranks):
            self._zygote.fork(
                {
                    "rank": rank,
                    "local_rank": local,
                    "order": order,
                    "log": str(folder / ("log-%d" % rank)),
                    "said": str(folder / ("said-%d" % rank)),
                    "env": self._environment(folder, local),
                }
            )
        hung = self._watch(len(ranks), [folder / ("said-%d" % rank) for rank in ranks])
        said = {rank: _said(str(folder / ("said-%d" % rank))) for rank in ranks}
        logs = {rank: _tail(str(folder / ("log-%d" % rank))) for rank in ranks}
        return self._account(said, logs, hung, folder)

    def _environment(self, folder: Path, local: int) -> Dict[str, str]:
        given = {str(key): str(value) for key, value in self._order.get("env", {}).items()}
        interfaces = self._order.get("interfaces") or []
        if interfaces and self._order["device"] != "cuda":
            given["GLOO_SOCKET_IFNAME"] = str(interfaces[local % len(interfaces)])
        if self._order["device"] == "cuda":
            given["NCCL_DEBUG"] = "INFO"
            given["NCCL_DEBUG_FILE"] = str(folder / "nccl-%h-%p")
        return given

    def _drain(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self._zygote.words.get_nowait()

    def _watch(self, count: int, said: List[Path]) -> bool:
        """Wait for all ranks to end; whether they had to be killed at their time limit, or as none of them got on."""
        until = time.monotonic() + float(self._order["timeout_s"])
        stall_s = float(self._order.get("stall_timeout_s") or self._order["timeout_s"])
        hung = killed = False
        last, since = -1, time.monotonic()
        while len(self._codes) < count:
            told = sum(path.stat().st_size for path in said if path.exists())
            if told != last:
                last, since = told, time.monotonic()
            left = until - time.monotonic()
            if not killed:
                left = min(left, since + stall_s - time.monotonic())
            if (left <= 0 or self._aborted.is_set()) and not killed:
                hung, killed = not self._aborted.is_set() and self._first_dead is None, True
                self._kill()
                until = time.monotonic() + 10.0
            elif left <= 0:
                return hung  # not even SIGKILL ends them: a process stuck in the driver
            with contextlib.suppress(queue.Empty):
                until = self._take(self._zygote.words.get(timeout=min(0.05, max(left, 0.01))), until)
        return hung

    def _take(self, word: Dict[str, Any], until: float) -> float:
        if "pid" in word:
            self._pids[int(word["pid"])] = int(word["rank"])
        elif "exit" in word:
            self._codes[int(word["rank"])] = int(word["code"])
            if int(word["code"]) != 0 and self._first_dead is None and not self._aborted.is_set():
                self._first_dead = int(word["rank"])
                if int(word["code"]) == -signal.SIGKILL and not self._killing:
                    self._killed_from_outside = self._first_dead  # out of memory, as a rule
                return min(until, time.monotonic() + _AFTER_A_DEATH_S)
        elif "over" in word:
            return 0.0
        return until

    def _died_of_itself(self, logs: Dict[int, str]) -> Optional[int]:
        """The first rank that ended badly, and not only because another one was gone; None where there is none."""
        for rank, code in self._codes.items():
            if code not in (0, -signal.SIGKILL) and not _SECOND_HAND.search(last_words(logs[rank])):
                return rank
        return self._killed_from_outside

    def _kill(self) -> None:
        self._killing = True
        for pid, rank in self._pids.items():
            if rank not in self._codes:
                for send in (os.killpg, os.kill):
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        send(pid, signal.SIGKILL)

    def _account(
        self, said: Dict[int, List[Dict[str, Any]]], logs: Dict[int, str], hung: bool, folder: Path
    ) -> Dict[str, Any]:
        census = {str(rank): _progress(words) for rank, words in said.items()}
        finished = all(progress["stage"] == "done" for progress in census.values())
        dead = self._died_of_itself(logs)
        outcome = "measured" if finished else "hung" if hung else "aborted" if dead is None else "died"
        results = [[word["result"] for word in words if "result" in word] for words in said.values()]
        reached = [word for words in said.values() for word in words if word.get("stage") == "communicator"]
        found: Dict[str, Any] = {
            "outcome": outcome,
            "census": census,
            "results": slowest(results) if finished else [],
            "world": sorted({int(word["world"]) for word in reached}),
            "hosts": sorted({int(word["hosts"]) for word in reached}),
        }
        if outcome == "died" and dead is not None:
            found["dead_rank"], found["exit_code"] = dead, self._codes[dead]
            found["said"] = last_words(logs[dead])
        nccl = nccl_log.read_folder(str(folder))
        if nccl is not None:
            found["nccl"] = nccl
        errors = nccl_log.classify("\n".join(logs.values()))
        if errors and outcome != "measured":
            found["errors"] = errors
        return found


def slowest(per_rank: List[List[Dict[str, Any]]]) -> List[Dict[str, Any]]:
    """Results of several ranks (or nodes) as one: each repeat's time is the slowest one's, wrong elements are added.

    What not all of them report, or report differently often, is left out: it was not measured.
    """
    by_point: Dict[Any, List[Dict[str, Any]]] = {}
    for results in per_rank:
        for result in results:
            by_point.setdefault((result["collective"], result["bytes"], result["moved_bytes"]), []).append(result)
    joined = []
    for (collective, size, moved), found in by_point.items():
        repeats = {len(result["seconds"]) for result in found}
        if len(found) == len(per_rank) and len(repeats) == 1:
            seconds = [max(column) for column in zip(*(result["seconds"] for result in found))]
            wrong = sum(int(result["wrong"]) for result in found)
            joined.append(
                {"collective": collective, "bytes": size, "moved_bytes": moved, "seconds": seconds, "wrong": wrong}
            )
    return joined


def _progress(words: List[Dict[str, Any]]) -> Dict[str, Any]:
    """The last stage of a rank, and the last collective and size it began."""
    stages = [str(word["stage"]) for word in words if "stage" in word]
    begun = [word["at"] for word in words if "at" in word]
    last = max(stages, key=STAGES.index) if stages else "none"
    return {"stage": last, "begun": len(begun), "at": begun[-1] if begun else None}


def _said(path: str) -> List[Dict[str, Any]]:
    found = []
    try:
        with open(path, encoding="utf-8") as file:
            for line in file:
                with contextlib.suppress(ValueError):  # the last line of a rank that was killed as it wrote
                    found.append(json.loads(line))
    except OSError:
        pass  # it never came so far
    return [word for word in found if isinstance(word, dict)]


def _tail(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read()[-65536:].decode("utf-8", "replace")
    except OSError:
        return ""


def last_words(log: str) -> str:
    """The last line of a rank's output that says something, cut to a sentence's length."""
    lines = [" ".join(line.split()) for line in log.splitlines() if line.strip()]
    return lines[-1][:_LAST_WORDS] if lines else "it said nothing"
