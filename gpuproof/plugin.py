"""The pytest plugin: options, subjects as parameters, the fixtures checks are written with, verdicts as outcomes.

Joins pytest to a run and judges nothing. It must not know a limit, a pod or a report's look.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from gpuproof import catalogue
from gpuproof.fixtures import (  # noqa: F401 - pytest finds the fixtures of a plugin by their names in it
    follow_load,
    kill_training,
    observe,
    read_exporter,
    read_prometheus,
    read_pull,
    run_experiment,
    run_workload,
    try_claims,
)
from gpuproof.items import LAUNCHED, NEEDS, identity, launched_of
from gpuproof.launch import Launched, launch, new_run_id
from gpuproof.options import LaunchError, Listener, Options
from gpuproof.report.page import PROPERTY_CHECK, PROPERTY_SUBJECT, ReportPage
from gpuproof.report.terminal import print_summary
from gpuproof.run_folder import RECORD
from gpuproof.suite import Answer, ClusterSubject, GangSubject, Hold
from gpuproof.verdict import Judgement, Verdict

LISTENER = pytest.StashKey[Listener]()
"""Set by `gpuproof run` before the session starts: gets every line of the record as it is written."""
ARGV = pytest.StashKey[tuple[str, ...]]()
"""What the user typed, where that was not pytest's own command line."""
RUN_ID = pytest.StashKey[str]()
VERDICT = pytest.StashKey[Verdict]()

SHOWN = {
    Verdict.PASS: ("passed", ".", "PASS"),
    Verdict.FAIL: ("failed", "F", "FAIL"),
    Verdict.ERROR: ("failed", "E", "ERROR"),
    Verdict.NOT_RUN: ("failed", "N", "NOT_RUN"),
    Verdict.NOT_APPLICABLE: ("skipped", "s", "NOT_APPLICABLE"),
    Verdict.RECORDED: ("passed", "r", "RECORDED"),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of an acceptance run."""
    group = parser.getgroup("gpuproof", "acceptance of a GPU cluster")
    group.addoption("--profile", metavar="FILE", help="threshold file: what is expected, required and good enough")
    group.addoption("--cluster", choices=["sim"], help="run on the embedded simulated cluster")
    group.addoption("--context", metavar="NAME", help="run on the cluster of this kubeconfig context")
    group.addoption("--kubeconfig", metavar="FILE", help="kubeconfig to use instead of the default one")
    group.addoption("--in-cluster", action="store_true", help="run on the cluster this process is a pod of")
    group.addoption("--out", metavar="DIR", help="folder for this run's record and reports (default: reports/RUN-ID)")
    group.addoption("--only", action="append", default=[], metavar="CHECK", help="ask only this check (repeatable)")
    group.addoption("--nodes", action="append", default=[], metavar="NODE", help="ask only this node (repeatable)")
    group.addoption("--image", metavar="REF", help="image of the workload pods, instead of the profile's")
    group.addoption(
        "--resume", metavar="DIR", help="continue the run in this folder: what it settled is not asked again"
    )
    group.addoption("--baseline", metavar="RUN", help='folder of the run that limits with of = "baseline" are held to')
    group.addoption(
        "--max-gpu-hours", type=float, metavar="H", help="do not begin what may hold GPUs for longer, by its deadlines"
    )
    group.addoption("--sim-topology", default="small", metavar="NAME|FILE", help="topology of the simulated cluster")
    group.addoption("--sim-fault", action="append", default=[], metavar="ID", help="inject this fault (repeatable)")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the mark, choose the run's folder, and put pytest-html's page into it unless the user chose a place."""
    config.addinivalue_line("markers", "check(name, requires=[]): the check this file is, and those it needs first")
    chosen = config.option
    if not chosen.profile:
        return
    if getattr(chosen, "numprocesses", None) or hasattr(config, "workerinput"):
        raise pytest.UsageError(
            "-n: an acceptance run asks all nodes at once itself; every worker would start its own run"
        )
    run_id = config.stash[RUN_ID] = new_run_id()
    chosen.out = chosen.resume or chosen.out or str(Path("reports", run_id))
    if _has_html(config) and chosen.htmlpath is None and not chosen.collectonly:
        chosen.htmlpath, chosen.self_contained_html = str(Path(chosen.out, "pytest.html")), True


def _has_html(config: pytest.Config) -> bool:
    return any(config.pluginmanager.has_plugin(name) for name in ("html", "pytest_html.plugin"))


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Load the profile, find the cluster, plan; a bad option or profile ends pytest with its usage error."""
    config = session.config
    if not config.option.profile:
        raise pytest.UsageError(NEEDS)
    try:
        launched = config.stash[LAUNCHED] = launch(_options(config))
    except LaunchError as error:
        raise pytest.UsageError(str(error)) from error
    if _has_html(config):
        config.pluginmanager.register(_page(launched), "gpuproof-page")


def _options(config: pytest.Config) -> Options:
    chosen = config.option
    return Options(
        profile=Path(chosen.profile),
        simulated=chosen.cluster == "sim",
        context=chosen.context,
        kubeconfig=Path(chosen.kubeconfig) if chosen.kubeconfig else None,
        in_cluster=chosen.in_cluster,
        run_id=config.stash[RUN_ID],
        out=Path(chosen.out),
        image=chosen.image,
        resume=Path(chosen.resume) if chosen.resume else None,
        baseline=Path(chosen.baseline) if chosen.baseline else None,
        topology=chosen.sim_topology,
        faults=tuple(chosen.sim_fault),
        argv=config.stash.get(ARGV, tuple(str(argument) for argument in config.invocation_params.args)),
        folders=tuple(_check_folders(config)),
        only=tuple(chosen.only),
        nodes=tuple(chosen.nodes),
        narrowed=_narrowed(config),
        max_gpu_hours=chosen.max_gpu_hours,
        listener=config.stash.get(LISTENER, None),
    )


def _narrowed(config: pytest.Config) -> str | None:
    """How the command line cut the run down: such a run cannot speak for its whole scope."""
    chosen = config.option
    parts = [f"--only {name}" for name in chosen.only] + [f"--nodes {name}" for name in chosen.nodes]
    parts += [f"{flag} {value}" for flag, value in (("-k", chosen.keyword), ("-m", chosen.markexpr)) if value]
    parts += [argument for argument in config.args if "::" in argument or argument.endswith(".py")]
    parts += [f"--deselect {argument}" for argument in chosen.deselect or []]
    return " ".join(parts) or None


def _page(launched: Launched) -> ReportPage:
    """pytest-html's page, fed from the record like every other report."""
    links = [("report.html", "report.html"), ("report.json", "report.json"), ("record.jsonl", RECORD)]
    return ReportPage(look_up=launched.look_up, view=launched.view, links=links)


def _check_folders(config: pytest.Config) -> Iterator[Path]:
    yield catalogue.ACCEPTANCE
    for argument in config.args:
        path = Path(argument.split("::")[0]).resolve()
        related = {path, *path.parents} & {catalogue.ACCEPTANCE} or path in catalogue.ACCEPTANCE.parents
        if path.is_dir() and not related:
            yield path


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A check's subjects are its parameters, named so that `-k gpu-07` asks one node again."""
    if metafunc.definition.get_closest_marker("check") is None:
        return
    plan = launched_of(metafunc.config).run.verdicts.plan
    if "node" in metafunc.fixturenames:
        metafunc.parametrize("node", plan.nodes, ids=[node.name for node in plan.nodes])
    if "cluster" in metafunc.fixturenames:
        metafunc.parametrize("cluster", [ClusterSubject()], ids=["cluster"])
    if "gang" in metafunc.fixturenames:
        metafunc.parametrize("gang", [GangSubject()], ids=["cluster"])


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    """Ask in the order of prerequisites, one item a check and subject, and only what was selected."""
    if LAUNCHED not in session.config.stash:
        if any(item.get_closest_marker("check") for item in items):
            launched_of(session.config)
        return
    order = {check.name: place for place, check in enumerate(session.config.stash[LAUNCHED].run.setting.checks)}
    seen: dict[tuple[str, str], str] = {}
    for item in items:
        check, subject = identity(item)
        other = seen.setdefault((check, subject.name), item.nodeid)
        if other != item.nodeid:
            raise pytest.UsageError(f"{item.nodeid} and {other} both ask {check} of {subject.name}; a check asks once")
    items.sort(key=lambda item: order[identity(item)[0]])
    _deselect(session.config, items)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Only what was selected is asked: no pod is put on a node that nobody wants to know about."""
    launched = session.config.stash.get(LAUNCHED, None)
    if launched is not None:
        launched.run.verdicts.asked = {(check, subject.name) for check, subject in map(identity, session.items)}


def _deselect(config: pytest.Config, items: list[pytest.Item]) -> None:
    only, nodes = set(config.option.only), set(config.option.nodes)
    dropped = [
        item
        for item in items
        if (only and identity(item)[0] not in only) or (nodes and identity(item)[1].name not in nodes)
    ]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        gone = set(map(id, dropped))
        items[:] = [item for item in items if id(item) not in gone]


@pytest.fixture
def hold(request: pytest.FixtureRequest) -> Hold:
    """Hold answers against the profile; ends the test with the verdict."""
    run = launched_of(request.config).run
    check, subject = identity(request.node)
    began = time.monotonic()

    def judge(*answers: Answer) -> None:
        judgement = run.judge(check, subject.name, answers, began)
        request.node.stash[VERDICT] = judgement.verdict
        _end(judgement)

    return judge


def _end(judgement: Judgement) -> None:
    text = f"{judgement.verdict}: " + "; ".join(judgement.reasons)
    if judgement.verdict is Verdict.NOT_APPLICABLE:
        pytest.skip(text)
    if judgement.verdict not in (Verdict.PASS, Verdict.RECORDED):
        pytest.fail(text, pytrace=False)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Settle without asking what the profile, a prerequisite or an earlier run has settled."""
    if LAUNCHED not in pyfuncitem.config.stash:
        return None
    run = pyfuncitem.config.stash[LAUNCHED].run
    check, subject = identity(pyfuncitem)
    judgement = run.verdicts.settled(check, subject.name)
    if judgement is None:
        return None
    run.verdicts.settle(check, subject.name, judgement)
    pyfuncitem.stash[VERDICT] = judgement.verdict
    _end(judgement)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """A check that ended without holding anything has judged nothing: ERROR, whatever pytest thinks of it."""
    report: pytest.TestReport = yield  # type: ignore[assignment]
    if LAUNCHED not in item.config.stash:
        return report  # type: ignore[return-value]
    if VERDICT not in item.stash and (report.when == "call" or not report.passed):
        _nothing_held(item, call, report)
    elif call.excinfo is not None and item.stash.get(VERDICT, None) in (Verdict.PASS, Verdict.RECORDED):
        _broke_afterwards(item, call)
    if report.when == "teardown":
        return report  # type: ignore[return-value]
    verdict = item.stash.get(VERDICT, None)
    if verdict is not None:
        if report.when == "call" and SHOWN[verdict][0] == "failed" and not report.failed:
            # The check swallowed what `hold` raised, or was marked as expected to fail: neither changes the verdict.
            report.outcome, report.longrepr = "failed", f"{verdict}: see the report"
        check, subject = identity(item)
        report.user_properties += [
            ("verdict", str(verdict)),
            (PROPERTY_CHECK, check),
            (PROPERTY_SUBJECT, subject.name),
        ]
    return report  # type: ignore[return-value]


def _nothing_held(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    check, subject = identity(item)
    if call.excinfo is None:
        reason = f"{check} ended without holding any answer against the profile: it judged nothing"
    else:
        reason = f"{check} itself failed: {call.excinfo.exconly()}"
    item.config.stash[LAUNCHED].run.verdicts.spoil(check, subject.name, reason)
    item.stash[VERDICT] = Verdict.ERROR
    report.outcome = "failed"
    if call.excinfo is None:
        report.longrepr = f"ERROR: {reason}"


def _broke_afterwards(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    check, subject = identity(item)
    text = f"{check} itself failed after its verdict: {call.excinfo.exconly() if call.excinfo else ''}"
    item.config.stash[LAUNCHED].run.verdicts.spoil(check, subject.name, text)
    item.stash[VERDICT] = Verdict.ERROR


def pytest_report_teststatus(report: pytest.CollectReport | pytest.TestReport) -> tuple[str, str, str] | None:
    """Show the verdict's own word, not only passed or failed."""
    verdict = dict(getattr(report, "user_properties", [])).get("verdict")
    if report.when != "call" or verdict is None:
        return None
    return SHOWN[Verdict(str(verdict))]


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int | pytest.ExitCode) -> None:
    """Tidy up, decide, write the reports; whatever ended the session."""
    launched: Launched | None = session.config.stash.get(LAUNCHED, None)
    if launched is not None:
        launched.finish(interrupted=exitstatus == pytest.ExitCode.INTERRUPTED)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Seal the run's folder when pytest-html's page is in it too."""
    launched: Launched | None = config.stash.get(LAUNCHED, None)
    if launched is not None:
        launched.seal()


def pytest_terminal_summary(config: pytest.Config) -> None:
    """Print the decision under pytest's own summary; pytest's exit code stays its own."""
    launched: Launched | None = config.stash.get(LAUNCHED, None)
    if launched is not None and launched.reports is not None:
        print_summary(Console(), launched.view(), launched.reports.html)
