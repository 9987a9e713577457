"""What `gpuproof plan` and `gpuproof explain` print: questions, subjects, limits, cost, manifests. Runs nothing.

It asks the cluster for its nodes and nothing else, and must not know pytest.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import yaml
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpuproof.admission import KUEUE
from gpuproof.catalogue import CatalogueError, Check, load_checks, workload_folders
from gpuproof.cluster.port import NODES, ClusterError
from gpuproof.cost import Cost, costs, gpu_hours
from gpuproof.describe import bound
from gpuproof.expectation import State
from gpuproof.gang_pods import AGENT, gang_job
from gpuproof.inventory import read_inventory
from gpuproof.limits import Limit
from gpuproof.manifests import Renderer, SweepJob
from gpuproof.options import LaunchError, Options
from gpuproof.plan import Plan, judge_coverage, make_plan, scope_labels
from gpuproof.pod_shape import read_shape
from gpuproof.preflight import read
from gpuproof.profile import Profile
from gpuproof.reaching import reach, release
from gpuproof.run_trainings import training_setup
from gpuproof.setting import Setting, renderer, today
from gpuproof.trainings import Setup, sample_job
from gpuproof.visits import SweepRequest

_AT_THE_RUN = b"objects of [dataset], their sizes and sha256, and addresses that are signed when a run begins"
"""In the place of a Secret's content: a plan signs nothing and shows no credential."""


def print_plan(options: Options, render: bool) -> int:
    """Print what a run would do; with `render`, every manifest it would create, as YAML on standard output."""
    checks, profile = read(options)
    cluster, simulated = reach(options)
    try:
        listing = cluster.list_objects(NODES)
    except ClusterError as error:
        raise LaunchError(f"{cluster.name}: {error.message}") from error
    finally:
        release(cluster, simulated)
    nodes = read_inventory(listing.items, gpu_resource=profile.cluster.gpu_resource).in_pool(scope_labels(profile))
    plan = make_plan(checks, profile, [node.name for node in nodes])
    folders = workload_folders(options.folders)
    if render:
        _print_manifests(checks, profile, plan, folders)
        return 0
    console = Console()
    console.print(Text(f"profile {profile.name} on {cluster.name}", style="bold"))
    console.print(f"scope: {judge_coverage(plan, profile, {}, today=today()).text}")
    absent = [node.name for node in plan.nodes if node.missing]
    if absent:
        console.print(f"missing: {len(absent)} of {plan.expected_nodes} expected nodes are not in the cluster")
    found = costs(checks, profile, plan, folders)
    console.print(_cost_table(found))
    console.print(
        f"at most {gpu_hours(found):.2f} GPU-hours, by the profile's deadlines; run --max-gpu-hours refuses more"
    )
    for check in checks:
        if profile.checks[check.name].state is not State.NOT_APPLICABLE:
            console.print(_limit_table(check, profile))
    if any(check.kills and profile.checks[check.name].state is not State.NOT_APPLICABLE for check in checks):
        choice = training_setup(profile, {}, folders).choice
        console.print(Text(f"whose the pods are that are killed: {choice.text}"))
    for why in profile.blocking_provenance(today()):
        console.print(Text(f"cannot be ACCEPTED: {why}", style="yellow"))
    return 0


def print_checks(folders: tuple[Path, ...]) -> int:
    """One line a check: its name and its question."""
    for check in _checks(folders):
        sys.stdout.write(f"{check.name:<24} {check.question}\n")
    return 0


def print_check(name: str, profile_path: Path | None, folders: tuple[Path, ...]) -> int:
    """One check: question, reasons, prerequisites, programs, and the limits of a profile where one is given."""
    checks = _checks(folders)
    check = next((check for check in checks if check.name == name), None)
    if check is None:
        raise LaunchError(f"there is no check {name!r}; there are {', '.join(check.name for check in checks)}")
    console = Console()
    console.print(Text(check.name, style="bold"))
    console.print(check.question)
    for case in check.cases:
        console.print(Text(f"\n{case.doc}"))
    console.print(f"\nneeds first: {', '.join(check.requires) or 'nothing'}")
    console.print(f"runs in pods: {', '.join(f'workloads/{program}.py' for program in check.workloads) or 'nothing'}")
    console.print(Text(f"source: {check.file}"))
    if profile_path is not None:
        _, profile = read(Options(profile=profile_path, folders=folders))
        state = profile.checks[name]
        console.print(f"\nin {profile.name}: {state.state}{f' ({state.reason})' if state.reason else ''}")
        console.print(_limit_table(check, profile))
    return 0


def _checks(folders: tuple[Path, ...]) -> tuple[Check, ...]:
    try:
        return load_checks(folders)
    except CatalogueError as error:
        raise LaunchError(str(error)) from error


def _cost_table(found: Sequence[Cost]) -> Table:
    table = _table("what would run", "check", "state", "subjects", "pods", "GPU-minutes at most")
    for cost in found:
        table.add_row(cost.check, cost.state, str(cost.subjects), str(cost.pods), f"{cost.gpu_minutes:.0f}")
    return table


def _table(title: str, *columns: str) -> Table:
    """A table whose words are folded and never cut: they are what one types into a profile."""
    table = Table(title=title)
    for name in columns:
        table.add_column(name, overflow="fold")
    return table


def _limit_table(check: Check, profile: Profile) -> Table:
    table = _table(check.name, "what", "at", "must be", "severity", "provenance")
    for limit in profile.limits_for(check.name):
        # As Text: what a profile says may hold square brackets, which rich would take for markup.
        cells = (limit.name, _point(limit), bound(limit, profile.cluster), str(limit.severity), _source(limit))
        table.add_row(*(Text(cell) for cell in cells))
    return table


def _point(limit: Limit) -> str:
    return " ".join([*(f"{key}={value}" for key, value in limit.at.items()), f"per {limit.per}"])


def _source(limit: Limit) -> str:
    provenance = limit.provenance
    words = [provenance.kind]
    for name in ("url", "formula", "source", "document", "clause", "evidence", "reason", "replace_by"):
        value = getattr(provenance, name, None)
        if value:
            words.append(str(value))
    return ", ".join(words)


def _print_manifests(checks: Sequence[Check], profile: Profile, plan: Plan, folders: tuple[Path, ...]) -> None:
    """YAML documents in the order of their creation; the run id is a placeholder."""
    setting = Setting("run-id", profile, tuple(checks), (), simulated=False, folders=folders)
    made = renderer(setting)
    documents = [made.namespace_object()]
    claims: set[str] = set()
    documents += _gang(made, checks, profile, plan)
    for check in checks:
        if profile.checks[check.name].state is State.NOT_APPLICABLE:
            continue
        for workload in check.workloads:
            wanted = [name for name in read_shape(workload, folders).claims if name not in claims]
            documents += [made.claim(name) for name in wanted]
            claims.update(wanted)
            if read_shape(workload, folders).dataset and profile.dataset is not None:
                documents.append(made.dataset(_AT_THE_RUN))
            documents.append(made.sources(workload))
            if check.kills:
                documents += _training(made, training_setup(profile, {}, folders))
            else:
                documents.append(_sweep(made, check, workload, profile, plan))
    yaml.dump_all(documents, sys.stdout, Dumper=_Readable, sort_keys=False, width=120, allow_unicode=True)


def _training(made: Renderer, setup: Setup) -> list[dict[str, object]]:
    queue = setup.choice.queue
    door = [made.local_queue(queue.name)] if queue is not None and queue.kind is KUEUE else []
    return [*door, *made.training(sample_job(setup))]


def _gang(made: Renderer, checks: Sequence[Check], profile: Profile, plan: Plan) -> list[dict[str, object]]:
    """What the gang needs, once, where any check asks for it. The key is made anew for each run and shown to nobody."""
    asking = [c for c in checks if c.experiments and profile.checks[c.name].state is not State.NOT_APPLICABLE]
    nodes = tuple(node.name for node in plan.nodes if not node.missing)
    if not asking or not nodes:
        return []
    gpus = profile.cluster.pod_gpus
    job = gang_job(SweepRequest(asking[0].name, AGENT, {}, nodes, gpus, profile.deadlines))
    secret, service, manifest = made.gang(job, "a-key-of-64-random-digits")
    return [secret, service, made.sources(AGENT), manifest]


class _Readable(yaml.SafeDumper):
    """Programs as literal blocks: whoever reviews a manifest must be able to read what it runs."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Readable.add_representer(str, _text)


def _sweep(made: Renderer, check: Check, workload: str, profile: Profile, plan: Plan) -> dict[str, object]:
    limits, shape = profile.deadlines, read_shape(workload, made.folders)
    return made.sweep(
        SweepJob(
            name=f"{check.name.replace('_', '-')}-1",
            sweep=f"{check.name}-1",
            check=check.name,
            workload=workload,
            pods=sum(not node.missing for node in plan.nodes),
            gpus=shape.gpus_of(profile.cluster.pod_gpus),
            shape=shape,
            world_size=1,
            active_deadline_s=int(limits.scheduling_s + limits.pulling_s + limits.starting_s + limits.running_s),
            params={**profile.workloads.get(check.name, {}), "device": profile.cluster.device},
        )
    )
