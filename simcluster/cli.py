"""The command line: `python -m simcluster serve | up | down | status | lose-node | faults | check`.

The only door for other programs. Owns arguments, the ready line and exit codes. It must not know the cluster's parts.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import logging
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from simcluster.control import HOWS, ControlError, lose_node
from simcluster.daemon import Daemon, DaemonError
from simcluster.faults.file import Fault, FaultError, all_faults, find_faults, refuse_absent_nodes
from simcluster.node import boot
from simcluster.node.check import problems
from simcluster.topology import Topology, TopologyError, built_in, load, node_names

if TYPE_CHECKING:
    from simcluster.cluster import Access, Cluster

USAGE_ERROR = 2
FAILED = 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="simcluster", description="A simulated Kubernetes cluster on 127.0.0.1.")
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve", help="run a cluster until a signal; prints one JSON line when it is ready")
    _add_cluster_options(serve)
    serve.add_argument("--dir", type=Path, help="where kubeconfig and log go; default: a temporary directory")
    serve.add_argument("--exit-with-stdin", action="store_true", help="stop when standard input ends")
    up = commands.add_parser("up", help="start a cluster in the background; prints its kubeconfig's path")
    _add_cluster_options(up)
    for command in (
        up,
        commands.add_parser("down", help="end a background cluster and remove all it left"),
        commands.add_parser("status", help="say as JSON which background cluster runs; exit 1 where none does"),
    ):
        command.add_argument("--name", default="default", help="of the cluster, where there are several")
    lose = commands.add_parser("lose-node", help="take a node of a running cluster away, for good")
    lose.add_argument("node")
    lose.add_argument("--kubeconfig", type=Path, help="the cluster's (default: $KUBECONFIG)")
    lose.add_argument("--how", choices=HOWS, default="power", help="what ends: its power, its network, its kubelet")
    commands.add_parser("faults", help="list the faults as JSON")
    commands.add_parser("check", help="say whether this host can run a simulated cluster")
    return parser


def _add_cluster_options(parser: argparse.ArgumentParser) -> None:
    names = ", ".join(built_in())
    parser.add_argument("--topology", default="small", help=f"{names}, light-N, hollow-N, or a TOML file")
    parser.add_argument("--fault", action="append", default=[], metavar="ID", help="a fault's id or file (repeatable)")
    parser.add_argument("--time-scale", type=float, default=0.1, help="real delays times this (default 0.1)")
    parser.add_argument("--http", action="store_true", help="also listen on plain http (benches only)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; the exit code is 0, 1 (failed) or 2 (usage)."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    options = _parser().parse_args(words)
    if options.command == "faults":
        print(json.dumps([fault.model_dump(mode="json") for fault in all_faults()], indent=2))  # noqa: T201
        return 0
    if options.command == "check":
        return _check()
    if options.command == "lose-node":
        return _lose_node(options)
    if options.command in ("down", "status"):
        return _background(options)
    try:
        topology, faults = load(options.topology), find_faults(options.fault)
        refuse_absent_nodes(faults, [name for pool in topology.pools for name in node_names(pool)])
    except (TopologyError, FaultError) as error:
        return _complain(str(error), USAGE_ERROR)
    if options.time_scale <= 0:
        return _complain("--time-scale must be greater than 0", USAGE_ERROR)
    if options.command == "up":
        return _background(options)
    handed = boot.inherited(os.environ)
    if handed is None:
        return _outside(words, options)
    return _inside(handed, options, topology, faults)


def _background(options: argparse.Namespace) -> int:
    try:
        daemon = Daemon(options.name)
        if options.command == "down":
            return 0 if daemon.down() else _complain(f"no cluster {options.name!r} runs", FAILED)
        running = daemon.up(_serve_arguments(options)) if options.command == "up" else daemon.status()
    except DaemonError as error:
        return _complain(str(error).removeprefix("simcluster: "), FAILED)
    if running is None:
        return _complain(f"no cluster {options.name!r} runs", FAILED)
    print(running.kubeconfig if options.command == "up" else json.dumps(running.ready, indent=2))  # noqa: T201
    return 0


def _lose_node(options: argparse.Namespace) -> int:
    kubeconfig = options.kubeconfig or Path(os.environ.get("KUBECONFIG", ""))
    if not kubeconfig.is_file():
        return _complain("name the cluster by --kubeconfig FILE or KUBECONFIG", USAGE_ERROR)
    try:
        lose_node(kubeconfig, options.node, options.how)
    except ControlError as error:
        return _complain(str(error), FAILED)
    return 0


def _serve_arguments(options: argparse.Namespace) -> list[str]:
    """The same options for `serve`, which runs in another working directory."""
    words = ["--topology", _absolute(options.topology), "--time-scale", str(options.time_scale)]
    for fault in options.fault:
        words += ["--fault", _absolute(fault)]
    return [*words, "--http"] if options.http else words


def _absolute(word: str) -> str:
    return str(Path(word).resolve()) if word.endswith(".toml") else word


def _complain(text: str, code: int) -> int:
    print(f"simcluster: {text}", file=sys.stderr)  # noqa: T201
    return code


def _check() -> int:
    found = problems()
    for problem in found:
        print(problem)  # noqa: T201
    if not found:
        print("This host can run a simulated cluster.")  # noqa: T201
    return FAILED if found else 0


def _outside(words: list[str], options: argparse.Namespace) -> int:
    own = None
    if options.dir is None:
        own = Path(tempfile.mkdtemp(prefix="simcluster-"))
        words = [*words, "--dir", str(own)]
    else:
        options.dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Opened here, in the host's network, and handed into the new one, where nothing else of the host is.
    sockets = [socket.create_server(("127.0.0.1", 0), backlog=1024) for _ in range(2 if options.http else 1)]
    try:
        return boot.outside(words, [sock.fileno() for sock in sockets], own)
    except boot.NamespacesForbiddenError as error:
        return _complain(str(error), FAILED)


def _inside(handed: boot.Inside, options: argparse.Namespace, topology: Topology, faults: Sequence[Fault]) -> int:
    directory: Path = options.dir.resolve()
    logging.basicConfig(
        filename=directory / "log", level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    try:
        boot.inside(directory / "run")
    except boot.NamespacesForbiddenError as error:
        return _complain(str(error), FAILED)
    sockets = [socket.socket(fileno=number) for number in handed.sockets]
    from simcluster.cluster import Cluster  # noqa: PLC0415 - heavy, and not needed by the outer process
    from simcluster.timing import Timing  # noqa: PLC0415

    async def serve() -> None:
        cluster = Cluster(topology, faults, Timing(options.time_scale), directory / "run")
        access = await cluster.start(directory, sockets[0], sockets[1] if len(sockets) > 1 else None)
        _announce(access, directory, handed.parent_pid)
        await _until_told(handed.parent, with_stdin=options.exit_with_stdin)
        await _stop(cluster)
        logging.shutdown()
        # This is the first process of its pid namespace: the kernel ends whatever is left, and nothing needs to wait.
        os._exit(0)

    try:
        _run(serve())
    except (OSError, RuntimeError) as error:
        logging.getLogger(__name__).exception("the simulated cluster failed")
        return _complain(f"the simulated cluster failed: {error} (log: {directory / 'log'})", FAILED)
    return 0


def _run(work: asyncio.coroutines.Coroutine[None, None, None]) -> None:  # type: ignore[name-defined]
    try:
        import uvloop  # noqa: PLC0415 - optional
    except ImportError:
        asyncio.run(work)
    else:
        uvloop.run(work)


def _announce(access: Access, directory: Path, pid: int) -> None:
    fields = {
        key: str(value) if isinstance(value, Path) else value for key, value in dataclasses.asdict(access).items()
    }
    print(json.dumps({"ready": True, **fields, "pid": pid, "dir": str(directory)}), flush=True)  # noqa: T201


async def _until_told(parent: int, *, with_stdin: bool) -> None:
    """Until SIGTERM, SIGINT, the parent's end, or (where asked) the end of standard input."""
    loop = asyncio.get_running_loop()
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    loop.add_reader(parent, told.set)
    if with_stdin:

        def on_stdin() -> None:
            if not os.read(0, 65536):
                loop.remove_reader(0)
                told.set()

        loop.add_reader(0, on_stdin)
    await told.wait()
    loop.remove_reader(parent)


async def _stop(cluster: Cluster) -> None:
    # Whatever does not stop in time ends with this process: it is the first of its pid namespace.
    try:
        await asyncio.wait_for(cluster.stop(), 3.0)
    except TimeoutError:
        logging.getLogger(__name__).warning("the cluster did not stop in 3 s")
