"""What an interrupted run has settled, read from its record: verdicts that need not be asked for again.

Must not know a cluster; a verdict counts only if the profile that judged it is the one in force.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpuproof.decision import VerdictLine
from gpuproof.verdict import Verdict

SETTLED = (Verdict.PASS, Verdict.FAIL, Verdict.RECORDED)
"""What was measured stays measured; ERROR and NOT_RUN are asked again."""


def earlier_verdicts(lines: Iterable[Mapping[str, Any]], sha256: str) -> dict[tuple[str, str], VerdictLine]:
    """The settled verdicts by (check, subject); ValueError where another profile judged them or nothing was begun."""
    found: dict[tuple[str, str], VerdictLine] = {}
    begun = False
    for line in lines:
        if line["event"] == "run_started":
            begun = True
            judged_by = line["profile"]["sha256"]
            if judged_by != sha256:
                raise ValueError(
                    f"it was judged by a profile with sha256 {judged_by[:12]}, this one has {sha256[:12]}; "
                    "use the same profile, or start a new run"
                )
        if line["event"] == "verdict" and line["verdict"] in SETTLED:
            key = (line["check"], line["subject"])
            found[key] = VerdictLine(*key, Verdict(line["verdict"]), tuple(line["reasons"]))
    if not begun:
        raise ValueError("its record has no run_started line, so there is nothing to continue")
    return found
