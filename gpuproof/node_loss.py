"""Takes a node away by the site's own command, which the profile names; no other module ends anything but pods.

Owns what such a command must look like and how it is run. It must not know a training, a limit or a verdict. What the
cluster makes of a lost node is what is being asked: nothing here cordons, taints or deletes.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuproof.failure import JobFailure, Reason

CHECK = "checkpoint_node_lost"
KILL = "node_lost"
NODE = "{node}"
PARAMETERS = ("command", "command_within_s", "recover_within_s")
"""What the profile says of it, in `[workload.checkpoint_node_lost]`."""
_OUTPUT_BYTES = 4096


class NodeLossError(ValueError):
    """The profile's table cannot be used: which key, what belongs there, what was found, and what to do."""

    def __init__(self, key: str, expected: str, found: str, next_step: str) -> None:
        super().__init__(f"{key}: expected {expected}, found {found}; {next_step}")
        self.key, self.expected, self.found, self.next_step = key, expected, found, next_step


@dataclass(frozen=True)
class NodeLoss:
    """The command as words, one of which holds `{node}`; how long it may take, and then the training to come back."""

    command: tuple[str, ...]
    command_within_s: float
    recover_within_s: float
    environment: Mapping[str, str] = field(default_factory=dict)
    """What it is told beside its words, e.g. KUBECONFIG."""

    def words(self, node: str) -> tuple[str, ...]:
        """The command for this node."""
        return tuple(word.replace(NODE, node) for word in self.command)

    def take(self, node: str) -> JobFailure | None:
        """Run it for this node and wait for its end; why that came to nothing, with all that it said."""
        words = self.words(node)
        shown = " ".join(words)
        try:
            done = subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=self.command_within_s,
                env={**os.environ, **self.environment},
                check=False,
            )
        except OSError as error:
            return JobFailure(Reason.HARNESS_ERROR, f"{node} was not taken away: {shown} could not be run: {error}")
        except subprocess.TimeoutExpired as error:
            said = f"{node} may be gone or not: {shown} did not end within {self.command_within_s:g} s"
            return JobFailure(Reason.HARNESS_ERROR, said, _output(error.output))
        if done.returncode != 0:
            said = f"{node} was not taken away: {shown} ended with {done.returncode}, expected 0; see what it said"
            return JobFailure(Reason.HARNESS_ERROR, said, _output(done.stdout))
        return None


def read_node_loss(given: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> NodeLoss:
    """What `[workload.checkpoint_node_lost]` says; raises `NodeLossError`."""
    command = given.get("command")
    if not isinstance(command, list) or not command or not all(isinstance(word, str) and word for word in command):
        raise NodeLossError(
            "command",
            'the words of a command that takes a node\'s power, e.g. ["/opt/site/power-off", "{node}"]',
            "none" if command is None else repr(command),
            f"name it, or make {CHECK} not-applicable with a reason",
        )
    if not any(NODE in word for word in command[1:]):
        raise NodeLossError(
            "command",
            f'a word with "{NODE}" after the program, where the node\'s name is put',
            repr(command),
            f'add "{NODE}": without it the command would not know which node to take',
        )
    seconds = {key: _seconds(given, key) for key in ("command_within_s", "recover_within_s")}
    return NodeLoss(tuple(command), **seconds, environment=environment or {})


def _seconds(given: Mapping[str, Any], key: str) -> float:
    value = given.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise NodeLossError(
            key, "seconds, more than 0", "none" if value is None else repr(value), "state it: it has no default"
        )
    return float(value)


def _output(said: bytes | None) -> tuple[str, ...]:
    text = (said or b"")[-_OUTPUT_BYTES:].decode(errors="replace").strip()
    return (text,) if text else ()
