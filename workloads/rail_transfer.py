"""Moves bytes from one adapter to another and tells the rate: perftest's ib_write_bw where the image has it, else TCP.

A TCP transfer over an adapter's interface is no RDMA write: it shows the cable, not the adapter's own engine. Which of
the two it was is told beside every number. Owns both tools' handling. It must not know who is measured with whom.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Callable, List, NamedTuple, Optional, Tuple

from workloads.perftest import average_gbits
from workloads.rail_reach import Nic, bound

PERFTEST, TCP = "ib_write_bw", "tcp"
FIRST_PORT = 18515
_LISTENING = "0A"
_CHUNK = bytes(1 << 18)
_RECEIVED = b"received"


class Amount(NamedTuple):
    """What one transfer moves, and how long it may take."""

    message_bytes: int
    messages: int
    within_s: float

    @property
    def total_bytes(self) -> int:
        """All of it."""
        return self.message_bytes * self.messages


def tool() -> str:
    """What this image has."""
    return PERFTEST if shutil.which(PERFTEST) else TCP


class Receiver:
    """The receiving end of one transfer to `nic`, at a port of its own."""

    def __init__(self, how: str, nic: Nic, port: int, amount: Amount) -> None:
        self.port = port
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._listener: Optional[socket.socket] = None
        if how == PERFTEST:
            self._process = subprocess.Popen(
                _perftest(nic, port, amount), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
        elif nic.address:
            self._listener = bound(nic)
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listener.bind((nic.address, port))
            self._listener.listen(1)
            threading.Thread(target=_receive, args=(self._listener,), daemon=True).start()

    def listens(self) -> bool:
        """Whether a sender may come, or never will be answered."""
        if self._process is None or self._process.poll() is not None:
            return True
        return self.port in listening_ports()

    def close(self) -> None:
        """Nobody sends any more."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self._listener is not None:
            self._listener.close()


def _receive(listener: socket.socket) -> None:
    buffer = bytearray(len(_CHUNK))
    try:
        stream, _ = listener.accept()
        with stream:
            while stream.recv_into(buffer):
                pass
            stream.sendall(_RECEIVED)
    except OSError:
        return


def send(how: str, nic: Nic, host: str, address: str, port: int, amount: Amount) -> Tuple[Optional[float], str]:
    """Gb/s from `nic` to the receiver (its pod is `host`, its adapter `address`), or None with the reason."""
    if how == PERFTEST:
        return _send_perftest(nic, host, port, amount)
    if not nic.address or not address:
        return None, "no %s in the image, and no IP address at the adapter" % PERFTEST
    return _send_tcp(nic, address, port, amount)


def _perftest(nic: Nic, port: int, amount: Amount) -> List[str]:
    gid = ["-x", str(nic.gid_index)] if nic.gid_index >= 0 else []
    size = ["-s", str(amount.message_bytes), "-n", str(amount.messages)]
    return [PERFTEST, "-d", nic.name, "-i", str(nic.port), "-p", str(port), "-F", "--report_gbits", *gid, *size]


def _send_perftest(nic: Nic, host: str, port: int, amount: Amount) -> Tuple[Optional[float], str]:
    command = [*_perftest(nic, port, amount), host]
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=amount.within_s, check=False
        )
    except subprocess.TimeoutExpired:
        return None, "did not end within %g s" % amount.within_s
    except OSError as error:
        return None, str(error)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).decode("utf-8", "replace").split()
        return None, " ".join(said)[-200:] or "exit code %d" % done.returncode
    found = average_gbits(done.stdout.decode("utf-8", "replace"))
    return found, "" if found is not None else "its report is not one that this program understands"


def _send_tcp(nic: Nic, address: str, port: int, amount: Amount) -> Tuple[Optional[float], str]:
    view = memoryview(_CHUNK)
    with bound(nic) as stream:
        stream.settimeout(amount.within_s)
        try:
            stream.bind((nic.address, 0))
            stream.connect((address, port))
            began = time.monotonic()
            left = amount.total_bytes
            while left:
                left -= stream.send(view[: min(left, len(view))])
            stream.shutdown(socket.SHUT_WR)
            # The peer's word that all has arrived ends the measurement: bytes in a local buffer have not moved yet.
            if stream.recv(len(_RECEIVED)) != _RECEIVED:
                return None, "the receiver closed early"
        except OSError as error:
            return None, str(error)
        return amount.total_bytes * 8 / 1e9 / max(time.monotonic() - began, 1e-9), ""


def listening_ports(tables: Tuple[str, ...] = ("/proc/net/tcp", "/proc/net/tcp6")) -> List[int]:
    """TCP ports of this pod at which somebody listens; looking takes no connection from a server that serves one."""
    found = []
    for table in tables:
        try:
            lines = Path(table).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        rows = [words for words in map(str.split, lines) if len(words) > 3 and words[3] == _LISTENING]
        found += [int(words[1].rpartition(":")[2], 16) for words in rows]
    return found


def at_once(jobs: List[Callable[[], Any]]) -> None:
    """Run them in threads, and wait for all."""
    threads = [threading.Thread(target=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
