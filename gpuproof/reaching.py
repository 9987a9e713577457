"""The cluster that a user named: connected to, started first where it is the simulated one, let go of, cleaned up.

Must not know a run, a profile or a check.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from rich.console import Console

from gpuproof import simulation
from gpuproof.cluster.kube import connect
from gpuproof.cluster.port import Cluster, ClusterError
from gpuproof.options import LaunchError, Options
from gpuproof.run_namespace import delete_namespace, leftovers
from gpuproof.run_pods import CLEANUP_WITHIN_S


def reach(options: Options) -> tuple[Cluster, simulation.Simulation | None]:
    """The cluster that was asked for, started first where it is the simulated one; raises `LaunchError`."""
    targets = [options.simulated, options.context is not None or options.kubeconfig is not None, options.in_cluster]
    if sum(targets) != 1:
        raise LaunchError(
            "name exactly one cluster: --cluster sim, --context NAME (with --kubeconfig FILE if it is not the default "
            "one), or --in-cluster"
        )
    if not options.simulated:
        if options.faults:
            raise LaunchError("--sim-fault injects faults into the simulated cluster only; add --cluster sim")
        return _connect(options.context, options.kubeconfig, options.in_cluster), None
    try:
        simulated = simulation.start(options.topology, options.faults)
    except simulation.SimulationError as error:
        raise LaunchError(str(error)) from error
    try:
        return _connect(None, simulated.kubeconfig, in_cluster=False), simulated
    except BaseException:
        simulated.stop()
        raise


def _connect(context: str | None, kubeconfig: Path | None, in_cluster: bool) -> Cluster:
    try:
        return connect(context=context, kubeconfig=kubeconfig, in_cluster=in_cluster)
    except ClusterError as error:
        raise LaunchError(error.message) from error


def clean_up(options: Options, run_id: str | None, older_than_h: float, delete: bool) -> int:
    """List or delete the namespaces that runs left behind; 0 where none is left, 3 where one would not go."""
    console = Console(soft_wrap=True)
    cluster, simulated = reach(options)
    try:
        found = leftovers(cluster, run_id, older_than=timedelta(hours=older_than_h))
        if not found:
            console.print("nothing is left of any run" + (f" {older_than_h:g} hours old" if older_than_h else ""))
        elif not delete:
            console.print(f"left of earlier runs: {', '.join(found)}\ndelete them with: gpuproof clean --yes")
        done = [delete_namespace(cluster, name, CLEANUP_WITHIN_S) for name in found] if delete else []
    except ClusterError as error:
        raise LaunchError(f"{cluster.name}: {error.message}") from error
    finally:
        release(cluster, simulated)
    for one in done:
        console.print(f"{one.namespace}: {'deleted' if one.deleted else 'still there: ' + '; '.join(one.left)}")
    return 0 if all(one.deleted for one in done) else 3


def release(cluster: Cluster, simulated: simulation.Simulation | None) -> None:
    """Close the connection, and the simulated cluster with everything in it."""
    try:
        cluster.close()
    finally:
        if simulated is not None:
            simulated.stop()
