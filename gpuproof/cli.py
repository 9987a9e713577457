"""The command line: words in, exit code out. Everything heavy is imported by the command that needs it.

Exit codes are a contract: 0 accepted, 1 rejected, 3 undecided, 2 usage or configuration error. It judges nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

ACCEPTED, REJECTED, USAGE, UNDECIDED = 0, 1, 2, 3

app = typer.Typer(
    help="Acceptance tests for GPU Kubernetes clusters: real pods, measured numbers, "
    "a decision that cannot pass by accident.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

ProfileOption = Annotated[
    Path, typer.Option("--profile", metavar="FILE", help="Threshold file: what is expected, required, good enough.")
]
ClusterOption = Annotated[
    str | None, typer.Option("--cluster", metavar="sim", help="Run on the embedded simulated cluster.")
]
ContextOption = Annotated[
    str | None, typer.Option("--context", metavar="NAME", help="Run on this kubeconfig context's cluster.")
]
KubeconfigOption = Annotated[
    Path | None, typer.Option("--kubeconfig", metavar="FILE", help="Kubeconfig instead of the default one.")
]
InClusterOption = Annotated[
    bool, typer.Option("--in-cluster", help="Run on the cluster that this process is a pod of.")
]
TopologyOption = Annotated[
    str, typer.Option("--sim-topology", metavar="NAME|FILE", help="Topology of the simulated cluster.")
]
FaultOption = Annotated[
    list[str] | None, typer.Option("--sim-fault", metavar="ID", help="Fault for the simulated cluster (repeatable).")
]


PrivateOption = Annotated[
    list[Path] | None,
    typer.Option("--private-checks", metavar="DIR", help="More checks, their programs in DIR/workloads (repeatable)."),
]


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", help="Print the version and leave.", is_eager=True)] = False,
) -> None:
    """Shared options."""
    if show:
        from gpuproof import __version__  # noqa: PLC0415 - see the module's docstring

        typer.echo(f"gpuproof {__version__}")
        raise typer.Exit(0)


@app.command()
def run(
    profile: ProfileOption,
    cluster: ClusterOption = None,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
    in_cluster: InClusterOption = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder for record and reports (reports/RUN-ID).")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="CHECK", help="Ask only this check (repeatable).")
    ] = None,
    nodes: Annotated[
        list[str] | None, typer.Option("--nodes", metavar="NODE", help="Ask only this node (repeatable).")
    ] = None,
    image: Annotated[str | None, typer.Option("--image", metavar="REF", help="Image of the workload pods.")] = None,
    resume: Annotated[
        Path | None, typer.Option("--resume", metavar="DIR", help="Continue the run in this folder.")
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option("--baseline", metavar="RUN", help="Folder of the run that limits with of = baseline are held to."),
    ] = None,
    max_gpu_hours: Annotated[
        float | None,
        typer.Option("--max-gpu-hours", metavar="H", min=0, help="Do not begin what may hold GPUs for longer."),
    ] = None,
    private_checks: PrivateOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing before the decision.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="One line a verdict, as in CI, also on a terminal.")] = False,
    sim_topology: TopologyOption = "small",
    sim_fault: FaultOption = None,
) -> None:
    """Run the suite, judge every number against the profile, decide, and write the reports."""
    from gpuproof.session import run_suite  # noqa: PLC0415

    _simulated(cluster)
    arguments = ["--profile", str(profile), "--sim-topology", sim_topology]
    arguments += _flag("--cluster", cluster) + _flag("--context", context) + _flag("--kubeconfig", kubeconfig)
    arguments += ["--in-cluster"] if in_cluster else []
    arguments += _flag("--out", out) + _flag("--image", image) + _flag("--resume", resume)
    arguments += _flag("--baseline", baseline) + _flag("--max-gpu-hours", max_gpu_hours)
    for flag, values in (("--only", only), ("--nodes", nodes), ("--sim-fault", sim_fault)):
        arguments += [word for value in values or [] for word in (flag, value)]
    raise typer.Exit(run_suite(arguments, private_checks or [], sys.argv[1:], quiet=quiet, plain=plain))


@app.command()
def plan(
    profile: ProfileOption,
    cluster: ClusterOption = None,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
    in_cluster: InClusterOption = False,
    render: Annotated[
        bool, typer.Option("--render", help="Print every manifest that a run would create, for a security review.")
    ] = False,
    private_checks: PrivateOption = None,
    sim_topology: TopologyOption = "small",
    sim_fault: FaultOption = None,
) -> None:
    """What would run, where, against which number, for how many GPU-minutes. Asks the cluster only for its nodes."""
    from gpuproof.options import Options  # noqa: PLC0415
    from gpuproof.planning import print_plan  # noqa: PLC0415

    options = Options(
        profile=profile,
        simulated=_simulated(cluster),
        context=context,
        kubeconfig=kubeconfig,
        in_cluster=in_cluster,
        topology=sim_topology,
        faults=tuple(sim_fault or ()),
        folders=_folders(private_checks),
    )
    raise typer.Exit(_guarded(print_plan, options, render))


@app.command()
def report(
    directory: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, or its record.jsonl.")],
) -> None:
    """Write the reports of a run again from its record, also of one that was killed; exits with its decision's code."""
    from gpuproof.reading_back import rewrite_reports  # noqa: PLC0415

    raise typer.Exit(_guarded(rewrite_reports, directory))


@app.command()
def verify(
    directory: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run.")],
    allowed_signers: Annotated[
        Path | None,
        typer.Option("--allowed-signers", metavar="FILE", help="Who may sign (see ssh-keygen, ALLOWED SIGNERS)."),
    ] = None,
    identity: Annotated[
        str | None, typer.Option("--identity", metavar="NAME", help="Who must have signed, as named in that file.")
    ] = None,
    sign_with: Annotated[
        Path | None, typer.Option("--sign-with", metavar="KEY", help="Sign it with this SSH key once it is verified.")
    ] = None,
) -> None:
    """Judge a run again from its own record and profile; exits with 0 verified, 1 altered, 3 never sealed."""
    from gpuproof.reading_back import verify_run  # noqa: PLC0415

    if (allowed_signers is None) != (identity is None):
        _complain("--allowed-signers and --identity belong together: who may sign, and who must have")
        raise typer.Exit(USAGE)
    raise typer.Exit(_guarded(verify_run, directory, allowed_signers, identity, sign_with))


@app.command()
def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="BEFORE… AFTER", help="Folders of runs; the last is held against the others."),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder for the comparison (beside the last run).")
    ] = None,
    prices: Annotated[
        Path | None, typer.Option("--prices", metavar="FILE", help="Prices per GPU-hour and useful units.")
    ] = None,
    alpha: Annotated[
        float, typer.Option("--alpha", min=0.0001, max=0.5, help="Largest p-value that counts as more than noise.")
    ] = 0.01,
    least_change: Annotated[
        float, typer.Option("--least-change", min=0.0, max=10.0, help="Smallest change that counts, as a share.")
    ] = 0.05,
) -> None:
    """What changed since, and is it worse: 0 SAME or IMPROVED, 1 REGRESSED, 3 NOT COMPARABLE."""
    from gpuproof.comparing import compare_runs  # noqa: PLC0415
    from gpuproof.report.compare import Judging  # noqa: PLC0415

    raise typer.Exit(_guarded(compare_runs, runs, out, prices, Judging(alpha, least_change)))


@app.command()
def history(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder whose subfolders are runs.")] = Path("reports"),
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder for index.html (default: the same).")
    ] = None,
) -> None:
    """One page over all runs of a folder: decisions, trends, repeat offenders, age of each node's acceptance."""
    from gpuproof.comparing import write_history  # noqa: PLC0415

    raise typer.Exit(_guarded(write_history, folder, out))


@app.command()
def explain(
    check: Annotated[
        str | None, typer.Argument(metavar="CHECK", help="A check's name; without it, all are listed.")
    ] = None,
    profile: Annotated[
        Path | None, typer.Option("--profile", metavar="FILE", help="Show the limits of this profile too.")
    ] = None,
    private_checks: PrivateOption = None,
) -> None:
    """What a check asks, why, what it needs first, and what holds its answers."""
    from gpuproof.planning import print_check, print_checks  # noqa: PLC0415

    folders = _folders(private_checks)
    raise typer.Exit(
        _guarded(print_checks, folders) if check is None else _guarded(print_check, check, profile, folders)
    )


@app.command()
def selftest(
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="FAULT", help="Only this fault, beside the clean run (repeatable)."),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Simulated clusters at a time.")] = 2,
) -> None:
    """Every fault against its check on the simulated cluster: the proof that each check can fail."""
    from gpuproof.selftest import SelftestError  # noqa: PLC0415
    from gpuproof.selftest import selftest as prove  # noqa: PLC0415

    try:
        raise typer.Exit(prove(only or [], jobs))
    except SelftestError as error:
        _complain(str(error))
        raise typer.Exit(USAGE) from error


sim = typer.Typer(help="Leave a simulated cluster running, look at it, end it.", no_args_is_help=True)
app.add_typer(sim, name="sim")
NameOption = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="Of the cluster, where there are several.")
]


@sim.command("up")
def sim_up(
    topology: Annotated[str, typer.Option("--topology", metavar="NAME|FILE", help="Which nodes it has.")] = "small",
    fault: Annotated[list[str] | None, typer.Option("--fault", metavar="ID", help="Inject it (repeatable).")] = None,
    name: NameOption = None,
) -> None:
    """Start a simulated cluster in the background and print the path of its kubeconfig."""
    from gpuproof.simulation import command  # noqa: PLC0415

    faults = [word for one in fault or [] for word in ("--fault", one)]
    raise typer.Exit(command("up", "--topology", topology, *faults, *_flag("--name", name)))


@sim.command("down")
def sim_down(name: NameOption = None) -> None:
    """End it and remove everything it left."""
    from gpuproof.simulation import command  # noqa: PLC0415

    raise typer.Exit(command("down", *_flag("--name", name)))


@sim.command("status")
def sim_status(name: NameOption = None) -> None:
    """Say as JSON which one runs; exit code 1 where none does."""
    from gpuproof.simulation import command  # noqa: PLC0415

    raise typer.Exit(command("status", *_flag("--name", name)))


@sim.command("lose-node")
def sim_lose_node(
    node: Annotated[str, typer.Argument(metavar="NODE", help="The node's name.")],
    kubeconfig: KubeconfigOption = None,
    how: Annotated[str, typer.Option("--how", metavar="power|network|kubelet", help="What of it ends.")] = "power",
) -> None:
    """Take a node of a running simulated cluster away, for good; the cluster is that of $KUBECONFIG."""
    from gpuproof.simulation import command  # noqa: PLC0415

    raise typer.Exit(command("lose-node", node, "--how", how, *_flag("--kubeconfig", kubeconfig)))


@app.command()
def clean(
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
    in_cluster: InClusterOption = False,
    run_id: Annotated[
        str | None, typer.Option("--run", metavar="RUN-ID", help="Only what this run left; default: what any run left.")
    ] = None,
    older_than: Annotated[
        float,
        typer.Option("--older-than", metavar="HOURS", min=0, help="Only what is at least so old: spares runs at work."),
    ] = 0.0,
    yes: Annotated[bool, typer.Option("--yes", help="Delete. Without it, what would be deleted is listed.")] = False,
) -> None:
    """Remove the namespaces that killed runs left behind, and nothing else."""
    from gpuproof.options import Options  # noqa: PLC0415
    from gpuproof.reaching import clean_up  # noqa: PLC0415

    options = Options(profile=Path(), context=context, kubeconfig=kubeconfig, in_cluster=in_cluster)
    raise typer.Exit(_guarded(clean_up, options, run_id, older_than, yes))


def _folders(private: list[Path] | None) -> tuple[Path, ...]:
    from gpuproof.catalogue import ACCEPTANCE  # noqa: PLC0415

    return (ACCEPTANCE, *(folder.resolve() for folder in private or []))


def _flag(name: str, value: object) -> list[str]:
    return [] if value is None else [name, str(value)]


def _simulated(cluster: str | None) -> bool:
    if cluster not in (None, "sim"):
        _complain(f"--cluster {cluster}: the only cluster that gpuproof brings along is sim; name yours with --context")
        raise typer.Exit(USAGE)
    return cluster == "sim"


def _guarded(action: Any, *arguments: object) -> int:
    """Run a command; what the user can mend becomes one clear message and exit code 2."""
    from gpuproof.options import LaunchError  # noqa: PLC0415

    try:
        code: int = action(*arguments)
    except LaunchError as error:
        _complain(str(error))
        return USAGE
    return code


def _complain(text: str) -> None:
    typer.echo(f"gpuproof: {text}", err=True)


def main() -> None:
    """The `gpuproof` command. A defect of its own ends as UNDECIDED: Python's exit code 1 would read as REJECTED."""
    try:
        app()
    except Exception:  # noqa: BLE001 - the outermost boundary: whatever it was, nothing was decided
        import traceback  # noqa: PLC0415

        traceback.print_exc()
        _complain(
            "this is a defect of gpuproof; nothing was decided (the record, if there is one, keeps what is known)"
        )
        sys.exit(UNDECIDED)
