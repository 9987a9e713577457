"""One pod of a gang: waits for orders, runs ranks for experiments, and leads the others where the harness says so.

The harness writes signed orders into an annotation of one pod, which the pod reads as a file; that pod leads: it calls
the agents of all pods, runs the experiment it was ordered and says what came of it on its line stream. Nothing else
speaks for the gang. If the leader is lost the harness orders the next one, in a later epoch, and the agents drop the
old one. It knows no limit, no verdict and nothing of Kubernetes. Python 3.9 syntax, standard library only.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import threading
import time
from typing import Any, Dict, List, NoReturn, Optional

from workloads.contract import could_not, identity, leave_on_sigterm, parameters
from workloads.gang_leader import Leader
from workloads.gang_ranks import NodeRanks, Zygote
from workloads.gang_wire import Channel, OrderBook, Refused
from workloads.line_stream import LineWriter
from workloads.rdma_ports import bytes_through, ports

FOLDER = os.environ.get("GPUPROOF_GANG_FOLDER", "/gpuproof/gang")
SECRET_FILE = FOLDER + "/secret/key"
ORDER_FILE = FOLDER + "/order/order"
PORT = 29417
_POLL_S = 0.05
_SETTLED_S = 0.15
_SETTLES_WITHIN_S = 2.0
_QUIET_S = 3600.0


class Agent:
    """Serves one leader at a time: the one of the highest epoch."""

    def __init__(self, secret: bytes, who: Dict[str, Any], zygote: Zygote) -> None:
        self._secret = secret
        self._who = who
        self._zygote = zygote
        self._lock = threading.Lock()
        self._epoch = 0
        self._leader: Optional[Channel] = None
        self._ranks: Optional[NodeRanks] = None
        self.refused: List[str] = []

    def serve(self, listener: socket.socket) -> None:
        """Take connections for ever, each in a thread of its own."""
        while True:
            sock, _ = listener.accept()
            threading.Thread(target=self._connection, args=(sock,), daemon=True).start()

    def refuse(self, why: str) -> None:
        """Count a word that was not obeyed; the next answer tells of it."""
        self.refused.append(why)

    def _connection(self, sock: socket.socket) -> None:
        sock.settimeout(10.0)
        channel = None
        try:
            channel = Channel.answer(sock, self._secret, secrets.token_bytes(32))
            if self._accept(channel, channel.receive()):
                channel.settimeout(_QUIET_S)
                self._obey(channel)
        except Refused as error:
            self.refuse(str(error))
        except (OSError, ValueError, KeyError):
            pass  # gone, or speaking another language: the one that matters calls again
        finally:
            if channel is not None:
                self._leave(channel)
            sock.close()

    def _accept(self, channel: Channel, call: Dict[str, Any]) -> bool:
        epoch = int(call["epoch"])
        with self._lock:
            if epoch <= self._epoch:
                raise Refused("a leader of epoch %d, the present one is of %d" % (epoch, self._epoch))
            self._epoch, before, self._leader = epoch, self._leader, channel
            ranks = self._ranks
        if before is not None:
            before.close()
        if ranks is not None:
            ranks.abort()
        channel.send(dict(self._who, hello=epoch))
        threading.Thread(target=self._tell_ready, args=(channel,), daemon=True).start()
        return True

    def _tell_ready(self, channel: Channel) -> None:
        self._zygote.ready.wait()
        with contextlib.suppress(OSError):
            channel.send({"ready": self._zygote.versions, "failed": self._zygote.failed})

    def _leave(self, channel: Channel) -> None:
        """The connection has ended: ranks that nobody waits for any more must not hold the GPUs."""
        with self._lock:
            mine = self._leader is channel
            ranks = self._ranks if mine else None
            self._leader = None if mine else self._leader
        if ranks is not None:
            ranks.abort()

    def _obey(self, channel: Channel) -> None:
        while True:
            message = channel.receive()
            if "run" in message:
                threading.Thread(target=self._run, args=(channel, message["run"]), daemon=True).start()
            elif "abort" in message and self._ranks is not None:
                self._ranks.abort()

    def _run(self, channel: Channel, order: Dict[str, Any]) -> None:
        order["node"] = self._who["node"]
        before = ports()
        order["interfaces"] = interfaces_for(str(order["network"]), self._who["fallback"], before)
        ranks = NodeRanks(self._zygote, order)
        with self._lock:
            self._ranks = ranks
        result = ranks.run()
        with self._lock:
            self._ranks = None
        result["rdma"] = moved(before)
        result["interfaces"] = order["interfaces"]
        result["versions"] = self._zygote.versions
        refused, self.refused = self.refused, []
        if refused:
            result["refused"] = refused[:5]
        with contextlib.suppress(OSError):  # the leader is gone, and with it whoever wanted to know
            channel.send({"result": result, "experiment": order["experiment"]})


def interfaces_for(network: str, fallback: str, found: List[Any]) -> List[str]:
    """Where ranks without verbs (gloo) send: the active adapters' interfaces, or the pod's own one."""
    active = [port.interface for port in found if port.active and port.interface]
    return active if network == "rdma" and active else [fallback] if fallback else []


def moved(before: List[Any]) -> Dict[str, Any]:
    """What went through the adapters since, once their counters stand still; and which ports are not active."""
    began = time.monotonic()
    last, since = bytes_through(ports()), time.monotonic()
    while time.monotonic() - since < _SETTLED_S and time.monotonic() - began < _SETTLES_WITHIN_S:
        time.sleep(_POLL_S)
        now = bytes_through(ports())
        if now != last:
            last, since = now, time.monotonic()
    after = ports()
    sent, received = bytes_through(before)
    return {
        "ports": len(after),
        "active": sum(port.active for port in after),
        "sent_bytes": last[0] - sent,
        "received_bytes": last[1] - received,
        "down": ["%s is %s" % (port.name, port.state) for port in after if not port.active],
    }


def main() -> NoReturn:
    """Serve, and watch for orders, until the pod ends."""
    leave_on_sigterm()
    options = parameters()
    try:
        with open(SECRET_FILE, "rb") as file:
            secret = file.read().strip()
    except OSError as error:
        could_not("the run's secret is not mounted: %s" % error)
    if len(secret) < 32:
        could_not("the run's secret is too short to sign with")
    lines = LineWriter()
    zygote = Zygote()
    address = os.environ.get("GPUPROOF_POD_IP", "127.0.0.1")
    who = dict(
        identity(),
        index=int(os.environ.get("JOB_COMPLETION_INDEX", "0")),
        ip=address,
        fallback=interface_of(address),
        ports=[[port.name, port.active, port.state] for port in ports()],
    )
    agent = Agent(secret, who, zygote)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.create_server((address, PORT), family=family, backlog=64)
    threading.Thread(target=agent.serve, args=(listener,), daemon=True).start()
    leader = Leader(secret, lines, [str(host) for host in options["hosts"]], PORT)
    watch_orders(OrderBook(secret, str(who["run_id"])), leader, lines)


def watch_orders(book: OrderBook, leader: Leader, lines: LineWriter) -> NoReturn:
    """Obey each new order in the file for ever: a gang ends with its Job."""
    last = ""
    while True:
        text = read_order()
        if text and text != last:
            last = text
            try:
                leader.obey(book.read(text))
            except (Refused, ValueError, KeyError, TypeError) as error:
                lines.write({"refused": "%s: %s" % (type(error).__name__, error)})
        time.sleep(_POLL_S)


def read_order() -> str:
    """The order file's text; "" where it is empty or being replaced."""
    try:
        with open(ORDER_FILE, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return ""


def interface_of(address: str) -> str:
    """The interface that has this address, by asking the kernel which one it would send from; "" if unknown."""
    import fcntl  # noqa: PLC0415 - Linux only, and only here
    import struct  # noqa: PLC0415

    for _, name in socket.if_nameindex():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            try:
                found = fcntl.ioctl(sock.fileno(), 0x8915, struct.pack("256s", name.encode()[:15]))  # SIOCGIFADDR
            except OSError:
                continue
        if socket.inet_ntoa(found[20:24]) == address:
            return name
    return ""


if __name__ == "__main__":
    main()
