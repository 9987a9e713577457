"""Which rule of a podFailurePolicy a failed pod matches, and what follows.

Owns the matching (on exit codes, on pod conditions); must not know what the Job controller does with the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from simcluster.api.port import Object
from simcluster.controllers import fields


@dataclass(frozen=True)
class Judgement:
    """`action` of the first matching rule (None: no rule matches); `message` for FailJob only."""

    action: str | None = None
    message: str | None = None

    @property
    def counts(self) -> bool:
        """The failure counts toward the back-off limits."""
        return self.action != "Ignore"


def judge(rules: Sequence[Object] | None, pod: Object) -> Judgement:
    """The first rule that matches decides; without policy or match the failure simply counts."""
    for position, rule in enumerate(rules or ()):
        match = _exit_code_match(rule, pod) or _condition_match(rule, pod)
        if match is not None:
            action = rule["action"]
            message = f"{match} matching {action} rule at index {position}" if action == "FailJob" else None
            return Judgement(action, message)
    return Judgement()


def _exit_code_match(rule: Object, pod: Object) -> str | None:
    wanted = rule.get("onExitCodes")
    if not wanted:
        return None
    status = fields.status(pod)
    for container in [*(status.get("containerStatuses") or []), *(status.get("initContainerStatuses") or [])]:
        if wanted.get("containerName") not in (None, container["name"]):
            continue
        code = ((container.get("state") or {}).get("terminated") or {}).get("exitCode", 0)
        if code and (code in wanted["values"]) == (wanted["operator"] == "In"):
            where = f"{fields.namespace(pod)}/{fields.name(pod)}"
            return f"Container {container['name']} for pod {where} failed with exit code {code}"
    return None


def _condition_match(rule: Object, pod: Object) -> str | None:
    for wanted in rule.get("onPodConditions") or []:
        found: dict[str, Any] | None = fields.condition(pod, wanted["type"])
        if found is not None and found.get("status") == wanted.get("status", "True"):
            return f"Pod {fields.namespace(pod)}/{fields.name(pod)} has condition {wanted['type']}"
    return None
