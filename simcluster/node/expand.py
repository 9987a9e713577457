"""$(VAR) references in commands, arguments and values, as Kubernetes expands them (golden 13b).

Owns that one rule: known $(VAR) is replaced, unknown stays, $$ is an escape for $. Knows nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_REFERENCE = re.compile(r"\$\$|\$\(([^()]*)\)")


def expand(text: str, known: Mapping[str, str]) -> str:
    """`text` with its references replaced."""

    def replace(match: re.Match[str]) -> str:
        if match.group(0) == "$$":
            return "$"
        return known.get(match.group(1), match.group(0))

    return _REFERENCE.sub(replace, text)
