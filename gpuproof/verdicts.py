"""The verdicts of a run: what is settled without a question, what was judged, and what was never reached.

Writes each into the record. Must not know how anything was asked.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from gpuproof.catalogue import Check
from gpuproof.conclusion import conclude
from gpuproof.decision import NOT_SELECTED, Key, VerdictLine
from gpuproof.expectation import State
from gpuproof.failure import Reason
from gpuproof.finding import Context
from gpuproof.plan import Plan
from gpuproof.pod_shape import read_shape
from gpuproof.resume import Earlier
from gpuproof.run_record import RunRecord
from gpuproof.setting import Setting
from gpuproof.suite import Answer, ClusterSubject, Subject
from gpuproof.verdict import BLOCKED, NOTHING_JUDGED, Judgement, Verdict, blocked
from workloads.contract import Measurement

NO_DATASET = "no_dataset"


class Verdicts:
    """What every check came to on every subject, so far."""

    def __init__(self, setting: Setting, record: RunRecord) -> None:
        self.setting = setting
        self.judged: dict[Key, VerdictLine] = {}
        self.asked: Collection[Key] = ()
        """What was selected to be asked; set before the first question."""
        self.plan = Plan((), (), 0)
        self.taken_over: Mapping[Key, VerdictLine] = {}
        """What the resumed run had settled, and stands."""
        self.measured_earlier: Mapping[Key, tuple[Measurement, ...]] = {}
        """All that the resumed run had measured."""
        self._record = record
        self._handed_out: dict[Key, list[Answer]] = {}
        self._held: dict[Key, Judgement] = {}

    def go_on_from(self, earlier: Earlier, node_uids: Mapping[str, str]) -> None:
        """Take over what the resumed run settled about nodes that are still the same."""
        self.taken_over = earlier.usable(node_uids)
        self.measured_earlier = earlier.measurements
        self.judged = dict(self.taken_over)

    # -- before a question ---------------------------------------------------------------------------------------------

    def settled(self, check: str, subject: str) -> Judgement | None:
        """A verdict that needs no question: not applicable by the profile, blocked by a prerequisite, or resumed."""
        if (left_out := self._left_out(check)) is not None:
            return left_out
        if self._lacks_dataset(check):
            text = (
                f"{self.setting.profile.path} has no [dataset]: nothing of yours can be staged; name one, or say "
                'source = "generated" if made-up data is meant'
            )
            return Judgement(Verdict.NOT_RUN, reasons=(text,), reason_code=NO_DATASET)
        if (check, subject) in self.taken_over:
            line = self.taken_over[check, subject]
            return Judgement(line.verdict, reasons=line.reasons, reason_code=line.reason_code)
        blocker, verdict = self._blocker(check, subject)
        return None if blocker is None or verdict is None else blocked(blocker, verdict)

    def _lacks_dataset(self, check: str) -> bool:
        """Whether the check stages a dataset and the profile names none: never a pass on data nobody asked for."""
        programs, folders = self.check(check).workloads, self.setting.folders
        return self.setting.profile.dataset is None and any(read_shape(name, folders).dataset for name in programs)

    def _blocker(self, check: str, subject: str) -> tuple[str | None, Verdict | None]:
        """The first required prerequisite that was judged on this subject and did not pass, with its verdict."""
        for needed in self._prerequisites(check):
            for one in self._stands_on(check, subject):
                line = self.judged.get((needed, one))
                if line is not None and line.verdict is not Verdict.PASS:
                    return needed, line.verdict
        return None, None

    def _stands_on(self, check: str, subject: str) -> Iterator[str]:
        """The subject itself, and for a gang each of its nodes: it is not whole where one of them is not fit for it."""
        yield subject
        if subject == ClusterSubject().name and self.check(check).asks_gang:
            yield from (node.name for node in self.plan.nodes)

    def _prerequisites(self, check: str) -> Iterator[str]:
        """What the profile requires of all that the check needs, also by way of what it does not require."""
        for needed in self.check(check).requires:
            if self.setting.profile.required(needed):
                yield needed
            else:
                yield from self._prerequisites(needed)

    def belongs(self, node: str, stages: Mapping[str, str]) -> bool:
        """Whether something is asked of the node, alone or with all others, that nothing speaks against."""
        return any(
            self._fit(check, node) and not {(check, node), (check, ClusterSubject().name)}.isdisjoint(self.asked)
            for check in stages.values()
        )

    def may_begin(self, check: str) -> bool:
        """Whether something of the check is asked and open, and nothing that it needs is still to be judged."""
        subjects = [subject for name, subject in self.asked if name == check]
        needed = list(self._prerequisites(check)) if subjects else []
        known = all((one, subject) in self.judged for one in needed for subject in subjects)
        return known and any(self.settled(check, subject) is None for subject in subjects)

    def wanted(self, check: Check) -> bool:
        """Whether anything of the check is asked and open."""
        return any(name == check.name and self.settled(name, subject) is None for name, subject in self.asked)

    def _fit(self, check: str, node: str) -> bool:
        """Whether nothing that the check needs speaks against the node."""
        needed = self._prerequisites(check)
        lines = [self.judged.get((one, node)) for one in needed]
        return all(line is None or line.verdict is Verdict.PASS for line in lines)

    def check(self, name: str) -> Check:
        """One of the run's checks, by its name."""
        return next(check for check in self.setting.checks if check.name == name)

    # -- after it ------------------------------------------------------------------------------------------------------

    def hand_out(self, check: str, subject: Subject, answer: Answer) -> Answer:
        """Remember what a check was given about a subject: it may hold nothing else."""
        self._handed_out.setdefault((check, subject.name), []).append(answer)
        return answer

    def judge(self, check: str, subject: str, answers: Sequence[Answer], context: Context, began: float) -> Judgement:
        """Hold the answers against the profile and write the verdict down; a second verdict is never a better one."""
        judgement = conclude(check, subject, answers, self.setting.profile.limits_for(check), context)
        handed_out = self._handed_out.get((check, subject), [])
        if not all(any(answer is one for one in handed_out) for answer in answers):
            text = f"{check} held something for {subject} that it did not get by asking about it: nothing was judged"
            judgement = Judgement(Verdict.ERROR, reasons=(text,), reason_code=NOTHING_JUDGED)
        if (check, subject) in self._held:
            text = f"{check} held answers for {subject} twice; a check holds once, with everything it has"
            judgement = _worse(self._held[check, subject], judgement, text)
        self._held[check, subject] = judgement
        self.settle(check, subject, judgement, time.monotonic() - began)
        return judgement

    def spoil(self, check: str, subject: str, text: str) -> None:
        """The check itself broke: its verdict is an ERROR, unless the cluster had already failed it."""
        before = self._held.get((check, subject))
        error = Judgement(Verdict.ERROR, reasons=(text,), reason_code=str(Reason.HARNESS_ERROR))
        self.settle(check, subject, _worse(before, error, text) if before else error)

    def settle(self, check: str, subject: str, judgement: Judgement, duration_s: float = 0.0) -> None:
        """Write a verdict down, however it came about."""
        required = self.setting.profile.checks[check].state is State.REQUIRED
        blocker = self._blocker(check, subject)[0] if judgement.reason_code == BLOCKED else None
        line = VerdictLine.of(check, subject, judgement, blocker)
        if not line.held and (check, subject) in self.taken_over:
            line = replace(line, held=self.taken_over[check, subject].held)
        self.judged[check, subject] = line
        self._record.verdict(check, subject, judgement, required=required, blocker=blocker, seconds=duration_s)

    def fill_gaps(self, interrupted: str | None) -> None:
        """What was planned and has no verdict was not run, and says why; what the profile leaves out stays that."""
        reason = f"not reached: the run was interrupted ({interrupted})" if interrupted else "not selected for this run"
        code = str(Reason.INTERRUPTED) if interrupted else NOT_SELECTED
        for subject in self.plan.subjects:
            if (subject.check, subject.subject) not in self.judged:
                left_out = self._left_out(subject.check)
                gap = left_out or Judgement(Verdict.NOT_RUN, reasons=(reason,), reason_code=code)
                self.settle(subject.check, subject.subject, gap)

    def _left_out(self, check: str) -> Judgement | None:
        state = self.setting.profile.checks[check]
        if state.state is not State.NOT_APPLICABLE:
            return None
        return Judgement(Verdict.NOT_APPLICABLE, reasons=(state.reason,))


_WORST_FIRST = (Verdict.FAIL, Verdict.ERROR, Verdict.NOT_RUN, Verdict.NOT_APPLICABLE, Verdict.RECORDED, Verdict.PASS)


def _worse(first: Judgement, second: Judgement, why: str) -> Judgement:
    """The worse of two judgements, at best an ERROR: there should have been one."""
    worse = min(first, second, key=lambda judgement: _WORST_FIRST.index(judgement.verdict))
    worse = replace(worse, reasons=(*worse.reasons, why))
    if worse.verdict is Verdict.FAIL:
        return worse
    return replace(worse, verdict=Verdict.ERROR, reason_code=str(Reason.HARNESS_ERROR))
