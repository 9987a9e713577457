"""Whether what came back after a kill is the same training: two step logs compared, property by property.

Pure: lines in, samples and facts out. It must not know a limit, a pod's manifest or how anything was killed.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from workloads.contract import Fact, Sample

NONE = "none"
MAX_NAMES = 6


class Where(StrEnum):
    """Where in its work the training stands when it is killed."""

    STEP = "step"
    """Between two saves: a step was told, and no save is open."""
    SAVE = "save"
    """Inside a save: its beginning was told, its end was not."""


@dataclass(frozen=True)
class Line:
    """One value of the trainer's line stream; `at_s` is when it was read, on the harness's clock."""

    at_s: float
    value: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """What it tells: joined, fresh, resumed, step, save, left, ended, failed, other-writer or final."""
        return str(self.value.get("e", ""))

    @property
    def step(self) -> int:
        """The step it speaks about; -1 where it speaks about none."""
        return int(self.value.get("step", -1))


@dataclass(frozen=True)
class Killed:
    """One kill: ordered at `at_s`, to land at this place and step; `pods_back` are the times of what came instead."""

    kind: str
    where: Where
    step: int
    at_s: float
    gone_s: float | None = None
    created_s: float | None = None
    scheduled_s: float | None = None
    running_s: float | None = None
    counted_as_completed: bool = False
    copies: int = 1
    """The most pods of one rank that ran at once."""
    node_before: str = ""
    node_after: str = ""


def lives(lines: Sequence[Line]) -> list[list[Line]]:
    """The lines of each life, from one meeting of the ranks to the next."""
    found: list[list[Line]] = [[]]
    for line in lines:
        if line.kind == "joined":
            found.append([])
        found[-1].append(line)
    return [life for life in found if life]


def complete_saves(lines: Iterable[Line]) -> set[int]:
    """The steps whose save was told to have ended."""
    return {line.step for line in lines if line.kind == "save" and line.value.get("at") == "end"}


def open_save(lines: Sequence[Line]) -> int | None:
    """The step of a save that was begun and not ended; None where there is none."""
    ended = complete_saves(lines)
    begun = [line.step for line in lines if line.kind == "save" and line.value.get("at") == "begin"]
    return begun[-1] if begun and begun[-1] not in ended else None


def cut_in_two(lines: Sequence[Line], step: int) -> bool:
    """Whether the ranks stand inside this save: every one has written its file, and nothing says so yet."""
    last = lives(lines)[-1] if lives(lines) else []
    written = any(line.kind == "save" and line.value.get("at") == "written" and line.step == step for line in last)
    return written and open_save(last) == step


def last_step(lines: Iterable[Line]) -> int:
    """The newest step told; 0 where none was."""
    return max((line.step for line in lines if line.kind == "step"), default=0)


def in_one_piece(lines: Iterable[Line]) -> bool:
    """Whether a training that nobody killed had no second life: no rank ended early, nothing was resumed."""
    return not any(line.kind in ("ended", "failed", "resumed") for line in lines)


def other_writers(*told: Sequence[Line]) -> str:
    """
    Who else had the folder of a training while it was at work, and what became of it; `none` where nobody had.

    Told by the trainer, which finds claims on its folder that are not its own; or shown by a checkpoint that it chose
    and whose writer is none of those whose saves these lines begin.
    """
    found: dict[str, None] = {}
    for lines in told:
        for line in lines:
            if line.kind == "other-writer":
                found[f"{line.value['who']}: {line.value['did']}"] = None
    wrote = {str(line.value.get("by", "")) for lines in told for line in lines if line.kind == "save"}
    for lines in told:
        for line in lines:
            by = str(line.value.get("by", ""))
            if line.kind == "chose" and by and by not in wrote:
                found[f"{by}: wrote the checkpoint of step {line.step}"] = None
    return _named(list(found))


def crashes_in_a_row(lines: Iterable[Line]) -> int:
    """How often rank 0 has failed by itself since it last got further than ever before."""
    count, farthest = 0, 0
    for line in lines:
        if line.kind == "step" and line.step > farthest:
            count, farthest = 0, line.step
        count += line.kind == "failed"
    return count


def landed(before: Sequence[Line], kill: Killed) -> str | None:
    """Why the kill did not land where it was meant to, by the lines of the life that it ended; None where it did."""
    last = lives(before)[-1] if lives(before) else []
    saving = open_save(last)
    if kill.where is Where.SAVE and saving != kill.step:
        return f"the kill was to land inside the save of step {kill.step}; the open save is {saving or NONE}"
    if kill.where is Where.STEP and last_step(last) < kill.step:
        return f"the kill was to land after step {kill.step}; the last step told is {last_step(last)}"
    return None


def judge(
    reference: Sequence[Line], before: Sequence[Line], after: Sequence[Line], kill: Killed
) -> tuple[tuple[Sample, ...], dict[str, Fact]]:
    """
    What became of one kill, as samples and facts.

    `reference` are the lines of the run that nobody killed, `before` those up to the end of the killed life, `after`
    those of what came back, up to the next kill. What cannot be said is left out: a limit without a sample is not met.
    """
    resumed = next((line for line in after if line.kind in ("resumed", "fresh")), None)
    # What was chosen and could not be read was never resumed from, but it was chosen.
    chosen = next((line for line in after if line.kind in ("chose", "fresh")), resumed)
    steps = [line for line in after if line.kind == "step"]
    facts: dict[str, Fact] = {
        "came_back": bool(steps),
        "counted_as_completed": kill.counted_as_completed,
        "uninterrupted_in_one_piece": in_one_piece(reference),
        "other_writers": other_writers(reference, before, after),
    }
    samples = [Sample("copies_of_a_rank", float(kill.copies), "count")]
    if chosen is not None:
        from_step = max(0, chosen.step)
        samples.append(Sample("steps_lost", float(max(0, last_step(before) - from_step)), "count"))
        facts["began_anew"] = from_step == 0
        facts["resumed_from_newest_complete"] = from_step == max(complete_saves(before), default=0)
        facts["resumed_from_complete"] = from_step in complete_saves(before)
    if resumed is not None and resumed.kind == "resumed":
        facts["restored_differently"] = _restored_differently(before, resumed)
        if "parallelism" in resumed.value:
            facts["parallelism"] = str(resumed.value["parallelism"])
    if steps:
        samples += _compared_steps(reference, steps, 0 if resumed is None else max(0, resumed.step))
        facts["passed_killed_step"] = last_step(steps) > last_step(before) or _ended_at(reference, steps)
        facts["saved_again"] = any(step >= kill.step for step in complete_saves(after))
        facts["saved_differently"] = _saved_differently(reference, after)
    waits = [float(line.value["visible_s"]) for line in [*reference, *after] if "visible_s" in line.value]
    if waits:
        samples.append(Sample("visible_after", max(waits), "s"))
    samples += _times(kill, resumed, steps)
    if kill.node_before and kill.node_after:
        facts["node_before"], facts["node_after"] = kill.node_before, kill.node_after
    return tuple(samples), facts


def judge_final(reference: Sequence[Line], lines: Sequence[Line]) -> tuple[tuple[Sample, ...], dict[str, Fact]]:
    """The last states compared tensor by tensor; nothing where either run did not tell its own."""
    mine, theirs = _final(lines), _final(reference)
    if mine is None or theirs is None:
        return (), {}
    different = sorted(name for name in mine.keys() & theirs.keys() if mine[name] != theirs[name])
    samples = (
        Sample("final_tensors_different", float(len(different)), "count"),
        Sample("final_tensors_missing", float(len(theirs.keys() - mine.keys())), "count"),
        Sample("final_tensors_extra", float(len(mine.keys() - theirs.keys())), "count"),
        Sample("final_tensors_compared", float(len(mine.keys() & theirs.keys())), "count"),
    )
    return samples, {"final_difference": _named(different)}


def judge_damages(lines: Sequence[Line]) -> dict[str, Fact]:
    """What the way back made of each damage to the newest checkpoint: "fell back", "refused", "loaded" and so on."""
    return {
        f"{line.value['how']}": ", ".join(str(word) for word in line.value["outcome"])
        for line in lines
        if line.kind == "damaged"
    }


def _compared_steps(reference: Sequence[Line], steps: Sequence[Line], from_step: int) -> list[Sample]:
    known = {line.step: line.value for line in reference if line.kind == "step"}
    told = [line.step for line in steps]
    unknown = sum(step not in known for step in told)
    wanted = range(from_step + 1, max(told) + 1)
    pairs = [(line.value, known[line.step]) for line in steps if line.step in known]
    gaps = len(set(wanted) - set(told)) + len(told) - len(set(told)) + sum(step <= from_step for step in told)
    samples = [
        Sample("steps_compared", float(len(pairs)), "count"),
        Sample("steps_missing_or_repeated", float(gaps + unknown), "count"),
    ]
    for metric, key in (
        ("steps_with_other_loss", "loss"),
        ("steps_with_other_learning_rate", "lr"),
        ("steps_with_other_samples", "ids"),
        ("steps_with_other_optimizer_count", "opt"),
    ):
        samples.append(Sample(metric, float(sum(mine.get(key) != other.get(key) for mine, other in pairs)), "count"))
    errors = [_relative(a, b) for mine, other in pairs for a, b in zip(_losses(mine), _losses(other), strict=False)]
    if errors:
        samples.append(Sample("loss_difference", max(errors), "1"))
    return samples


def _losses(value: Mapping[str, Any]) -> list[float]:
    return [struct.unpack(">d", bytes.fromhex(bits))[0] for bits in value.get("loss", ())]


def _relative(mine: float, other: float) -> float:
    if not (math.isfinite(mine) and math.isfinite(other)):
        return math.inf
    return abs(mine - other) / max(abs(other), 1e-30)


def _restored_differently(before: Sequence[Line], resumed: Line) -> str:
    """Which parts of the state are not what they were when the checkpoint was made; `none` where all are."""
    wanted = _sums_at(before, resumed.step)
    if wanted is None:
        return "unknown: no complete save of that step was told"
    return _difference(wanted, resumed.value.get("sums") or {})


def _saved_differently(reference: Sequence[Line], after: Sequence[Line]) -> str:
    """Which parts of the state differ from the reference's at the saves that both made."""
    different: dict[str, None] = {}
    compared = 0
    for step in sorted(complete_saves(after)):
        mine, theirs = _sums_at(after, step), _sums_at(reference, step)
        if mine is None or theirs is None:
            continue
        compared += 1
        found = _difference(theirs, mine)
        if found != NONE:
            different |= dict.fromkeys(found.split(", "))
    if not compared:
        return "unknown: no save that the reference made too"
    return _named(list(different))


def _difference(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    return _named(sorted(part for part in wanted.keys() | found.keys() if wanted.get(part) != found.get(part)))


def _sums_at(lines: Iterable[Line], step: int) -> Mapping[str, Any] | None:
    found = [line for line in lines if line.kind == "save" and line.value.get("at") == "end" and line.step == step]
    sums = found[-1].value.get("sums") if found else None
    return sums if isinstance(sums, Mapping) and sums else None


def _named(names: Sequence[str]) -> str:
    more = f", and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + more if names else NONE


def _ended_at(reference: Sequence[Line], steps: Sequence[Line]) -> bool:
    return last_step(steps) == last_step(reference)


def _final(lines: Iterable[Line]) -> Mapping[str, Any] | None:
    sums = next((line.value.get("sums") for line in lines if line.kind == "final"), None)
    return sums if isinstance(sums, Mapping) and sums else None


def _times(kill: Killed, resumed: Line | None, steps: Sequence[Line]) -> list[Sample]:
    """From the kill to the first new step, cut where the next thing was seen; a part without both ends is left out."""
    first = steps[0].at_s if steps else None
    marks = [
        ("detection", kill.at_s, kill.gone_s),
        ("controller", kill.gone_s, kill.created_s),
        ("scheduling", kill.created_s, kill.scheduled_s),
        ("pulling_and_starting", kill.scheduled_s, kill.running_s),
        ("loading", kill.running_s, resumed.at_s if resumed else None),
        ("first_step", resumed.at_s if resumed else None, first),
        ("all", kill.at_s, first),
    ]
    return [
        Sample("recovery_time", max(0.0, end - start), "s", {"part": part})
        for part, start, end in marks
        if start is not None and end is not None
    ]
