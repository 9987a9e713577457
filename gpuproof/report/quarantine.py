"""Owns quarantine.json: which nodes to take out of use and why, for the team's own tool; it cordons nothing itself.

Must not name a node for anything but a required check that is FAIL and not waived: what nobody could judge is no
reason to take a node away.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from gpuproof.report.view import RunView, SubjectView
from gpuproof.report.wording import as_utc, natural, visible
from gpuproof.report.words import Decision

SCHEMA_VERSION: Literal["1.0"] = "1.0"
_MOST_REASONS = 20


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class Why(_Part):
    """One required check that failed on the node."""

    check: str
    reason_code: str | None
    reason: str


class QuarantinedNode(_Part):
    """A node of the inventory, what its GPUs called themselves, and why."""

    name: str
    gpus: tuple[str, ...]
    reasons: tuple[Why, ...]


class QuarantineDocument(_Part):
    """The whole of quarantine.json; `nodes` is empty where no node failed."""

    schema_version: Literal["1.0"]
    run_id: str
    cluster: str
    simulated: bool | None
    decision: Decision
    decided_at: str | None
    nodes: tuple[QuarantinedNode, ...]


def failed_nodes(view: RunView) -> dict[str, tuple[SubjectView, ...]]:
    """Return, by node of the inventory, the required checks that are FAIL on it and not waived, in natural order."""
    known = {node.name for node in view.nodes}
    found: dict[str, list[SubjectView]] = defaultdict(list)
    for subject in view.subjects:
        if subject.verdict == "FAIL" and subject.required and subject.planned and subject.waiver is None:
            for name in _named(subject, known):
                found[name].append(subject)
    return {name: tuple(found[name]) for name in sorted(found, key=natural)}


def _named(subject: SubjectView, known: set[str]) -> Iterable[str]:
    """Return the nodes a failure is about: the subject itself, or those that the check itself blames in a fact."""
    if subject.subject in known:
        return (subject.subject,)
    blamed = [
        str(name)
        for measured in subject.measurements
        for key, value in measured.facts.items()
        if key.startswith("blamed_node")
        for name in (value if isinstance(value, list | tuple) else (value,))
    ]
    return dict.fromkeys(name for name in blamed if name in known)


def device_names(facts: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return what devices called themselves: the values of every fact whose name speaks of a UUID or a serial."""
    found: list[str] = []
    for each in facts:
        for key, value in each.items():
            if ("uuid" in key or "serial" in key) and "unique" not in key:
                found += [str(one) for one in (value if isinstance(value, list | tuple) else (value,))]
    return tuple(dict.fromkeys(visible(name, keep_newlines=False) for name in found if name not in ("", "none")))


def render_quarantine(view: RunView) -> str:
    """Return quarantine.json."""
    ended = view.run.ended_at
    facts: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for subject in view.subjects:
        facts[subject.subject] += [measured.facts for measured in subject.measurements]
    document = QuarantineDocument(
        schema_version=SCHEMA_VERSION,
        run_id=view.run.run_id,
        cluster=view.run.cluster.name,
        simulated=view.run.cluster.simulated,
        decision=view.decision.outcome,
        decided_at=as_utc(ended).isoformat() if ended and view.decision.recorded else None,
        nodes=tuple(
            QuarantinedNode(
                name=name,
                gpus=device_names(facts.get(name, ())),
                reasons=tuple(
                    Why(check=s.check, reason_code=s.reason_code, reason=reason)
                    for s in subjects
                    for reason in (s.reasons or ("no reason was recorded",))[:_MOST_REASONS]
                ),
            )
            for name, subjects in failed_nodes(view).items()
        ),
    )
    return document.model_dump_json(indent=1) + "\n"
