"""What an interrupted run has settled, read from its record, and whether it still speaks for the cluster at hand.

Must not know a live cluster: it is told who the cluster and its nodes are.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuproof.decision import Key, VerdictLine
from gpuproof.observation import WORKLOAD as OBSERVED
from gpuproof.verdict import Verdict
from workloads.contract import Measurement, Sample

SETTLED = (Verdict.PASS, Verdict.FAIL, Verdict.RECORDED)
"""What was measured stays measured; ERROR and NOT_RUN are asked again."""

RESUME_WITHIN = dt.timedelta(hours=24)
"""An older measurement says nothing about today's cluster."""


class ResumeError(ValueError):
    """Why the record at hand cannot be continued: what it was, what is here, what to do."""


@dataclass(frozen=True)
class Circumstances:
    """Under which a run judges: all of it must be the same for its verdicts to be taken over."""

    profile_sha256: str
    gpuproof: str
    cluster_uid: str
    pod: Mapping[str, Any]


@dataclass(frozen=True)
class Earlier:
    """The verdicts of an interrupted run, and what it knew of the nodes they are about."""

    verdicts: Mapping[Key, VerdictLine]
    measurements: Mapping[Key, tuple[Measurement, ...]]
    """What pods measured: the subjects that are asked now are compared with it."""
    node_uids: Mapping[str, str]

    def usable(self, node_uids: Mapping[str, str]) -> dict[Key, VerdictLine]:
        """The verdicts about nodes that are still the same."""
        return {
            (check, subject): line
            for (check, subject), line in self.verdicts.items()
            if subject in node_uids and node_uids[subject] == self.node_uids.get(subject)
        }


def read_earlier(lines: Sequence[Mapping[str, Any]], now: dt.datetime, here: Circumstances) -> Earlier:
    """What an interrupted run settled; raises `ResumeError` where it may not be taken over."""
    started: Mapping[str, Any] | None = None
    verdicts: dict[Key, VerdictLine] = {}
    uids: dict[str, str] = {}
    for line in lines:
        event = line["event"]
        if event == "run_started":
            started = line
        elif event == "inventory":
            uids = {str(node["name"]): str(node.get("uid", "")) for node in line["nodes"]}
        elif event == "verdict":
            key = (str(line["check"]), str(line["subject"]))
            # The last word counts: what came to an error afterwards is asked again.
            before = verdicts.pop(key, None)
            if line["verdict"] in SETTLED:
                verdicts[key] = _settled(line, before)
        elif event == "decision" and not _interrupted(line):
            raise ResumeError("it was decided and is finished; start a new run")
    if started is None:
        raise ResumeError("its record has no run_started line, so there is nothing to continue")
    _refuse_other(started, now, here)
    return Earlier(verdicts, _measurements(lines), uids)


def _settled(line: Mapping[str, Any], before: VerdictLine | None) -> VerdictLine:
    held = frozenset(str(finding["limit_id"]) for finding in line["findings"])
    if not held and before is not None and before.verdict == line["verdict"]:
        # A resumed run repeats what was settled without its findings.
        held = before.held
    return VerdictLine(
        str(line["check"]),
        str(line["subject"]),
        Verdict(line["verdict"]),
        tuple(line["reasons"]),
        line["reason_code"],
        held=held,
    )


def _measurements(lines: Iterable[Mapping[str, Any]]) -> dict[Key, tuple[Measurement, ...]]:
    """What pods measured by (check, subject), the last of each workload."""
    found: dict[Key, dict[str, Measurement]] = {}
    for line in lines:
        # What the API said is asked again, and no subject is compared with it.
        if line["event"] == "measurement" and line["workload"] != OBSERVED:
            found.setdefault((line["check"], line["subject"]), {})[line["workload"]] = _measurement(line)
    return {key: tuple(by_workload.values()) for key, by_workload in found.items()}


def _measurement(line: Mapping[str, Any]) -> Measurement:
    # `float` reads the words that the record has for NaN and the infinities.
    samples = tuple(Sample(s["metric"], float(s["value"]), s["unit"], s["at"]) for s in line["samples"])
    return Measurement(line["workload"], "", line["subject"], line["pod"], 1, 1, samples, line["facts"])


def _interrupted(decision: Mapping[str, Any]) -> bool:
    return any("interrupted" in str(reason) for reason in decision["reasons"])


def _refuse_other(started: Mapping[str, Any], now: dt.datetime, here: Circumstances) -> None:
    was = Circumstances(
        str(started["profile"]["sha256"]),
        str(started["gpuproof"]),
        str(started["cluster"].get("uid", "")),
        started["pod_patch"],
    )
    pairs = (
        ("another profile (sha256)", was.profile_sha256[:12], here.profile_sha256[:12]),
        ("another version of gpuproof", was.gpuproof, here.gpuproof),
        ("another cluster (uid of kube-system)", was.cluster_uid, here.cluster_uid),
        ("another pod image or patch", dict(was.pod), dict(here.pod)),
    )
    for what, then, present in pairs:
        if then != present or not then:
            raise ResumeError(f"it was a run with {what}: {then or 'unknown'}, here it is {present}; start a new run")
    age = now - dt.datetime.fromisoformat(str(started["t"]))
    if not dt.timedelta(0) <= age <= RESUME_WITHIN:
        raise ResumeError(f"it began at {started['t']}, more than {RESUME_WITHIN} ago; start a new run")
