"""Stand-in for perftest's ib_write_bw: a server and a client that move real bytes over the adapter's own interface.

Owns arguments, report and JSON (perftest's manual page; the text's layout as in public reports; the JSON's field names
are not checked against a real one). The peers find each other over
the network that the client names, as in perftest, but data goes from interface to interface of the chosen adapters,
bound to them, and fails where those cannot reach each other. It must not import the simulator.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import time
from dataclasses import dataclass
from typing import BinaryIO

from simcluster.hardware.tools import ibsysfs

_RULE = "-" * 87
_PATIENCE_S = 10.0
_MIB = 1 << 20
_SO_BINDTODEVICE = 25
_CHUNK = bytes(_MIB)


class FailedError(Exception):
    """What perftest would say before it exits with 1."""


@dataclass(frozen=True)
class Plan:
    """What one run moves: messages of `size` bytes, `iterations` of them or as many as fit in `duration_s`."""

    size: int
    iterations: int
    duration_s: float


@dataclass(frozen=True)
class Result:
    """What was measured, in bytes and seconds; `peak` is the best rate over any tenth of the run, bytes/s."""

    size: int
    iterations: int
    seconds: float
    peak: float


def parse(arguments: list[str]) -> argparse.Namespace:
    """perftest's options, those that mean something here and those that scripts commonly give."""
    parser = argparse.ArgumentParser(prog="ib_write_bw", add_help=False)
    parser.add_argument("host", nargs="?")
    parser.add_argument("-h", "--help", action="help")
    parser.add_argument("-d", "--ib-dev", default="")
    parser.add_argument("-i", "--ib-port", type=int, default=1)
    parser.add_argument("-p", "--port", type=int, default=18515)
    parser.add_argument("-s", "--size", type=int, default=65536)
    parser.add_argument("-n", "--iters", type=int, default=5000)
    parser.add_argument("-D", "--duration", type=float, default=0.0)
    parser.add_argument("-x", "--gid-index", type=int, default=-1)
    parser.add_argument("-q", "--qp", type=int, default=1)
    parser.add_argument("-m", "--mtu", type=int, default=4096)
    parser.add_argument("-a", "--all", action="store_true")
    parser.add_argument("-R", "--rdma_cm", action="store_true")
    parser.add_argument("-F", "--CPU-freq", action="store_true")
    parser.add_argument("--report_gbits", action="store_true")
    parser.add_argument("--out_json", action="store_true")
    parser.add_argument("--out_json_file", default="perftest_out.json")
    for ignored in ("-c", "-t", "-S", "-T", "-Q", "-l", "-o", "--use_cuda", "--use_cuda_dmabuf", "--force-link"):
        parser.add_argument(ignored, nargs="?")
    return parser.parse_args(arguments)


@dataclass(frozen=True)
class Adapter:
    """The adapter in use; `address` is its interface's IPv4 address."""

    name: str
    interface: str
    address: str
    gid_index: int
    link_layer: str
    lid: int


def choose(options: argparse.Namespace, root: str = ibsysfs.ROOT) -> Adapter:
    """The adapter that was asked for, or the first. Raises `FailedError`."""
    names = ibsysfs.devices(root)
    if not names:
        raise FailedError(" Unable to find the Infiniband/RoCE device")
    name = options.ib_dev or names[0]
    if name not in names:
        raise FailedError(f" IB device {name} not found\n Unable to find the Infiniband/RoCE device")
    if ibsysfs.before_colon(ibsysfs.read(name, "ports/1/state", root=root)) != "4":
        raise FailedError(f" Port number {options.ib_port} state is Down\n Couldn't set the link layer")
    mapped = [gid for gid in ibsysfs.gids(name, root) if gid.address]
    if options.gid_index >= 0:
        mapped = [gid for gid in mapped if gid.index == options.gid_index]
    if not mapped:
        raise FailedError(f" Failed to query GID index {options.gid_index} of {name}")
    gid = mapped[-1]
    lid = int(ibsysfs.read(name, "ports/1/lid", root=root) or "0", 16)
    layer = ibsysfs.read(name, "ports/1/link_layer", root=root)
    return Adapter(name, gid.interface, gid.address, gid.index, layer, lid)


def header(adapter: Adapter, options: argparse.Namespace) -> str:
    """The block before the addresses."""
    ethernet = adapter.link_layer == "Ethernet"
    lines = [
        _RULE,
        "                    RDMA_Write BW Test",
        f" Dual-port       : OFF\t\tDevice         : {adapter.name}",
        f" Number of qps   : {options.qp}\t\tTransport type : IB",
        " Connection type : RC\t\tUsing SRQ      : OFF",
        " PCIe relax order: ON",
        " ibv_wr* API     : ON",
        " TX depth        : 128",
        " CQ Moderation   : 1",
        f" Mtu             : {options.mtu}[B]",
        f" Link type       : {'Ethernet' if ethernet else 'IB'}",
        *([f" GID index       : {adapter.gid_index}"] if ethernet else []),
        " Max inline data : 0[B]",
        f" rdma_cm QPs\t : {'ON' if options.rdma_cm else 'OFF'}",
        f" Data ex. method : {'rdma_cm' if options.rdma_cm else 'Ethernet'}",
        _RULE,
    ]
    return "\n".join(lines) + "\n"


def addresses(side: str, adapter: Adapter, qps: int) -> str:
    """A side's queue pairs."""
    ethernet = adapter.link_layer == "Ethernet"
    gid = ":".join([*["00"] * 10, "255", "255", *(f"{int(part):02d}" for part in adapter.address.split("."))])
    lines = []
    for number in range(qps):
        key = f"QPN 0x{number + 0x59:04x} PSN 0x{hash((adapter.address, number)) & 0xFFFFFF:06x}"
        lines.append(f" {side} address: LID {'0000' if ethernet else f'0x{adapter.lid:02x}'} {key}")
        lines += [f" GID: {gid}"] if ethernet else []
    return "\n".join(lines) + "\n"


def columns(*, gbits: bool) -> str:
    """The head of the results."""
    unit = "Gb/sec" if gbits else "MB/sec"
    return f"{_RULE}\n #bytes     #iterations    BW peak[{unit}]    BW average[{unit}]   MsgRate[Mpps]\n"


def rates(result: Result, *, gbits: bool) -> tuple[float, float, float]:
    """Peak and average in the report's unit (MB are 2**20 bytes), and messages in millions a second."""
    scale = 8 / 1e9 if gbits else 1 / _MIB
    average = result.size * result.iterations / result.seconds
    return result.peak * scale, average * scale, result.iterations / result.seconds / 1e6


def row(result: Result, *, gbits: bool) -> str:
    """One line of results."""
    peak, average, messages = rates(result, gbits=gbits)
    measured = f"{peak:<7.2f}            {average:<7.2f}\t\t   {messages:<7.6f}"
    return f" {result.size:<7}    {result.iterations:<10}       {measured}\n"


def as_json(adapter: Adapter, results: list[Result], *, gbits: bool) -> str:
    """The report of --out_json."""
    rows = []
    for result in results:
        peak, average, messages = rates(result, gbits=gbits)
        rows.append(
            {
                "MsgSize": result.size,
                "n_iterations": result.iterations,
                "BW_peak": round(peak, 2),
                "BW_average": round(average, 2),
                "MsgRate": round(messages, 6),
            }
        )
    info = {"test": "RDMA_Write BW Test", "Device": adapter.name, "Link_type": adapter.link_layer}
    unit = "Gb/sec" if gbits else "MB/sec"
    return json.dumps(
        {"test_info": {**info, "BW_unit": unit}, "results": rows[0] if len(rows) == 1 else rows}, indent=1
    )


def plans(options: argparse.Namespace) -> list[Plan]:
    """One run, or with -a one for each power of two from 2 to 2**23 bytes."""
    if options.all:
        return [Plan(1 << power, min(options.iters, max(5, (64 * _MIB) >> power)), 0.0) for power in range(1, 24)]
    return [Plan(options.size, options.iters, options.duration)]


def _tell(stream: socket.socket, value: object) -> None:
    stream.sendall(json.dumps(value).encode() + b"\n")


def _hear(lines: BinaryIO) -> dict[str, object]:
    data = lines.readline()
    if not data.endswith(b"\n"):
        raise FailedError(" Couldn't read remote address\n Failed to exchange data between server and clients")
    heard: dict[str, object] = json.loads(data)
    return heard


def _data_socket(adapter: Adapter) -> socket.socket:
    stream = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    stream.setsockopt(socket.SOL_SOCKET, _SO_BINDTODEVICE, adapter.interface.encode() + b"\0")
    stream.settimeout(_PATIENCE_S)
    stream.bind((adapter.address, 0))
    return stream


def _send(stream: socket.socket, plan: Plan) -> Result:
    total, sent = plan.size * plan.iterations, 0
    view = memoryview(_CHUNK)
    start = mark = time.monotonic()
    marked, peak = 0, 0.0
    step_s = plan.duration_s / 10 if plan.duration_s else 0.0
    while True:
        now = time.monotonic()
        if plan.duration_s and now - start >= plan.duration_s:
            total = sent
        if sent >= total and not (plan.duration_s and now - start < plan.duration_s):
            break
        sent += stream.send(view[: _MIB if plan.duration_s else min(_MIB, total - sent)])
        if now - mark >= step_s and sent - marked >= max(_MIB, total // 10 if not plan.duration_s else _MIB):
            peak = max(peak, (sent - marked) / max(time.monotonic() - mark, 1e-6))
            mark, marked = time.monotonic(), sent
    stream.shutdown(socket.SHUT_WR)
    # The peer's word that all has arrived ends the measurement: bytes in a local buffer have not moved yet.
    if stream.recv(8) != b"received":
        raise FailedError(" Completion with error at client\n Failed status 12: transport retry counter exceeded")
    seconds = max(time.monotonic() - start, 1e-9)
    return Result(plan.size, max(1, sent // plan.size), seconds, max(peak, 0.0) if plan.duration_s == 0 else 0.0)


def client(options: argparse.Namespace, adapter: Adapter) -> list[Result]:
    """Write to the server at `options.host`, printing as perftest does."""
    try:
        control = socket.create_connection((options.host, options.port), timeout=_PATIENCE_S)
    except OSError as error:
        raise FailedError(
            f" Couldn't connect to {options.host}:{options.port}\n Unable to init the socket connection"
        ) from error
    results = []
    with control:
        sys.stdout.write(header(adapter, options))
        control.settimeout(_PATIENCE_S)
        _tell(control, {"address": adapter.address, "plans": len(plans(options)), "layer": adapter.link_layer})
        lines = control.makefile("rb")
        remote = _hear(lines)
        sys.stdout.write(addresses("local", adapter, options.qp))
        sys.stdout.write(addresses("remote", _remote(adapter, remote), options.qp))
        sys.stdout.write(columns(gbits=options.report_gbits))
        sys.stdout.flush()
        for plan in plans(options):
            where = _hear(lines)
            with _data_socket(adapter) as stream:
                try:
                    stream.connect((str(remote["address"]), int(str(where["port"]))))
                    stream.settimeout(max(60.0, plan.duration_s * 2))
                    result = _send(stream, plan)
                except OSError as error:
                    raise FailedError(
                        f" Failed to modify QP to RTR: {error}\n Unable to Connect the HCA's through the link"
                    ) from error
            _tell(control, {"size": result.size, "n": result.iterations, "s": result.seconds, "peak": result.peak})
            sys.stdout.write(row(result, gbits=options.report_gbits))
            sys.stdout.flush()
            results.append(result)
    sys.stdout.write(_RULE + "\n")
    return results


def _remote(adapter: Adapter, told: dict[str, object]) -> Adapter:
    return Adapter("", "", str(told["address"]), adapter.gid_index, adapter.link_layer, int(str(told.get("lid", 1))))


def server(options: argparse.Namespace, adapter: Adapter) -> list[Result]:
    """Serve one client."""
    stars = "*" * 36
    sys.stdout.write(f"\n{stars}\n* Waiting for client to connect... *\n{stars}\n")
    sys.stdout.flush()
    results = []
    with socket.create_server(("0.0.0.0", options.port)) as listener:
        control, _ = listener.accept()
        with control:
            lines = control.makefile("rb")
            remote = _hear(lines)
            _tell(control, {"address": adapter.address, "lid": adapter.lid})
            sys.stdout.write(header(adapter, options) + addresses("local", adapter, options.qp))
            sys.stdout.write(addresses("remote", _remote(adapter, remote), options.qp))
            sys.stdout.write(columns(gbits=options.report_gbits))
            for _ in range(int(str(remote["plans"]))):
                _receive(control, adapter)
                told = _hear(lines)
                result = Result(
                    int(str(told["size"])), int(str(told["n"])), float(str(told["s"])), float(str(told["peak"]))
                )
                sys.stdout.write(row(result, gbits=options.report_gbits))
                sys.stdout.flush()
                results.append(result)
    sys.stdout.write(_RULE + "\n")
    return results


def _receive(control: socket.socket, adapter: Adapter) -> None:
    buffer = bytearray(_MIB)
    with _data_socket(adapter) as listener:
        listener.listen(1)
        _tell(control, {"port": listener.getsockname()[1]})
        try:
            stream, _ = listener.accept()
        except OSError as error:
            raise FailedError(" Unable to Connect the HCA's through the link") from error
        with stream:
            while stream.recv_into(buffer):
                pass
            stream.sendall(b"received")


def main() -> int:
    """Run."""
    options = parse(sys.argv[1:])
    try:
        adapter = choose(options)
        results = (client if options.host else server)(options, adapter)
    except (FailedError, OSError) as failure:
        sys.stderr.write(f"{failure}\n")
        return 1
    if options.out_json:
        with open(options.out_json_file, "w", encoding="utf-8") as file:  # noqa: PTH123 - starts fast
            file.write(as_json(adapter, results, gbits=options.report_gbits) + "\n")
    return 0
