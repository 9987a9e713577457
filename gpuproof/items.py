"""What a pytest item is about: the run of its session, its check and its subject.

Must not know how anything is asked or shown.
"""

from __future__ import annotations

import pytest

from gpuproof.launch import Launched
from gpuproof.suite import Subject

LAUNCHED = pytest.StashKey[Launched]()
NEEDS = "acceptance checks need --profile FILE and a cluster: --cluster sim, --context NAME or --in-cluster"


def launched_of(config: pytest.Config) -> Launched:
    """The run of this session; raises `pytest.UsageError` where there is none."""
    try:
        return config.stash[LAUNCHED]
    except KeyError:
        raise pytest.UsageError(NEEDS) from None


def identity(item: pytest.Item) -> tuple[str, Subject]:
    """The check and the subject that a test item is about; raises `pytest.UsageError` where it is neither."""
    mark = item.get_closest_marker("check")
    callspec = getattr(item, "callspec", None)
    if mark is None or callspec is None:
        raise pytest.UsageError(
            f"{item.nodeid}: a check needs pytest.mark.check(NAME) and asks a `node`, the `cluster` or the `gang`"
        )
    named = [callspec.params[name] for name in ("node", "cluster", "gang") if name in callspec.params]
    subject: Subject = named[0]
    return str(mark.args[0]), subject
